// Commands that several processes share give what one process gives, from rank 0 alone.
#include <fmt/core.h>

#include <filesystem>
#include <utility>

#include "cli/training_run.h"
#include "dist/communicator.h"

namespace lshformer::cli {
namespace {

using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::lshformer::testing::RunTogether;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SeveralProcessesTest : public TrainingRunTest {
 protected:
  void SetUp() override {
    if (!HasDistribution()) GTEST_SKIP() << "this build is without distribution";
    TrainingRunTest::SetUp();
  }

  // Each process's result, [ranks]; `words_of` are those of a rank.
  static std::vector<CommandResult> Shared(int size,
                                           const std::function<std::vector<std::string>(int rank)>& words_of) {
    static int calls = 0;
    const int port = 20000 + (getpid() * 16 + calls++) % 20000;
    std::vector<std::vector<std::string>> commands;
    for (int rank = 0; rank < size; ++rank) {
      std::vector<std::string> words{"/usr/bin/env", fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", size),
                                     "MASTER_ADDR=127.0.0.1", fmt::format("MASTER_PORT={}", port)};
      const std::vector<std::string> own = words_of(rank);
      words.insert(words.end(), own.begin(), own.end());
      commands.push_back(std::move(words));
    }
    return RunTogether(commands);
  }
  static std::vector<CommandResult> Shared(int size, const std::vector<std::string>& words) {
    return Shared(size, [&](int) { return words; });
  }

  // All succeed, rank 0 alone says something.
  static std::string SucceedTogether(const std::vector<CommandResult>& results) {
    for (size_t rank = 0; rank < results.size(); ++rank) {
      EXPECT_EQ(results[rank].status, 0) << "rank " << rank << ": " << results[rank].err;
      EXPECT_THAT(results[rank].err, IsEmpty()) << rank;
      if (rank > 0) {
        EXPECT_THAT(results[rank].out, IsEmpty()) << rank;
      }
    }
    return results[0].out;
  }

  // Classes of lines.jsonl by the model in "model".
  std::vector<std::string> Predict(const std::vector<std::string>& more) const {
    std::vector<std::string> words{LSHFORMER_BINARY,       "predict",         "--task",  "text-classification",
                                   "--model_name_or_path", folder_ / "model", "--input", folder_ / "lines.jsonl"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::string FileOf(const std::string& name) const { return ReadFile(folder_ / name); }
};

TEST_F(SeveralProcessesTest, PretrainingMakesTheSameModel) {
  const auto words = [&](const std::string& run) {
    return Words(
        "pretrain",
        {"--train_file", folder_ / "text.txt", "--output_dir", folder_ / run, "--attention", "simhash",
         "--per_device_train_batch_size", "2", "--total_batch_size", "9", "--max_steps", "6", "--logging_steps", "2"},
        {"--do_eval"});
  };
  Succeeds(words("alone"));
  SucceedTogether(Shared(3, words("shared")));
  EXPECT_EQ(FileOf("shared/model.safetensors"), FileOf("alone/model.safetensors"));
  const Json alone = Json::parse(FileOf("alone/all_results.json")),
             shared = Json::parse(FileOf("shared/all_results.json"));
  for (const char* key : {"train_loss", "eval_loss", "perplexity", "epoch"}) EXPECT_EQ(alone[key], shared[key]) << key;
}

TEST_F(SeveralProcessesTest, EvaluationAndAnswersAreTheSame) {
  Succeeds(Train("model", {"--max_steps", "2"}));
  std::string lines;
  for (int i = 0; i < 300; ++i)
    lines += i == 170 ? "not JSON\n" : fmt::format("{{\"id\": {}, \"text\": \"good {} bad\"}}\n", i, i % 26);
  folder_.Write("lines.jsonl", lines);
  const auto predict = [&](const std::string& output) {
    return Predict({"--output", folder_ / output, "--batch_tokens", "16"});
  };
  EXPECT_EQ(RunCommand(predict("alone.jsonl")).status, 1);
  const std::vector<CommandResult> shared = Shared(2, predict("shared.jsonl"));
  EXPECT_EQ(shared[0].status, 1) << "a bad line";
  EXPECT_THAT(shared[0].err, HasSubstr("1 of 300 lines could not be answered"));
  EXPECT_EQ(FileOf("shared.jsonl"), FileOf("alone.jsonl"));
  const auto evaluate = [&](const std::string& output) {
    return std::vector<std::string>{LSHFORMER_BINARY,
                                    "evaluate",
                                    "--model_name_or_path",
                                    folder_ / "model",
                                    "--task_name",
                                    "sst2",
                                    "--data_dir",
                                    folder_ / "glue",
                                    "--output",
                                    folder_ / output,
                                    "--per_device_eval_batch_size",
                                    "3"};
  };
  Succeeds(evaluate("alone.json"));
  SucceedTogether(Shared(3, evaluate("shared.json")));
  const Json alone = Json::parse(FileOf("alone.json")), together = Json::parse(FileOf("shared.json"));
  for (const char* key : {"eval_loss", "eval_accuracy", "eval_samples"}) EXPECT_EQ(alone[key], together[key]) << key;
}

TEST_F(SeveralProcessesTest, OtherFlagsAreRefusedByName) {
  const std::vector<CommandResult> results = Shared(2, [&](int rank) {
    return Pretrain("run", {"--max_steps", "3", "--warmup_steps", rank == 0 ? "1" : "2"});
  });
  for (const CommandResult& result : results) {
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.err, "lshformer: the processes do not do the same: warmup_steps is 1 at rank 0 and 2 at rank 1\n");
  }
}

TEST_F(SeveralProcessesTest, OtherFlagsOfPredictionsAreRefusedByName) {
  Succeeds(Train("model", {"--max_steps", "1"}));
  folder_.Write("lines.jsonl", "{\"text\": \"good\"}\n");
  const std::vector<CommandResult> results = Shared(2, [&](int rank) {
    return Predict({"--max_seq_length", rank == 0 ? "16" : "8"});
  });
  for (const CommandResult& result : results) {
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.err,
              "lshformer: the processes do not do the same: max_seq_length is 16 at rank 0 and 8 at rank 1\n");
  }
}

TEST_F(SeveralProcessesTest, InputThatEachCannotReadIsNamed) {
  Succeeds(Train("model", {"--max_steps", "1"}));
  const auto predict = [&](const std::string& input) {
    return Shared(2, {LSHFORMER_BINARY, "predict", "--task", "text-classification", "--model_name_or_path",
                      folder_ / "model", "--input", input});
  };
  const std::string missing = folder_ / "none.jsonl";
  for (const CommandResult& result : predict(missing)) {
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.err, "lshformer: " + missing + ": cannot open: No such file or directory\n");
  }
  for (const CommandResult& result : predict("/dev/null")) {
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, HasSubstr("--input: each of several processes reads /dev/null: expected a regular file"));
  }
}

TEST_F(SeveralProcessesTest, SharedTokensMakeTheModelOfOneProcess) {
  const auto words = [&](const std::string& run, const char* steps) {
    return Words("pretrain",
                 {"--train_file", folder_ / "text.txt", "--output_dir", folder_ / run, "--attention", "simhash",
                  "--per_device_train_batch_size", "3", "--max_steps", steps, "--save_steps", "2",
                  "--lr_scheduler_type", "constant"},
                 {"--sequence_parallel", "--do_eval"});
  };
  Succeeds(words("alone", "4"));
  SucceedTogether(Shared(2, words("shared", "4")));
  EXPECT_EQ(FileOf("shared/model.safetensors"), FileOf("alone/model.safetensors"));
  const Json alone = Json::parse(FileOf("alone/all_results.json")),
             shared = Json::parse(FileOf("shared/all_results.json"));
  for (const char* key : {"train_loss", "eval_loss", "eval_pairs_fraction"}) EXPECT_EQ(alone[key], shared[key]) << key;
  // Begun by two, ended by one.
  SucceedTogether(Shared(2, words("resumed", "2")));
  std::vector<std::string> rest = words("resumed", "4");
  rest.insert(rest.end(), {"--resume_from_checkpoint", "auto"});
  EXPECT_EQ(RunCommand(rest).status, 0);
  EXPECT_EQ(FileOf("resumed/model.safetensors"), FileOf("alone/model.safetensors"));
}

TEST_F(SeveralProcessesTest, SharedTokensGiveTheAnswersOfOneProcess) {
  Succeeds(Train("model", {"--max_steps", "2"}));
  folder_.Write("lines.jsonl", "{\"text\": \"good cat on a bad bed\"}\nno JSON\n{\"text\": \"dog\"}\n");
  const auto predict = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{LSHFORMER_BINARY,       "predict",         "--task",    "text-classification",
                                   "--model_name_or_path", folder_ / "model", "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto of_lines = [&](const std::string& output, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = predict({"--input", folder_ / "lines.jsonl", "--output", folder_ / output});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  EXPECT_EQ(RunCommand(of_lines("alone.jsonl")).status, 1) << "a bad line";
  EXPECT_EQ(Shared(2, of_lines("shared.jsonl", {"--sequence_parallel"}))[0].status, 1);
  EXPECT_EQ(FileOf("shared.jsonl"), FileOf("alone.jsonl"));
  const std::string alone = Succeeds(predict({"--text", "good cat"})).out;
  EXPECT_EQ(SucceedTogether(Shared(2, predict({"--text", "good cat", "--sequence_parallel"}))), alone);
  for (const CommandResult& result : Shared(3, predict({"--text", "good cat", "--sequence_parallel"}))) {
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, HasSubstr("--sequence_parallel: 3 processes cannot share the model's 2 heads"));
  }
}

TEST_F(SeveralProcessesTest, HalfAnEnvironmentIsAnError) {
  std::vector<std::string> words{"/usr/bin/env", "RANK=0"};
  const std::vector<std::string> pretrain = Pretrain("run");
  words.insert(words.end(), pretrain.begin(), pretrain.end());
  const CommandResult result = RunCommand(words);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("RANK is set, WORLD_SIZE is not"));
}

}  // namespace
}  // namespace lshformer::cli
