#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include "base/files.h"
#include "io/safetensors.h"
#include "io/weight_files.h"
#include "models/config.h"
#include "util/command.h"
#include "util/temp_folder.h"

namespace lshformer::cli {
namespace {

using lshformer::testing::RunCommand;
using lshformer::testing::TempFolder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

// The program itself on a checkpoint: everything asked for is there, nothing else.
TEST(InspectTest, WritesWhatIsAskedFor) {
  const std::string model = std::string(LSHFORMER_SOURCE_DIR) + "/tests/golden/models/masked_lm";
  const TempFolder folder;
  const std::string out = folder / "out.safetensors";
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> words{
        LSHFORMER_BINARY, "inspect", "--model_name_or_path", model, "--input", model + "/batch.jsonl", "--output", out};
    words.insert(words.end(), more.begin(), more.end());
    return RunCommand(words);
  };
  ASSERT_EQ(run({}).status, 0);
  EXPECT_EQ(SafetensorsFile(out).tensors().size(), 4u);  // cu_seqlens, last_hidden_state, logits, loss
  const auto everything =
      run({"--hidden_states", "--attentions", "--gradients", "--attention", "simhash", "--lsh_fill", "none"});
  ASSERT_EQ(everything.status, 0) << everything.err;
  EXPECT_THAT(everything.err,
              MatchesRegex("lshformer: warning: " + model +
                           ": was made with dense attention; under simhash its answers change; convert measures how "
                           "much \\(docs/convert.md\\); here the first 4 texts' mean states have a cosine of "
                           "0\\.[0-9]+ to before\n"));
  const auto own = run({"--attention", "dense"});
  EXPECT_THAT(own.err, IsEmpty());
  const auto failed = RunCommand({LSHFORMER_BINARY, "inspect", "--model_name_or_path", model, "--input",
                                  folder / "none.jsonl", "--output", out, "--attention", "simhash"});
  EXPECT_EQ(std::count(failed.err.begin(), failed.err.end(), '\n'), 1) << failed.err;  // the error alone
  ASSERT_EQ(run({"--hidden_states", "--attentions", "--gradients", "--attention", "simhash"}).status, 0);
  const SafetensorsFile file(out);
  const SafetensorsFile expected(model + "/expected.safetensors");
  for (const auto& [name, view] : expected.tensors()) {
    ASSERT_NE(file.Find(name), nullptr) << name;
    EXPECT_EQ(file.Find(name)->shape, view.shape) << name;
  }
  EXPECT_EQ(file.tensors().size(), expected.tensors().size());
}

// Reformer's keys are its queries: the key map has no gradient. Its maps add up to 1 all the same.
TEST(InspectTest, ReformerUsesNoKeyMap) {
  const std::string model = std::string(LSHFORMER_SOURCE_DIR) + "/tests/golden/models/masked_lm";
  const TempFolder folder;
  const std::string out = folder / "out.safetensors";
  const auto run = RunCommand({LSHFORMER_BINARY, "inspect", "--model_name_or_path", model, "--input",
                               model + "/batch.jsonl", "--output", out, "--attentions", "--gradients", "--attention",
                               "reformer", "--lsh_chunk", "4", "--lsh_rounds", "2"});
  ASSERT_EQ(run.status, 0) << run.err;
  const SafetensorsFile file(out);
  const auto values = [&](const std::string& name) {
    const TensorView& view = file.Get(name, DType::kF32);
    std::vector<float> numbers(view.elements());
    CopyTo<float>(view, numbers, name);
    return numbers;
  };
  const auto largest = [](const std::vector<float>& x) {
    float top = 0;
    for (const float value : x) top = std::max(top, std::abs(value));
    return top;
  };
  int maps = 0;
  for (const auto& [name, view] : file.tensors()) {
    if (name.find("self.key") != std::string::npos) {
      EXPECT_EQ(largest(values(name)), 0) << name;
    } else if (name.find("self.query") != std::string::npos) {
      EXPECT_GT(largest(values(name)), 0) << name;
    } else if (name.starts_with("attentions.")) {
      ++maps;
      const std::vector<float> map = values(name);
      const int64_t n = view.shape[2];
      for (size_t row = 0; row < map.size(); row += n)
        EXPECT_NEAR(std::accumulate(map.begin() + row, map.begin() + row + n, 0.0f), 1, 1e-5) << name;
    }
  }
  EXPECT_GT(maps, 0);
}

// Text goes through the tokenizer of the model's folder; its ids, given as such, give the same numbers.
TEST(InspectTest, ReadsText) {
  const std::string golden = std::string(LSHFORMER_SOURCE_DIR) + "/tests/golden/models/masked_lm";
  const TempFolder folder;
  std::filesystem::copy(golden, folder / "model");
  const int64_t vocab_size = ReadModelConfig(folder / "model/config.json").vocab_size;
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\n##s\nsat\n";
  for (int64_t id = 9; id < vocab_size; ++id) vocabulary += "unused" + std::to_string(id) + "\n";
  folder.Write("model/vocab.txt", vocabulary);
  const auto run = [&](const std::string& lines) {
    const std::string out = folder / "out.safetensors";
    const auto result = RunCommand({LSHFORMER_BINARY, "inspect", "--model_name_or_path", folder / "model", "--input",
                                    folder.Write("batch.jsonl", lines), "--output", out});
    EXPECT_EQ(result.status, 0) << result.err;
    std::map<std::string, std::vector<std::byte>> tensors;
    if (result.status != 0) return tensors;
    const SafetensorsFile file(out);
    for (const auto& [name, view] : file.tensors()) tensors[name] = {view.bytes.begin(), view.bytes.end()};
    return tensors;
  };
  const auto text = run("{\"text\": \"The cats sat\", \"text_pair\": \"cat dog\"}\n{\"text\": \"[MASK] sat\"}\n");
  ASSERT_EQ(text.size(), 3u);  // cu_seqlens, last_hidden_state, logits
  EXPECT_EQ(text, run("{\"input_ids\": [2, 5, 6, 7, 8, 3, 6, 1, 3], \"token_type_ids\": [0, 0, 0, 0, 0, 0, 1, 1, 1]}\n"
                      "{\"input_ids\": [2, 4, 8, 3]}\n"));
  EXPECT_NE(text.at("logits"), run("{\"text\": \"The cats sat\", \"text_pair\": \"cat cat\"}\n"
                                   "{\"text\": \"[MASK] sat\"}\n")
                                   .at("logits"));
  for (const char* blank : {"", " ", "\\u00a0\\t"}) {
    const std::string input =
        folder.Write("batch.jsonl", fmt::format("{{\"text\": \"the\"}}\n{{\"text\": \"{}\"}}\n", blank));
    const auto result = RunCommand({LSHFORMER_BINARY, "inspect", "--model_name_or_path", folder / "model", "--input",
                                    input, "--output", folder / "out.safetensors"});
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.err, "lshformer: " + input + ":2: \"text\" has no tokens: it is blank\n");
  }
}

// What is drawn anew says nothing of a model.
TEST(InspectTest, AnEncoderSavedWithoutItsPoolerHasNone) {
  const std::string model = std::string(LSHFORMER_SOURCE_DIR) + "/tests/golden/models/encoder";
  const TempFolder folder;
  folder.Write("model/config.json", ReadFile(model + "/config.json"));
  const std::string input = folder.Write("b.jsonl", "{\"input_ids\": [5, 6, 7]}\n");
  const auto inspect = [&](const std::string& from) {
    const std::string output = folder / "out.safetensors";
    const auto result =
        RunCommand({LSHFORMER_BINARY, "inspect", "--model_name_or_path", from, "--input", input, "--output", output});
    EXPECT_EQ(result.status, 0) << result.err;
    const SafetensorsFile file(output);
    const TensorView* states = file.Find("last_hidden_state");
    return std::pair(std::vector(states->bytes.begin(), states->bytes.end()), file.Find("pooler_output") != nullptr);
  };
  const WeightFiles whole(model);
  std::vector<NamedTensor> kept;
  for (const std::string& name : whole.names())
    if (name.find("pooler") == std::string::npos) kept.push_back({name, *whole.Find(name)});
  WriteSafetensors(folder / "model/model.safetensors", kept);
  const auto [want, pooled] = inspect(model);
  const auto [got, drawn] = inspect(folder / "model");
  EXPECT_EQ(got, want);
  EXPECT_TRUE(pooled);
  EXPECT_FALSE(drawn);
}

TEST(InspectTest, FailsWithOneLine) {
  const std::string model = std::string(LSHFORMER_SOURCE_DIR) + "/tests/golden/models/encoder";
  const TempFolder folder;
  const std::string input = folder.Write("b.jsonl", "{\"input_ids\": [5]}\n\n");
  const std::vector<std::string> words{
      LSHFORMER_BINARY,          "inspect", "--model_name_or_path", model, "--input", input, "--output",
      folder / "out.safetensors"};
  const auto blank = RunCommand(words);
  EXPECT_EQ(blank.status, 1);
  EXPECT_THAT(blank.err, HasSubstr("b.jsonl:2: the line is blank"));
  auto head = words;
  head.insert(head.end(), {"--task", "fill-mask"});
  EXPECT_THAT(RunCommand(head).err, HasSubstr("cls.predictions"));
  folder.Write("b.jsonl", "{\"input_ids\": [5]}\n");
  auto gradients = words;
  gradients.push_back("--gradients");
  const auto usage = RunCommand(gradients);
  EXPECT_EQ(usage.status, 2);
  EXPECT_THAT(usage.err, HasSubstr("--gradients: needs labels"));
}

}  // namespace
}  // namespace lshformer::cli
