#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include "io/model_config.h"
#include "io/safetensors.h"
#include "jobs/inspect_batch.h"
#include "util/command.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer::cli {
namespace {

using lshformer::testing::ErrorOf;
using lshformer::testing::RunCommand;
using lshformer::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ModelConfig Config() {
  ModelConfig config;
  config.vocab_size = 50, config.max_position_embeddings = 4, config.num_labels = 3;
  return config;
}

std::shared_ptr<const Tokenizer> NoTokenizer() { Fail("no tokenizer here"); }

InspectBatch Read(const std::string& lines, LabelKind labels) {
  const TempFolder folder;
  return ReadInspectBatch(folder.Write("b.jsonl", lines), Config(), labels, NoTokenizer);
}

std::string ErrorIn(const std::string& lines, LabelKind labels = LabelKind::kNone) {
  return ErrorOf([&] { Read(lines, labels); });
}

TEST(InspectBatchTest, LinesBecomeSequences) {
  const auto [batch, labelled] = Read(
      "{\"input_ids\": [7, 8], \"token_type_ids\": [0, 1], \"labels\": [-100, 9]}\n{\"input_ids\": [1], \"extra\": "
      "{}}\n",
      LabelKind::kToken);
  EXPECT_THAT(batch.ids, ElementsAre(7, 8, 1));
  EXPECT_THAT(batch.type_ids, ElementsAre(0, 1, 0));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 0));
  EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 2, 3));
  EXPECT_THAT(batch.token_labels, ElementsAre(-100, 9, -100));
  EXPECT_TRUE(labelled);
}

TEST(InspectBatchTest, SpansOnAllLinesOrOnNone) {
  const std::string lines =
      "{\"input_ids\": [7, 8], \"start_positions\": 1, \"end_positions\": 9}\n"
      "{\"input_ids\": [8], \"start_positions\": -1, \"end_positions\": 0}";
  const auto [batch, labelled] = Read(lines, LabelKind::kSpan);
  EXPECT_TRUE(labelled);
  EXPECT_THAT(batch.start_positions, ElementsAre(1, -1));
  EXPECT_THAT(batch.end_positions, ElementsAre(9, 0));
  EXPECT_FALSE(Read("{\"input_ids\": [7]}", LabelKind::kSpan).labelled);
  EXPECT_THAT(ErrorIn("{\"input_ids\": [7], \"start_positions\": 0}", LabelKind::kSpan),
              HasSubstr("b.jsonl:1: expected both \"start_positions\" and \"end_positions\", or neither"));
  EXPECT_THAT(ErrorIn(lines + "\n{\"input_ids\": [7]}", LabelKind::kSpan),
              HasSubstr("b.jsonl:3: has no \"start_positions\", but the lines before have them"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [7], \"start_positions\": 0.5, \"end_positions\": 1}", LabelKind::kSpan),
              HasSubstr("b.jsonl:1: \"start_positions\": expected -2147483648 to 2147483647"));
}

TEST(InspectBatchTest, LabelsOfEveryKind) {
  const std::string lines = "{\"input_ids\": [7], \"labels\": 2}\n{\"input_ids\": [8], \"labels\": 0}";
  EXPECT_THAT(Read(lines, LabelKind::kClass).batch.class_labels, ElementsAre(2, 0));
  EXPECT_THAT(Read(lines, LabelKind::kValue).batch.float_labels, ElementsAre(2.0f, 0.0f));
  EXPECT_FALSE(Read(lines, LabelKind::kNone).labelled);
  const auto none = Read("{\"input_ids\": [7]}", LabelKind::kToken);
  EXPECT_FALSE(none.labelled);
  EXPECT_THAT(none.batch.token_labels, IsEmpty());
}

TEST(InspectBatchTest, LabelsOfPretraining) {
  constexpr LabelKind kBoth = LabelKind::kTokenAndNext;
  const auto both = Read(
      "{\"input_ids\": [7, 8], \"labels\": [-100, 9], \"next_sentence_label\": 1}\n"
      "{\"input_ids\": [1], \"next_sentence_label\": 0}",
      kBoth);
  EXPECT_THAT(both.batch.token_labels, ElementsAre(-100, 9, -100));
  EXPECT_THAT(both.batch.class_labels, ElementsAre(1, 0));
  const auto next = Read("{\"input_ids\": [7, 8], \"next_sentence_label\": 1}", kBoth);
  EXPECT_TRUE(next.labelled);
  EXPECT_THAT(next.batch.token_labels, IsEmpty());
  EXPECT_FALSE(Read("{\"input_ids\": [7]}", kBoth).labelled);
  EXPECT_THAT(ErrorIn("{\"input_ids\": [7]}\n{\"input_ids\": [8], \"next_sentence_label\": 1}", kBoth),
              HasSubstr(":2: has \"next_sentence_label\", but the lines before have none"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [8], \"next_sentence_label\": 1}\n{\"input_ids\": [7]}", kBoth),
              HasSubstr(":2: has no \"next_sentence_label\", but the lines before have them"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [8], \"next_sentence_label\": 2}", kBoth), HasSubstr("next_sentence_label"));
}

TEST(InspectBatchTest, BadLinesAreNamed) {
  const std::string good = "{\"input_ids\": [7]}\n";
  EXPECT_THAT(ErrorIn(""), HasSubstr("b.jsonl: has no line"));
  EXPECT_THAT(ErrorIn(good + "\n"), HasSubstr("b.jsonl:2: the line is blank"));
  EXPECT_THAT(ErrorIn(good + " \t\n" + good), HasSubstr("b.jsonl:2: the line is blank"));
  EXPECT_THAT(ErrorIn(good + "{\"input_ids\": [}"), HasSubstr("b.jsonl:2"));
  EXPECT_THAT(ErrorIn("[1]"), HasSubstr("b.jsonl:1: expected a JSON object"));
  EXPECT_THAT(ErrorIn(good + "{\"input_ids\": []}"), HasSubstr("b.jsonl:2: the sequence is empty"));
  EXPECT_THAT(ErrorIn("{}"), HasSubstr("expected \"input_ids\" or \"text\", got neither"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1], \"text\": \"a\"}"), HasSubstr("got both"));
  EXPECT_THAT(ErrorIn("{\"text\": \"a\"}"), HasSubstr("no tokenizer here"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": 5}"), HasSubstr("expected a list of integers"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1, 50]}"),
              HasSubstr("\"input_ids\"[1] is 50, expected an integer from 0 to 49"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [-1]}"), HasSubstr("\"input_ids\"[0] is -1"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1.5]}"), HasSubstr("\"input_ids\"[0] is 1.5"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [99999999999999999999]}"), HasSubstr("\"input_ids\"[0]"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1, 2, 3, 4, 5]}"),
              HasSubstr("b.jsonl:1: the sequence has 5 tokens, max_position_embeddings is 4"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1, 2], \"token_type_ids\": [0]}"),
              HasSubstr("1 \"token_type_ids\" for 2 \"input_ids\""));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1], \"token_type_ids\": [2]}"), HasSubstr("\"token_type_ids\"[0] is 2"));
}

TEST(InspectBatchTest, BadLabelsAreNamed) {
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1, 2], \"labels\": [1]}", LabelKind::kToken),
              HasSubstr("1 \"labels\" for 2 tokens"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1], \"labels\": [-1]}", LabelKind::kToken), HasSubstr("\"labels\"[0] is -1"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1], \"labels\": 3}", LabelKind::kClass), HasSubstr("b.jsonl:1"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1], \"labels\": \"x\"}", LabelKind::kValue), HasSubstr("b.jsonl:1"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1], \"labels\": 1}\n{\"input_ids\": [1]}", LabelKind::kClass),
              HasSubstr("b.jsonl:2: has no \"labels\", but the lines before have them"));
}

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
  EXPECT_THAT(everything.err, IsEmpty());
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
