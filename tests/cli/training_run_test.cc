// Training as a shell sees it: folders, results, signals, kills and resumes.
#include "cli/training_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <tuple>

#include "kernels/matmul.h"

namespace lshformer::cli {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::lshformer::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(TrainingRunTest, PretrainLeavesWhatTransformersLeaves) {
  const CommandResult run = Succeeds(Pretrain("run", {"--do_eval"}));
  for (const char* name :
       {"config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json", "trainer_state.json",
        "train_results.json", "eval_results.json", "all_results.json", "checkpoint-55", "checkpoint-60"})
    EXPECT_TRUE(fs::exists(folder_ / ("run/" + std::string(name)))) << name;
  EXPECT_FALSE(fs::exists(folder_ / "run/checkpoint-50"));
  const Json all = Results("run/all_results.json");
  for (const char* key :
       {"epoch", "train_loss", "train_runtime", "train_samples", "train_samples_per_second", "train_steps_per_second",
        "eval_loss", "eval_mlm_loss", "eval_mlm_accuracy", "eval_samples", "perplexity"})
    EXPECT_TRUE(all.contains(key)) << key;
  EXPECT_EQ(Json::parse(run.out)["train_loss"], all["train_loss"]);
  EXPECT_EQ(Results("run/config.json")["attention"]["type"], "simhash");
  EXPECT_EQ(Results("run/config.json")["vocab_size"], 59);
  // A folder that `evaluate` can read, with the same figures.
  EXPECT_EQ(Weights("run"), Weights("run/checkpoint-60"));
}

TEST_F(TrainingRunTest, PretrainingWithNextSentencePrediction) {
  Succeeds(Pretrain("run", {"--train_file", folder_ / "pairs.txt", "--objective", "mlm+nsp", "--do_eval", "--masking",
                            "whole_word", "--max_steps", "20"}));
  const Json all = Results("run/all_results.json");
  for (const char* key : {"eval_nsp_loss", "eval_nsp_accuracy", "eval_mlm_loss", "eval_mlm_accuracy", "perplexity"})
    EXPECT_TRUE(all.contains(key)) << key;
  EXPECT_NEAR(all["eval_loss"].get<double>(), all["eval_mlm_loss"].get<double>() + all["eval_nsp_loss"].get<double>(),
              1e-9);
  EXPECT_NEAR(all["perplexity"].get<double>(), std::exp(all["eval_mlm_loss"].get<double>()), 1e-6);
  EXPECT_EQ(Results("run/config.json")["architectures"][0], "BertForPreTraining");
  const CommandResult evaluated = Succeeds({LSHFORMER_BINARY, "evaluate", "--no_progress", "--model_name_or_path",
                                            folder_ / "run", "--validation_file", folder_ / "pairs.txt"});
  EXPECT_TRUE(Json::parse(evaluated.out).contains("eval_nsp_accuracy"));
  // Its encoder and masked-LM head serve other tasks.
  Succeeds({LSHFORMER_BINARY, "predict", "--model_name_or_path", folder_ / "run", "--task", "fill-mask", "--text",
            "a [MASK] b", "--output", folder_ / "filled.jsonl"});
  EXPECT_THAT(Fails(Pretrain("other", {"--dupe_factor", "2"}), 2), HasSubstr("is for --objective mlm+nsp"));
  EXPECT_THAT(Fails(Pretrain("other", {"--objective", "mlm+nsp", "--line_by_line"}), 2), HasSubstr("--line_by_line"));
}

TEST_F(TrainingRunTest, PretrainingWithSentenceOrderPrediction) {
  const CommandResult run = RunCommand(
      Pretrain("run", {"--train_file", folder_ / "pairs.txt", "--objective", "mlm+sop", "--do_eval", "--masking",
                       "ngram", "--max_ngram", "2", "--max_steps", "20", "--log_level", "info"}));
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.err, HasSubstr(" pairs have no order: their chunk was one sentence"));
  const Json all = Results("run/all_results.json");
  EXPECT_NEAR(all["eval_loss"].get<double>(), all["eval_mlm_loss"].get<double>() + all["eval_sop_loss"].get<double>(),
              1e-9);
  EXPECT_TRUE(all.contains("eval_sop_accuracy"));
  EXPECT_FALSE(all.contains("eval_nsp_accuracy"));
  // The head is scored on either kind of pairs, or not at all.
  const auto evaluate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{LSHFORMER_BINARY, "evaluate",          "--no_progress",      "--model_name_or_path",
                                   folder_ / "run",  "--validation_file", folder_ / "pairs.txt"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  for (const auto& [objective, key, other] : {std::tuple("mlm+sop", "eval_sop_accuracy", "eval_nsp_accuracy"),
                                              std::tuple("mlm+nsp", "eval_nsp_accuracy", "eval_sop_accuracy")}) {
    const Json scores = Json::parse(Succeeds(evaluate({"--objective", objective})).out);
    EXPECT_TRUE(scores.contains(key)) << objective;
    EXPECT_FALSE(scores.contains(other)) << objective;
  }
  const Json alone = Json::parse(Succeeds(evaluate({"--objective", "mlm", "--line_by_line"})).out);
  EXPECT_EQ(alone["eval_loss"], alone["eval_mlm_loss"]);
  EXPECT_FALSE(alone.contains("eval_nsp_loss"));
  EXPECT_THAT(Fails(evaluate({"--max_ngram", "2"}), 2), HasSubstr("--max_ngram: is for --masking ngram"));
  EXPECT_THAT(Fails(Pretrain("other", {"--objective", "mlm+sop", "--line_by_line"}), 2), HasSubstr("--line_by_line"));
  Succeeds(Pretrain("masked", {"--max_steps", "2"}));
  std::vector<std::string> words = evaluate({"--objective", "mlm+nsp"});
  std::replace(words.begin(), words.end(), folder_ / "run", folder_ / "masked");
  EXPECT_THAT(Fails(words, 1), HasSubstr("has no head for the task"));
}

TEST_F(TrainingRunTest, TrainEvaluatesAndPredicts) {
  Succeeds(Train("run", {"--do_eval", "--do_predict", "--eval_steps", "20"}));
  EXPECT_GE(Results("run/eval_results.json")["eval_accuracy"].get<double>(), 0.9);  // "good" and "bad" say it all
  const std::string predictions = ReadFile(folder_ / "run/predict_results_sst2.txt");
  EXPECT_EQ(predictions, "index\tprediction\n0\tpositive\n1\tnegative\n2\tpositive\n");
  const CommandResult evaluated =
      Succeeds({LSHFORMER_BINARY, "evaluate", "--no_progress", "--model_name_or_path", folder_ / "run", "--task_name",
                "sst2", "--data_dir", folder_ / "glue", "--output_dir", folder_ / "evaluated"});
  EXPECT_EQ(Json::parse(evaluated.out)["eval_loss"], Results("run/eval_results.json")["eval_loss"]);
  EXPECT_EQ(Results("evaluated/eval_results.json"), Json::parse(evaluated.out));
  Succeeds({LSHFORMER_BINARY, "report", folder_ / "evaluated", "--output", folder_ / "evaluated.html"});
}

// A head for as many labels of other names goes on with theirs, which somebody may not have meant.
TEST_F(TrainingRunTest, OtherLabelsOfTheSameNumberAreSaid) {
  Succeeds(Train("run", {"--num_train_epochs", "1"}));
  const CommandResult result = testing::RunCommand(
      {LSHFORMER_BINARY, "train", "--no_progress", "--task", "text-classification", "--model_name_or_path",
       folder_ / "run", "--train_file", folder_.Write("other.tsv", "text\tlabel\na\t1\nb\t7\n"), "--output_dir",
       folder_ / "other", "--max_steps", "1"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err,
            "lshformer: warning: the checkpoint's labels negative, positive are other ones than the data's: its head "
            "goes on with 1, 7, in this order\n");
}

TEST_F(TrainingRunTest, DryRunWritesNothing) {
  const Json plan = Json::parse(Succeeds(Pretrain("run", {"--dry_run"})).out);
  Succeeds(Train("run", {"--dry_run", "--eval_steps", "5", "--save_steps", "5", "--load_best_model_at_end",
                         "--metric_for_best_model", "accuracy"}));
  EXPECT_EQ(plan["steps"], 60);
  for (const char* key : {"tokens", "parameters", "memory_bytes", "seconds"})
    EXPECT_GT(plan[key].get<double>(), 0) << key;
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

// Killed, it goes on from its newest checkpoint and ends where the undisturbed run ends: every other moment is that of
// train/stopped_run_test.cc.
TEST_F(TrainingRunTest, AKillDoesNotChangeTheResult) {
  Succeeds(Pretrain("whole"));
  const std::vector<std::string> words = Pretrain("killed", {"--resume_from_checkpoint", "auto"});
  const CommandResult result =
      Interrupt(words, SIGKILL, std::chrono::minutes(2), [&] { return !NewestCheckpoint(folder_ / "killed").empty(); });
  ASSERT_EQ(result.status, 128 + SIGKILL) << result.err;
  ASSERT_TRUE(MarkNewestCheckpoint("killed"));
  Succeeds(words);
  EXPECT_EQ(Weights("killed"), Weights("whole"));
  Json history = History("killed");
  const auto marked = std::find(history.begin(), history.end(), kMark);
  ASSERT_NE(marked, history.end()) << "it did not go on from the newest checkpoint";
  history.erase(marked);
  EXPECT_EQ(history, History("whole"));
  for (const auto& entry : fs::directory_iterator(folder_ / "killed"))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
}

TEST_F(TrainingRunTest, AnotherNumberOfThreadsIsTheSameRun) {
  Succeeds(Pretrain("whole"));
  Succeeds(Pretrain("other", {"--resume_from_checkpoint", folder_ / "whole/checkpoint-55", "--threads", "1"}));
  EXPECT_EQ(Weights("other"), Weights("whole"));
}

// As soon as the run has begun: what a signal at any place of the loop leaves is proved by train/stopped_run_test.cc.
TEST_F(TrainingRunTest, ASignalFinishesTheStepSavesAndGoesOn) {
  Succeeds(Pretrain("whole"));
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string run = signal == SIGINT ? "interrupted" : "terminated";
    const std::vector<std::string> words = Pretrain(run, {"--resume_from_checkpoint", "auto", "--save_steps", "0"});
    const CommandResult result = Interrupt(words, signal, std::chrono::minutes(2),
                                           [&] { return fs::exists(folder_ / (run + "/training_args.json")); });
    ASSERT_EQ(result.status, 128 + signal) << result.err;
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
    EXPECT_FALSE(NewestCheckpoint(folder_ / run).empty());
    Succeeds(words);
    EXPECT_EQ(Weights(run), Weights("whole"));
  }
}

TEST_F(TrainingRunTest, AFinishedRunIsLeftAlone) {
  Succeeds(Pretrain("run"));
  const auto written = fs::last_write_time(folder_ / "run/model.safetensors");
  const CommandResult again = Succeeds(Pretrain("run", {"--resume_from_checkpoint", "auto"}));
  EXPECT_EQ(Json::parse(again.out)["train_loss"], Results("run/train_results.json")["train_loss"]);
  EXPECT_EQ(fs::last_write_time(folder_ / "run/model.safetensors"), written);
  // What was not asked for then is still done.
  Succeeds(Train("task"));
  Succeeds(Train("task", {"--resume_from_checkpoint", "auto", "--do_predict"}));
  EXPECT_TRUE(fs::exists(folder_ / "task/predict_results_sst2.txt"));
}

// Nobody asked for checkpoints: they serve while the run may be stopped. Then their models stay, and more steps need
// another run; with --save_steps they go on where it ended.
TEST_F(TrainingRunTest, AFinishedRunKeepsTheOptimizersStateIfAsked) {
  const auto states = [&](const std::string& run) {
    int count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / run))
      count += entry.path().filename() == "optimizer.safetensors";
    return count;
  };
  Succeeds(Train("run", {"--max_steps", "6"}));
  EXPECT_EQ(states("run"), 0);
  EXPECT_EQ(Weights("run"), Weights("run/checkpoint-6"));
  EXPECT_THAT(Fails(Train("run", {"--max_steps", "9", "--resume_from_checkpoint", "auto"}), 1),
              AllOf(HasSubstr("--resume_from_checkpoint: "),
                    HasSubstr("only runs with --save_steps or --save_total_limit keep it")));
  EXPECT_TRUE(fs::exists(folder_ / "run/trainer_state.json"));
  Succeeds(Train("run", {"--max_steps", "6", "--resume_from_checkpoint", "auto", "--do_eval"}));

  const std::vector<std::string> asked{"--save_steps", "4", "--lr_scheduler_type", "constant"};
  Succeeds(Train("asked", {"--max_steps", "6", asked[0], asked[1], asked[2], asked[3]}));
  EXPECT_EQ(states("asked"), 2);
  // What only evaluates takes nothing away.
  Succeeds(Train("asked", {"--max_steps", "6", asked[2], asked[3], "--resume_from_checkpoint", "auto", "--do_eval"}));
  EXPECT_EQ(states("asked"), 2);
  const std::vector<std::string> more{"--max_steps", "9", "--resume_from_checkpoint", "auto", "--log_level", "error"};
  std::vector<std::string> words = Train("asked", more), whole = Train("whole", {"--max_steps", "9"});
  words.insert(words.end(), asked.begin(), asked.end());
  whole.insert(whole.end(), asked.begin(), asked.end());
  Succeeds(words);
  Succeeds(whole);
  EXPECT_EQ(Weights("asked"), Weights("whole"));
}

// A run keeps the word for its float32 products. Without AMX tiles all words are one, which a line says, one for all
// seeds.
TEST_F(TrainingRunTest, Float32MatmulPrecisionIsKept) {
  const auto pretrain = [&](const char* output, std::vector<std::string> more) {
    more.insert(more.end(), {"--isa", "scalar"});
    return testing::RunCommand(Pretrain(output, more));
  };
  const testing::CommandResult result =
      pretrain("high", {"--float32_matmul_precision", "high", "--seeds", "1,2", "--max_steps", "2"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--float32_matmul_precision high: is for processors with AMX"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  const testing::CommandResult other =
      pretrain("high/seed-1", {"--seed", "1", "--max_steps", "2", "--resume_from_checkpoint", "auto"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("--float32_matmul_precision: "));
  EXPECT_THAT(other.err, HasSubstr("was made with \"high\", got \"highest\""));
}

TEST_F(TrainingRunTest, AnotherRunIsNotResumed) {
  Succeeds(Pretrain("run"));
  for (const std::vector<std::string>& change : {std::vector<std::string>{"--seed", "43"},
                                                 {"--per_device_train_batch_size", "4"},
                                                 {"--lsh_bands", "3"},
                                                 {"--max_train_samples", "9"},
                                                 {"--float32_matmul_precision", "high"}}) {
    const std::string error = Fails(Pretrain("run", {"--resume_from_checkpoint", "auto", change[0], change[1]}), 2);
    EXPECT_THAT(error, AllOf(HasSubstr(change[0] + ": "), HasSubstr("was made with"))) << change[0];
  }
  if (SupportsProducts(Precision::kBFloat16)) {
    EXPECT_THAT(Fails(Pretrain("run", {"--resume_from_checkpoint", "auto", "--bf16"}), 2),
                AllOf(HasSubstr("--bf16: "), HasSubstr("was made with false, got true")));
  }
  EXPECT_THAT(Fails(Train("run", {"--resume_from_checkpoint", "auto"}), 2),
              AllOf(HasSubstr("--output_dir: "), HasSubstr("was made with \"pretrain\", got \"train\"")));
  // Every attention flag that is kept is compared.
  const std::vector<std::string> reformer{"--attention", "reformer", "--lsh_rounds", "1", "--overwrite_output_dir"};
  Succeeds(Pretrain("reformer", reformer));
  EXPECT_THAT(
      Fails(Pretrain("reformer", {"--attention", "reformer", "--lsh_rounds", "2", "--resume_from_checkpoint", "auto"}),
            2),
      HasSubstr("--lsh_rounds: "));
  // Other text under the same name.
  folder_.Write("text.txt", folder_.Read("text.txt") + folder_.Read("text.txt"));
  EXPECT_THAT(Fails(Pretrain("run", {"--resume_from_checkpoint", folder_ / "run/checkpoint-55"}), 2),
              HasSubstr("training data"));
}

// What steps would have heeded is not written into a run whose steps are done.
TEST_F(TrainingRunTest, AFinishedRunKeepsTheRateItWasMadeWith) {
  Succeeds(Pretrain("run", {"--max_steps", "5"}));
  const std::string state = folder_.Read("run/trainer_state.json"), arguments = folder_.Read("run/training_args.json");
  const CommandResult again =
      RunCommand(Pretrain("run", {"--max_steps", "5", "--resume_from_checkpoint", "auto", "--learning_rate", "0.5"}));
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.err, HasSubstr("was made with 0.001, now 0.5: it is finished and stays as it is"));
  EXPECT_EQ(folder_.Read("run/trainer_state.json"), state);
  EXPECT_EQ(folder_.Read("run/training_args.json"), arguments);
}

// A run of a program that had no such option yet is one with the option's default.
TEST_F(TrainingRunTest, OptionsThatAreNewerThanARunHaveTheirDefault) {
  Succeeds(Pretrain("run", {"--max_steps", "5"}));
  for (const char* state : {"run/trainer_state.json", "run/checkpoint-5/trainer_state.json"}) {
    Json json = Json::parse(folder_.Read(state));
    ASSERT_EQ(json.at("lshformer").at("run_settings").erase("line_by_line"), 1U) << state;
    folder_.Write(state, json.dump());
  }
  const auto made = fs::last_write_time(folder_ / "run/model.safetensors");
  Succeeds(Pretrain("run", {"--max_steps", "5", "--resume_from_checkpoint", "auto"}));
  EXPECT_EQ(fs::last_write_time(folder_ / "run/model.safetensors"), made) << "nothing was left to do";
  EXPECT_THAT(
      Fails(Pretrain("run", {"--max_steps", "5", "--resume_from_checkpoint", "auto", "--line_by_line", "true"}), 2),
      AllOf(HasSubstr("--line_by_line: "), HasSubstr("was made with false, got true")));
}

TEST_F(TrainingRunTest, WhatAKilledRunLeftIsCleared) {
  Succeeds(Pretrain("run", {"--max_steps", "5"}));
  for (const char* flags : {"--resume_from_checkpoint=auto", "--overwrite_output_dir"}) {
    // Beyond the largest process number, so nobody's.
    folder_.Write("run/.lshformer-2147483646-1.tmp", "half");
    folder_.Write("run/runs/.lshformer-2147483646-2.tmp", "half");
    Succeeds(Pretrain("run", {"--max_steps", "5", flags}));
    EXPECT_FALSE(fs::exists(folder_ / "run/.lshformer-2147483646-1.tmp")) << flags;
    EXPECT_FALSE(fs::exists(folder_ / "run/runs/.lshformer-2147483646-2.tmp")) << flags;
  }
}

TEST_F(TrainingRunTest, AFileBeyondTheLimitOfTheShellIsOneLine) {
  std::vector<std::string> words{"/bin/sh", "-c", "ulimit -f 8; exec \"$@\"", "sh"};
  for (const std::string& word : Pretrain("run", {"--max_steps", "5", "--report_to", "none"})) words.push_back(word);
  EXPECT_THAT(Fails(words, 1), HasSubstr("File too large"));
}

TEST_F(TrainingRunTest, AFolderInUseIsNotOverwritten) {
  folder_.Write("precious/notes.txt", "mine");
  EXPECT_THAT(Fails(Pretrain("precious"), 1), HasSubstr("not empty"));
  EXPECT_THAT(Fails(Pretrain("precious", {"--resume_from_checkpoint", "auto"}), 1), HasSubstr("not of a training run"));
  EXPECT_EQ(folder_.Read("precious/notes.txt"), "mine");
  folder_.Write("file", "");
  EXPECT_THAT(Fails(Pretrain("file"), 1), HasSubstr("not a folder"));
  EXPECT_THAT(Fails(Pretrain("file/below"), 1), HasSubstr("file/below"));
  Succeeds(Pretrain("precious", {"--overwrite_output_dir", "--max_steps", "1"}));
  EXPECT_EQ(folder_.Read("precious/notes.txt"), "mine");
}

TEST_F(TrainingRunTest, AnEventFolderThatIsNoneLeavesTheOlderRunAlone) {
  Succeeds(Pretrain("run", {"--max_steps", "5"}));
  fs::remove_all(folder_ / "run/runs");
  folder_.Write("run/runs", "mine");
  EXPECT_THAT(Fails(Pretrain("run", {"--max_steps", "1", "--overwrite_output_dir"}), 1), HasSubstr("run/runs: is no"));
  EXPECT_TRUE(fs::exists(folder_ / "run/trainer_state.json"));
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoint-5"));
  Succeeds(Pretrain("run", {"--max_steps", "1", "--overwrite_output_dir", "--report_to", "none"}));
}

TEST_F(TrainingRunTest, ADamagedNewestCheckpointIsSkipped) {
  Succeeds(Pretrain("whole"));
  fs::copy(folder_ / "whole", folder_ / "damaged", fs::copy_options::recursive);
  fs::remove(folder_ / "damaged/trainer_state.json");
  fs::resize_file(folder_ / "damaged/checkpoint-60/optimizer.safetensors", 1000);
  const CommandResult result = RunCommand(Pretrain("damaged", {"--resume_from_checkpoint", "auto"}));
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("checkpoint-60"), HasSubstr("not complete")));
  EXPECT_EQ(Weights("damaged"), Weights("whole"));
  EXPECT_THAT(Fails(Pretrain("other", {"--resume_from_checkpoint", folder_ / "text.txt"}), 2),
              HasSubstr("checkpoint folder"));
}

TEST_F(TrainingRunTest, ALossThatIsNotFiniteStopsTheRun) {
  const std::string error =
      Fails(Pretrain("run", {"--learning_rate", "1e30", "--lr_scheduler_type", "constant", "--save_steps", "1"}), 1);
  EXPECT_THAT(error, AllOf(HasSubstr("step 2: "), HasSubstr("not a number"), HasSubstr("checkpoint-1")));
  EXPECT_FALSE(fs::exists(folder_ / "run/checkpoint-2"));
  EXPECT_FALSE(fs::exists(folder_ / "run/model.safetensors"));
}

// A limit on the size of files fails the same writes as a full disk, without needing one.
TEST_F(TrainingRunTest, AFullDiskKeepsTheLastCheckpoint) {
  Succeeds(Pretrain("run", {"--max_steps", "5"}));
  std::string command = "ulimit -f 8; trap '' XFSZ; exec";
  for (const std::string& word :
       Pretrain("run", {"--resume_from_checkpoint", "auto", "--max_steps", "10", "--log_level", "error"}))
    command += " '" + word + "'";
  const std::string error = Fails({"/bin/sh", "-c", command}, 1);
  EXPECT_THAT(error, HasSubstr("checkpoint-10"));
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoint-5/trainer_state.json"));
  EXPECT_FALSE(fs::exists(folder_ / "run/checkpoint-10"));
}

TEST_F(TrainingRunTest, WrongFlagsAreNamedBeforeAnyWork) {
  const auto wrong = [&](std::vector<std::string> more) { return Fails(Pretrain("run", more), 2); };
  EXPECT_THAT(wrong({"--per_device_train_batch_size", "0"}), HasSubstr("--per_device_train_batch_size: expected"));
  EXPECT_THAT(wrong({"--lr_scheduler_type", "linaer"}), HasSubstr("did you mean \"linear\"?"));
  EXPECT_THAT(wrong({"--learning_rate", "nan"}), HasSubstr("--learning_rate: expected"));
  EXPECT_THAT(wrong({"--adam_beta2", "1"}), HasSubstr("--adam_beta2: expected"));
  EXPECT_THAT(wrong({"--max_seq_length", "33"}), HasSubstr("--max_seq_length: expected 3 to 32"));
  EXPECT_THAT(wrong({"--model_name_or_path", "x"}), HasSubstr("--model_name_or_path: "));
  EXPECT_THAT(wrong({"--int8"}), HasSubstr("--int8"));
  EXPECT_THAT(wrong({"--warmup_steps", "5", "--warmup_ratio", "0.1"}), HasSubstr("--warmup_steps: not beside"));
  EXPECT_THAT(wrong({"--warmup_type", "logarithmic"}), HasSubstr("--warmup_type: needs --warmup_steps or"));
  EXPECT_THAT(wrong({"--adadelta_rho", "0.95"}), HasSubstr("--adadelta_rho: is for --optim adadelta"));
  EXPECT_THAT(wrong({"--optim", "adadelta", "--adam_epsilon", "1e-6"}),
              HasSubstr("--adam_epsilon: is not for --optim adadelta"));
  EXPECT_THAT(wrong({"--train_file", ""}), HasSubstr("--train_file: expected a file, got \"\""));
  EXPECT_THAT(wrong({"--output_dir", ""}), HasSubstr("--output_dir: expected a folder, got \"\""));
  EXPECT_THAT(Fails(Train("run", {"--task_name", "sst3"}), 2), HasSubstr("did you mean"));
  EXPECT_THAT(wrong({"--validation_file", folder_ / "text.txt"}), HasSubstr("--validation_file: needs --do_eval"));
  EXPECT_THAT(Fails(Train("run", {"--validation_file", "x.tsv"}), 2), HasSubstr("--validation_file: needs --do_eval"));
  EXPECT_THAT(Fails(Train("run", {"--test_file", "x.tsv"}), 2), HasSubstr("--test_file: needs --do_predict"));
  const std::vector<std::string> best{"--eval_steps",           "5", "--save_steps", "5", "--load_best_model_at_end",
                                      "--metric_for_best_model"};
  for (const char* metric : {"f2", "exact", "runtime"}) {
    std::vector<std::string> words = best;
    words.push_back(metric);
    EXPECT_THAT(Fails(Train("run", words), 2), HasSubstr(fmt::format("the evaluation has no \"{}\"", metric)));
    EXPECT_THAT(wrong(words), HasSubstr("only eval_loss, eval_accuracy, eval_mlm_loss"));
  }
  EXPECT_THAT(Fails(Train("run", {"--train_file", "x.tsv"}), 2), HasSubstr("--train_file: "));
  EXPECT_THAT(Fails({LSHFORMER_BINARY, "evaluate", "--predictions", "x"}, 2), HasSubstr("--references"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));  // not even empty
  Fails(Pretrain("a/b/run", {"--train_file", folder_ / "missing.txt"}), 1);
  EXPECT_FALSE(fs::exists(folder_ / "a"));
}

// Whatever file got the number of the closed descriptor would hold the log.
TEST_F(TrainingRunTest, WithStderrClosedTheLogGoesNowhere) {
  std::vector<std::string> words{"/bin/bash", "-c", "\"$0\" \"$@\" 2>&-"};
  const std::vector<std::string> command =
      Pretrain("run", {"--max_steps", "4", "--logging_steps", "1", "--log_level", "info"});
  words.insert(words.end(), command.begin(), command.end());
  Succeeds(words);
  for (const fs::path& file : fs::recursive_directory_iterator(folder_ / "run")) {
    if (!fs::is_regular_file(file)) continue;
    EXPECT_THAT(folder_.Read(fs::relative(file, folder_.path()).string()), Not(HasSubstr("lshformer: info"))) << file;
  }
}

// JSON cannot hold such names; the settings hold them escaped.
TEST_F(TrainingRunTest, NamesThatAreNoUtf8) {
  const std::string text = folder_.Write("t\xFFxt.txt", folder_.Read("text.txt"));
  fs::copy(folder_ / "tokenizer", folder_ / "tok\xFE");
  const std::vector<std::string> names{"--train_file",      text,          "--do_eval",
                                       "--validation_file", text,          "--tokenizer_name",
                                       folder_ / "tok\xFE", "--max_steps", "4"};
  Succeeds(Pretrain("r\xFCn", names));
  EXPECT_THAT(folder_.Read("r\xFCn/training_args.json"), AllOf(HasSubstr("t\\\\xFFxt.txt"), HasSubstr("tok\\\\xFE")));
  std::vector<std::string> again = names;
  again.insert(again.end(), {"--resume_from_checkpoint", "auto"});
  Succeeds(Pretrain("r\xFCn", again));
  again.insert(again.end(), {"--config_overrides", "hidden_size=\xFD"});
  EXPECT_THAT(Fails(Pretrain("r\xFCn", again), 2), HasSubstr("--config_overrides: "));
  const std::string model = folder_ / "r\xFCn";
  Succeeds({LSHFORMER_BINARY, "predict", "--task", "fill-mask", "--model_name_or_path", model, "--text", "a [MASK]"});
  Succeeds({LSHFORMER_BINARY, "info", model, "--json"});
  Succeeds({LSHFORMER_BINARY, "report", model, "--output", folder_ / "p\xFFge.html"});
}

TEST_F(TrainingRunTest, SavedFoldersKeepTheTokenizersFiles) {
  Json model{{"type", "WordPiece"},
             {"unk_token", "[UNK]"},
             {"continuing_subword_prefix", "##"},
             {"max_input_chars_per_word", 100}};
  std::istringstream tokens(folder_.Read("tokenizer/vocab.txt"));
  for (std::string token; std::getline(tokens, token);) model["vocab"][token] = model["vocab"].size();
  const std::string json =
      R"({"truncation": null, "pre_tokenizer": {"type": "BertPreTokenizer"},
"normalizer": {"type": "BertNormalizer", "lowercase": true},
"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}, "model": )" +
      model.dump() + "}";
  folder_.Write("tokenizer/tokenizer.json", json);
  folder_.Write("tokenizer/tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656, "x": 1})");
  Succeeds(Pretrain("new", {"--max_steps", "5"}));
  for (const char* saved : {"new", "new/checkpoint-5"}) {
    EXPECT_EQ(folder_.Read(std::string(saved) + "/tokenizer.json"), json);
    const Json config = Json::parse(folder_.Read(std::string(saved) + "/tokenizer_config.json"));
    EXPECT_EQ(config["model_max_length"], 32) << "the position table";
    EXPECT_EQ(config["x"], 1);
  }
  // A checkpoint's own limit stays, and so do its bytes.
  const std::string shorter = "{\"model_max_length\":  20}";
  folder_.Write("new/tokenizer_config.json", shorter);
  Succeeds({LSHFORMER_BINARY, "pretrain", "--no_progress", "--model_name_or_path", folder_ / "new", "--train_file",
            folder_ / "text.txt", "--output_dir", folder_ / "tuned", "--max_steps", "1"});
  EXPECT_EQ(folder_.Read("tuned/tokenizer_config.json"), shorter);
  EXPECT_EQ(folder_.Read("tuned/tokenizer.json"), json);
}

}  // namespace
}  // namespace lshformer::cli
