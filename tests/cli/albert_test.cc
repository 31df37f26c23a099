// ALBERT from raw text to answers, as a shell sees it: a unigram vocabulary, pretraining on the order of sentences,
// another depth, other attention, a labelled task.
#include <fmt/core.h>

#include <filesystem>

#include "cli/training_run.h"

namespace lshformer::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class AlbertTest : public TrainingRunTest {
 protected:
  void SetUp() override {
    TrainingRunTest::SetUp();
    Succeeds({LSHFORMER_BINARY, "synth", "--task", "text", "--words", "12000", "--output", folder_ / "corpus.txt"});
    Succeeds({LSHFORMER_BINARY, "tokenizer", "train", "--type", "unigram", "--input", folder_ / "corpus.txt",
              "--vocab_size", "300", "--output_dir", folder_ / "unigram"});
  }
  std::vector<std::string> New(const std::string& output, const std::string& overrides = "",
                               const std::vector<std::string>& more = {}) const {
    const std::string sizes =
        "hidden_size=24,embedding_size=12,num_hidden_layers=2,num_attention_heads=2,intermediate_size=32,"
        "max_position_embeddings=64,hidden_dropout_prob=0.1";
    return From(
        {"--model_type", "albert", "--config_overrides", sizes + overrides, "--tokenizer_name", folder_ / "unigram"},
        output, more);
  }
  std::vector<std::string> From(std::vector<std::string> model, const std::string& output,
                                const std::vector<std::string>& more = {}) const {
    model.insert(model.begin(), {LSHFORMER_BINARY,
                                 "pretrain",
                                 "--no_progress",
                                 "--threads",
                                 "2",
                                 "--train_file",
                                 folder_ / "corpus.txt",
                                 "--validation_file",
                                 folder_ / "corpus.txt",
                                 "--objective",
                                 "mlm+sop",
                                 "--masking",
                                 "ngram",
                                 "--optim",
                                 "lamb",
                                 "--learning_rate",
                                 "5e-3",
                                 "--max_seq_length",
                                 "48",
                                 "--per_device_train_batch_size",
                                 "8",
                                 "--output_dir",
                                 folder_ / output,
                                 "--max_eval_samples",
                                 "40",
                                 "--do_eval"});
    model.insert(model.end(), more.begin(), more.end());
    return model;
  }
  Json Evaluate(const std::string& model, const std::string& objective) const {
    const auto result = Succeeds({LSHFORMER_BINARY, "evaluate", "--no_progress", "--model_name_or_path",
                                  folder_ / model, "--objective", objective, "--validation_file",
                                  folder_ / "corpus.txt", "--max_seq_length", "48", "--max_eval_samples", "40"});
    return ParseJson(result.out, "evaluate");
  }
};

TEST_F(AlbertTest, FromTextToPredictions) {
  Succeeds(New("run", ",parameter_sharing=all", {"--max_steps", "8"}));
  const Json results = Results("run/eval_results.json");
  for (const char* key : {"eval_mlm_loss", "eval_sop_loss", "eval_sop_accuracy"}) EXPECT_TRUE(results.contains(key));
  EXPECT_FALSE(results.contains("eval_nsp_accuracy"));
  EXPECT_TRUE(fs::exists(folder_ / "run/spiece.model"));
  EXPECT_EQ(Results("run/config.json")["architectures"], Json::array({"AlbertForPreTraining"}));
  EXPECT_EQ(Evaluate("run", "mlm+sop")["eval_sop_accuracy"], results["eval_sop_accuracy"]);
  EXPECT_TRUE(Evaluate("run", "mlm+nsp").contains("eval_nsp_accuracy"));

  // All layers share, so another depth is the same file: here with other attention.
  const testing::CommandResult deep = testing::RunCommand(
      From({"--model_name_or_path", folder_ / "run", "--config_overrides", "num_hidden_layers=5"}, "deep",
           {"--max_steps", "2", "--attention", "reformer", "--lsh_chunk", "8", "--lsh_min_length", "0"}));
  EXPECT_EQ(deep.status, 0);
  EXPECT_THAT(deep.err,
              HasSubstr("was made with dense attention; under reformer its answers change; convert measures how much"));
  EXPECT_EQ(Results("deep/config.json")["num_hidden_layers"], 5);
  EXPECT_EQ(Results("deep/config.json")["attention"]["type"], "reformer");

  Succeeds({LSHFORMER_BINARY, "train", "--no_progress", "--task_name", "sst2", "--data_dir", folder_ / "glue",
            "--model_name_or_path", folder_ / "deep", "--output_dir", folder_ / "task", "--max_steps", "2",
            "--log_level", "error"});
  const auto answer = Succeeds({LSHFORMER_BINARY, "predict", "--task", "text-classification", "--model_name_or_path",
                                folder_ / "task", "--text", "good cat"});
  EXPECT_THAT(answer.out, HasSubstr("\"score\""));
  const testing::CommandResult exact =
      testing::RunCommand({LSHFORMER_BINARY, "predict", "--task", "text-classification", "--model_name_or_path",
                           folder_ / "task", "--text", "good cat", "--attention", "dense"});
  EXPECT_THAT(exact.err, HasSubstr("under dense its answers change; evaluate it again, convert takes exact models"));
  const auto mask = Succeeds({LSHFORMER_BINARY, "predict", "--task", "fill-mask", "--model_name_or_path",
                              folder_ / "run", "--text", "the [MASK] sleeps"});
  EXPECT_THAT(mask.out, AllOf(HasSubstr("\"token_str\""), HasSubstr("\"sequence\"")));
}

TEST_F(AlbertTest, AStoppedRunGoesOnBitForBit) {
  const std::vector<std::string> steps{"--max_steps", "24", "--save_steps", "3", "--num_train_epochs", "3"};
  Succeeds(New("whole", ",parameter_sharing=attention", steps));
  std::vector<std::string> again = steps;
  again.insert(again.end(), {"--resume_from_checkpoint", "auto"});
  Interrupt(New("stopped", ",parameter_sharing=attention", again), SIGTERM, std::chrono::seconds(60),
            [&] { return fs::exists(folder_ / "stopped/checkpoint-6"); });
  Succeeds(New("stopped", ",parameter_sharing=attention", again));
  EXPECT_EQ(Weights("stopped"), Weights("whole"));
}

TEST_F(AlbertTest, WhatWouldChangeTensorsIsRefused) {
  Succeeds(New("run", ",parameter_sharing=none", {"--max_steps", "1"}));
  const auto overridden = [&](const std::string& overrides) {
    return Fails(
        From({"--model_name_or_path", folder_ / "run", "--config_overrides", overrides}, "new", {"--max_steps", "1"}),
        2);
  };
  EXPECT_THAT(overridden("num_hidden_layers=3,num_hidden_groups=3"),
              AllOf(HasSubstr("--config_overrides: a checkpoint's tensors stay as they are, \"albert.encoder."),
                    HasSubstr("would not")));
  EXPECT_THAT(overridden("embedding_size=16"), HasSubstr("word_embeddings.weight\" [300, 12] would not"));
  EXPECT_THAT(overridden("hidden_dropout_prob=0,hidden_dropout_prob=0.1"), HasSubstr("stands there twice"));
  EXPECT_THAT(overridden("model_type=bert"), HasSubstr("--config_overrides: "));
  Succeeds(From({"--model_name_or_path", folder_ / "run", "--config_overrides", "hidden_dropout_prob=0"}, "new",
                {"--max_steps", "1"}));
  EXPECT_EQ(Results("new/config.json")["hidden_dropout_prob"], 0);
}

}  // namespace
}  // namespace lshformer::cli
