// Reversible models from the command line: pretrained, resumed, fine-tuned under every head, evaluated, asked, looked
// at.
#include <algorithm>
#include <filesystem>

#include "base/json.h"
#include "cli/training_run.h"
#include "io/safetensors.h"

namespace lshformer::cli {
namespace {

using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::testing::HasSubstr;

class ReversibleRunTest : public TrainingRunTest {
 protected:
  void SetUp() override {
    TrainingRunTest::SetUp();
    folder_.Write("questions.json",
                  R"({"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "a cat sits on the bed",
                      "qas": [{"id": "q", "question": "who sits", "answers": [{"text": "cat", "answer_start": 2}]}]}]}]})");
  }
  CommandResult Runs(std::vector<std::string> words) const {
    words.insert(words.begin(), LSHFORMER_BINARY);
    words.insert(words.end(), {"--threads", "2"});
    CommandResult result = RunCommand(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return result;
  }
  std::string Fails(std::vector<std::string> words, int status) const {
    words.insert(words.begin(), LSHFORMER_BINARY);
    return TrainingRunTest::Fails(words, status);
  }
  std::vector<std::string> Pretrain(const std::string& output, std::vector<std::string> more = {},
                                    const std::string& overrides = "reversible=true,chunk_size_feed_forward=10") const {
    std::vector<std::string> words{"pretrain",
                                   "--no_progress",
                                   "--config_overrides",
                                   "hidden_size=16,num_hidden_layers=3,num_attention_heads=2,intermediate_size=24,"
                                   "max_position_embeddings=32," +
                                       overrides,
                                   "--tokenizer_name",
                                   folder_ / "tokenizer",
                                   "--train_file",
                                   folder_ / "text.txt",
                                   "--attention",
                                   "simhash",
                                   "--output_dir",
                                   folder_ / output,
                                   "--max_steps",
                                   "8",
                                   "--per_device_train_batch_size",
                                   "4"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(ReversibleRunTest, ServesEveryCommand) {
  Runs(Pretrain("base", {"--do_eval", "--save_steps", "4"}));
  const Json config = ReadJsonFile(folder_ / "base/config.json");
  EXPECT_EQ(config["reversible"], true);
  EXPECT_EQ(config["chunk_size_feed_forward"], 10);
  // From the middle to the same bits.
  Runs(Pretrain("resumed",
                {"--do_eval", "--save_steps", "4", "--resume_from_checkpoint", folder_ / "base/checkpoint-4"}));
  EXPECT_EQ(Weights("resumed"), Weights("base"));
  // Every head on top of it.
  Runs({"train", "--no_progress", "--task", "text-classification", "--model_name_or_path", folder_ / "base",
        "--train_file", folder_ / "glue/train.tsv", "--validation_file", folder_ / "glue/train.tsv", "--do_eval",
        "--output_dir", folder_ / "labels", "--max_steps", "3"});
  Runs({"evaluate", "--no_progress", "--task", "text-classification", "--model_name_or_path", folder_ / "labels",
        "--validation_file", folder_ / "glue/train.tsv"});
  Runs({"train", "--no_progress", "--task", "question-answering", "--model_name_or_path", folder_ / "base",
        "--train_file", folder_ / "questions.json", "--validation_file", folder_ / "questions.json", "--do_eval",
        "--output_dir", folder_ / "answers", "--max_steps", "3", "--max_seq_length", "30", "--doc_stride", "5"});
  for (const std::vector<std::string>& task :
       {std::vector<std::string>{"base", "fill-mask", "--text", "a [MASK] b"},
        {"labels", "text-classification", "--text", "good cat"},
        {"base", "feature-extraction", "--text", "good cat"},
        {"answers", "question-answering", "--question", "who", "--context", "a cat sits"}}) {
    std::vector<std::string> words{"predict", "--model_name_or_path", folder_ / task[0], "--task"};
    words.insert(words.end(), task.begin() + 1, task.end());
    EXPECT_THAT(Runs(words).out, HasSubstr("{")) << task[1];
  }
  Runs(Pretrain("pairs", {"--objective", "mlm+nsp"}));
}

TEST_F(ReversibleRunTest, InspectAndInfoKnowIt) {
  Runs(Pretrain("base"));
  folder_.Write("batch.jsonl", R"({"input_ids": [2, 8, 9, 10, 3], "labels": [-100, 8, -100, 10, -100]})");
  Runs({"inspect", "--model_name_or_path", folder_ / "base", "--input", folder_ / "batch.jsonl", "--output",
        folder_ / "out.safetensors", "--hidden_states", "--attentions", "--gradients"});
  const SafetensorsFile file(folder_ / "out.safetensors");
  for (const char* name :
       {"hidden_states.0", "hidden_states.3", "attentions.2.0", "loss", "last_hidden_state",
        "gradients.bert.encoder.LayerNorm.weight", "gradients.bert.encoder.layer.2.attention.LayerNorm.bias",
        "gradients.bert.encoder.layer.0.intermediate.LayerNorm.weight"})
    EXPECT_NE(file.Find(name), nullptr) << name;
  EXPECT_EQ(file.Find("hidden_states.4"), nullptr);
  EXPECT_EQ(file.Find("attentions.2.1"), nullptr);
  EXPECT_THAT(Runs({"info", folder_ / "base"}).out, HasSubstr("reversible"));
  const Json costs = Json::parse(Runs({"info", folder_ / "base", "--json"}).out)["costs"];
  EXPECT_GT(costs[0]["training_bytes"].get<double>(), 0);
}

// The same weights with less memory; and told apart from what does nothing.
TEST_F(ReversibleRunTest, GradientCheckpointing) {
  Runs(Pretrain("plain", {}, "reversible=false"));
  Runs(Pretrain("checkpointed", {"--gradient_checkpointing"}, "reversible=false"));
  EXPECT_EQ(Weights("plain"), Weights("checkpointed"));
  EXPECT_THAT(Fails(Pretrain("reversible", {"--gradient_checkpointing"}), 2),
              HasSubstr("--gradient_checkpointing: the model is reversible"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "reversible"));
}

TEST_F(ReversibleRunTest, IsConvertedAndRecovered) {
  std::vector<std::string> exact = Pretrain("base");
  std::replace(exact.begin(), exact.end(), std::string("simhash"), std::string("dense"));
  for (std::string& word : exact)  // enough for a text that is clustered
    if (const size_t at = word.find("embeddings=32"); at != word.npos) word.replace(at, 13, "embeddings=64");
  Runs(exact);
  std::string text;
  for (int line = 0; line < 4; ++line) {
    for (int word = 0; word < 50; ++word) text += word % 3 == line % 3 ? "cat " : "sits ";
    text += "bed\n";
  }
  const std::string texts = folder_.Write("long.txt", text);
  const CommandResult result =
      Runs({"convert", "--model_name_or_path", folder_ / "base", "--dry_run", "--json", "--quiet", "--calibrate", texts,
            "--lsh_open", "1", "--recover_steps", "2", "--train_file", texts});
  EXPECT_EQ(ParseJson(result.out, "report")["recover_steps"], 2);
}

TEST_F(ReversibleRunTest, BadValuesAreNamed) {
  EXPECT_THAT(Fails(Pretrain("run", {}, "reversible=perhaps"), 2),
              HasSubstr("--config_overrides: \"reversible\": expected true or false, got \"perhaps\""));
  EXPECT_THAT(Fails(Pretrain("run", {}, "chunk_size_feed_forward=-1"), 2),
              HasSubstr("\"chunk_size_feed_forward\": expected 0 to 2147483647, got -1"));
  EXPECT_THAT(Fails(Pretrain("run", {}, "chunk_size_feed_forward=many"), 2), HasSubstr("\"chunk_size_feed_forward\""));
}

// Tensors of a step as `bench train` counts them: alike at 2 and at 12 layers, in the order of the flags.
TEST(BenchTrainMemory, OfReversibleModelsDoesNotGrowWithDepth) {
  const std::string sizes =
      "vocab_size=50,hidden_size=32,num_attention_heads=2,intermediate_size=64,max_position_embeddings=512,";
  const CommandResult result = RunCommand(
      {LSHFORMER_BINARY, "bench", "train", "--json", "--no_machine", "--runs", "1", "--batch_size", "2", "--lengths",
       "512", "--config_overrides", sizes + "reversible=true,num_hidden_layers=2", "--config_overrides",
       sizes + "reversible=true,num_hidden_layers=12", "--config_overrides", sizes + "num_hidden_layers=12"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json rows = ParseJson(result.out, "stdout")["results"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["name"], "dense, reversible=true,num_hidden_layers=2");
  EXPECT_EQ(rows[1]["name"], "dense, reversible=true,num_hidden_layers=12");
  EXPECT_EQ(rows[2]["name"], "dense, num_hidden_layers=12");
  EXPECT_EQ(rows[1]["layers"], 12);
  const auto bytes = [&](int row) { return rows[row]["activation_bytes"].get<double>(); };
  EXPECT_LE(bytes(1), 1.05 * bytes(0));
  EXPECT_GE(bytes(2), 4 * bytes(1));
}

}  // namespace
}  // namespace lshformer::cli
