// Training as a shell sees it: folders, results, signals, kills and resumes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "ops/matmul.h"
#include "train/checkpoint.h"
#include "util/command.h"
#include "util/temp_folder.h"

namespace lshformer::cli {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::lshformer::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Clock = std::chrono::steady_clock;

class TrainingRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n,\n";
    for (char letter = 'a'; letter <= 'z'; ++letter) vocabulary += std::string(1, letter) + "\n##" + letter + "\n";
    folder_.Write("tokenizer/vocab.txt", vocabulary);
    std::string text, table = "sentence\tlabel\n";
    for (int i = 0; i < 60; ++i) {
      const std::string noun(1, static_cast<char>('a' + i * 7 % 26));
      text += noun + "at sits on the " + noun + "ed, and the " + noun + "og sleeps.\n\n";
      table += (i % 2 == 0 ? "good " : "bad ") + noun + "at\t" + (i % 2 == 0 ? "1" : "0") + "\n";
    }
    folder_.Write("text.txt", text);
    folder_.Write("glue/train.tsv", table);
    folder_.Write("glue/dev.tsv", table.substr(0, table.find('\n', 200) + 1));
    folder_.Write("glue/test.tsv", "index\tsentence\n0\tgood cat\n1\tbad dog\n2\tgood bed\n");
  }

  std::vector<std::string> NewModel() const {
    return {"--model_type",
            "bert",
            "--tokenizer_name",
            folder_ / "tokenizer",
            "--config_overrides",
            "hidden_size=16,num_hidden_layers=2,num_attention_heads=2,intermediate_size=24,max_position_embeddings=32"};
  }
  // SimHash, dropout (the config's 0.1), accumulation, epochs of 14 updates and checkpoints in the middle of them.
  std::vector<std::string> Pretrain(const std::string& output, const std::vector<std::string>& more = {}) const {
    return Words("pretrain",
                 {"--train_file",
                  folder_ / "text.txt",
                  "--output_dir",
                  folder_ / output,
                  "--attention",
                  "simhash",
                  "--per_device_train_batch_size",
                  "2",
                  "--gradient_accumulation_steps",
                  "2",
                  "--learning_rate",
                  "1e-3",
                  "--max_steps",
                  "60",
                  "--logging_steps",
                  "4",
                  "--save_steps",
                  "5",
                  "--save_total_limit",
                  "2"},
                 more);
  }
  std::vector<std::string> Train(const std::string& output, const std::vector<std::string>& more = {}) const {
    return Words("train",
                 {"--task_name", "sst2", "--data_dir", folder_ / "glue", "--output_dir", folder_ / output,
                  "--per_device_train_batch_size", "8", "--learning_rate", "3e-3", "--num_train_epochs", "6"},
                 more);
  }
  // A flag of `more` replaces one of `words`.
  std::vector<std::string> Words(const std::string& command, const std::vector<std::string>& words,
                                 const std::vector<std::string>& more) const {
    std::vector<std::string> all{LSHFORMER_BINARY, command, "--no_progress", "--threads", "2"};
    const std::vector<std::string> model = NewModel();
    all.insert(all.end(), model.begin(), model.end());
    for (size_t i = 0; i < words.size(); i += 2) {
      if (std::find(more.begin(), more.end(), words[i]) == more.end()) all.insert(all.end(), {words[i], words[i + 1]});
    }
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  CommandResult Succeeds(const std::vector<std::string>& words) const {
    CommandResult result = RunCommand(words);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, IsEmpty());
    return result;
  }
  // One line on stderr, which is returned.
  std::string Fails(const std::vector<std::string>& words, int status) const {
    const CommandResult result = RunCommand(words);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
    return result.err;
  }
  // Starts the command, sends it `signal` after `delay` or as soon as `early` holds, waits for its end.
  CommandResult Interrupt(std::vector<std::string> words, int signal, std::chrono::duration<double> delay,
                          const std::function<bool()>& early = {}) const {
    const std::string err = folder_.Write("interrupted.err", "");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      dup2(open("/dev/null", O_RDWR), STDOUT_FILENO);
      dup2(open(err.c_str(), O_WRONLY), STDERR_FILENO);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    const auto begin = Clock::now();
    while (Clock::now() - begin < delay && !(early && early()))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    CommandResult result;
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.err = folder_.Read("interrupted.err");
    return result;
  }
  std::string Weights(const std::string& run) const { return ReadFile(folder_ / (run + "/model.safetensors")); }
  Json Results(const std::string& file) const { return ReadJsonFile(folder_ / file); }
  // The log without what depends on the clock.
  Json History(const std::string& run) const {
    Json history = Results(run + "/trainer_state.json")["log_history"];
    for (Json& entry : history) {
      for (const char* key : {"train_runtime", "train_samples_per_second", "train_steps_per_second", "eval_runtime",
                              "eval_samples_per_second", "eval_steps_per_second"})
        entry.erase(key);
    }
    return history;
  }
  // Adds an entry to the history in the newest checkpoint of a run; a run that goes on from there takes it along.
  // Returns whether there is one.
  bool MarkNewestCheckpoint(const std::string& run) const {
    const std::string newest = NewestCheckpoint(folder_ / run);
    if (newest.empty()) return false;
    Json state = ReadJsonFile(newest + "/trainer_state.json");
    state["log_history"].push_back(kMark);
    std::ofstream(newest + "/trainer_state.json") << state.dump();
    return true;
  }

  static inline const Json kMark = Json::object({{"marked", "by the test"}});
  TempFolder folder_;
};

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
  Succeeds(Pretrain("run", {"--objective", "mlm+nsp", "--do_eval", "--masking", "whole_word", "--max_steps", "20"}));
  const Json all = Results("run/all_results.json");
  for (const char* key : {"eval_nsp_loss", "eval_nsp_accuracy", "eval_mlm_loss", "eval_mlm_accuracy", "perplexity"})
    EXPECT_TRUE(all.contains(key)) << key;
  EXPECT_NEAR(all["eval_loss"].get<double>(), all["eval_mlm_loss"].get<double>() + all["eval_nsp_loss"].get<double>(),
              1e-9);
  EXPECT_NEAR(all["perplexity"].get<double>(), std::exp(all["eval_mlm_loss"].get<double>()), 1e-6);
  EXPECT_EQ(Results("run/config.json")["architectures"][0], "BertForPreTraining");
  const CommandResult evaluated = Succeeds({LSHFORMER_BINARY, "evaluate", "--no_progress", "--model_name_or_path",
                                            folder_ / "run", "--validation_file", folder_ / "text.txt"});
  EXPECT_TRUE(Json::parse(evaluated.out).contains("eval_nsp_accuracy"));
  // Its encoder and masked-LM head serve other tasks.
  Succeeds({LSHFORMER_BINARY, "predict", "--model_name_or_path", folder_ / "run", "--task", "fill-mask", "--text",
            "a [MASK] b", "--output", folder_ / "filled.jsonl"});
  EXPECT_THAT(Fails(Pretrain("other", {"--dupe_factor", "2"}), 2), HasSubstr("is for --objective mlm+nsp"));
  EXPECT_THAT(Fails(Pretrain("other", {"--objective", "mlm+nsp", "--line_by_line"}), 2), HasSubstr("--line_by_line"));
}

TEST_F(TrainingRunTest, TrainEvaluatesAndPredicts) {
  Succeeds(Train("run", {"--do_eval", "--do_predict", "--eval_steps", "20"}));
  EXPECT_GE(Results("run/eval_results.json")["eval_accuracy"].get<double>(), 0.9);  // "good" and "bad" say it all
  const std::string predictions = ReadFile(folder_ / "run/predict_results_sst2.txt");
  EXPECT_EQ(predictions, "index\tprediction\n0\tpositive\n1\tnegative\n2\tpositive\n");
  const CommandResult evaluated = Succeeds({LSHFORMER_BINARY, "evaluate", "--no_progress", "--model_name_or_path",
                                            folder_ / "run", "--task_name", "sst2", "--data_dir", folder_ / "glue"});
  EXPECT_EQ(Json::parse(evaluated.out)["eval_loss"], Results("run/eval_results.json")["eval_loss"]);
}

TEST_F(TrainingRunTest, DryRunWritesNothing) {
  const Json plan = Json::parse(Succeeds(Pretrain("run", {"--dry_run"})).out);
  EXPECT_EQ(plan["steps"], 60);
  for (const char* key : {"tokens", "parameters", "memory_bytes", "seconds"})
    EXPECT_GT(plan[key].get<double>(), 0) << key;
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

// Killed again and again at other moments of its life, it ends where the undisturbed run ends.
TEST_F(TrainingRunTest, KillsAtAnyMomentDoNotChangeTheResult) {
  const auto begin = Clock::now();
  Succeeds(Pretrain("whole"));
  const std::chrono::duration<double> life = Clock::now() - begin;
  const std::vector<std::string> words = Pretrain("killed", {"--resume_from_checkpoint", "auto"});
  int killed = 0, marks = 0;
  // The first as soon as there is a checkpoint: however slow the machine is now, one start must go on from one.
  const auto checkpoint_is_there = [&] { return !NewestCheckpoint(folder_ / "killed").empty(); };
  for (const double moment : {0.0, 0.55, 0.3, 0.7, 0.62, 0.48, 0.8, 0.35, 0.9}) {
    const CommandResult result = moment == 0 ? Interrupt(words, SIGKILL, std::chrono::minutes(2), checkpoint_is_there)
                                             : Interrupt(words, SIGKILL, life * moment);
    if (result.status == 0) break;
    EXPECT_EQ(result.status, 128 + SIGKILL) << result.err;
    ++killed;
    if (fs::exists(folder_ / "killed/trainer_state.json")) break;  // finished, and killed while it went away
    marks += MarkNewestCheckpoint("killed");
  }
  EXPECT_GE(killed, 1);
  EXPECT_GE(marks, 1) << "no run lived until its first checkpoint";
  Succeeds(words);
  EXPECT_EQ(Weights("killed"), Weights("whole"));
  Json history = History("killed");
  const auto marked = std::remove_if(history.begin(), history.end(), [](const Json& entry) { return entry == kMark; });
  EXPECT_EQ(history.end() - marked, marks) << "some start did not go on from the newest checkpoint";
  history.erase(marked, history.end());
  EXPECT_EQ(history, History("whole"));
  for (const auto& entry : fs::directory_iterator(folder_ / "killed"))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
}

class SignalTest : public TrainingRunTest, public ::testing::WithParamInterface<int> {};

TEST_P(SignalTest, FinishesTheStepSavesAndGoesOn) {
  const auto begin = Clock::now();
  Succeeds(Pretrain("whole"));
  const std::chrono::duration<double> life = Clock::now() - begin;
  const std::vector<std::string> words = Pretrain("stopped", {"--resume_from_checkpoint", "auto", "--save_steps", "0"});
  int stopped = 0;
  for (const double moment : {0.6, 0.5, 0.4, 0.3, 0.2, 0.1}) {
    const CommandResult result = Interrupt(words, GetParam(), life * moment);
    if (result.status == 0 && stopped > 0) break;
    if (result.status == 0) {  // faster than the run that was timed: once more, and earlier
      fs::remove_all(folder_ / "stopped");
      continue;
    }
    ASSERT_EQ(result.status, 128 + GetParam()) << result.err;
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
    ++stopped;
  }
  ASSERT_GE(stopped, 1);
  Succeeds(words);
  EXPECT_EQ(Weights("stopped"), Weights("whole"));
}

INSTANTIATE_TEST_SUITE_P(All, SignalTest, ::testing::Values(SIGINT, SIGTERM));

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

TEST_F(TrainingRunTest, AnotherRunIsNotResumed) {
  Succeeds(Pretrain("run"));
  for (const std::vector<std::string>& change : {std::vector<std::string>{"--seed", "43"},
                                                 {"--per_device_train_batch_size", "4"},
                                                 {"--lsh_bands", "3"},
                                                 {"--max_train_samples", "9"}}) {
    const std::string error = Fails(Pretrain("run", {"--resume_from_checkpoint", "auto", change[0], change[1]}), 2);
    EXPECT_THAT(error, AllOf(HasSubstr(change[0] + ": "), HasSubstr("was made with"))) << change[0];
  }
  if (SupportsProducts(Precision::kBFloat16)) {
    EXPECT_THAT(Fails(Pretrain("run", {"--resume_from_checkpoint", "auto", "--bf16"}), 2),
                AllOf(HasSubstr("--bf16: "), HasSubstr("was made with false, got true")));
  }
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
  EXPECT_THAT(Fails(Train("run", {"--task_name", "sst3"}), 2), HasSubstr("did you mean"));
  EXPECT_THAT(Fails(Train("run", {"--train_file", "x.tsv"}), 2), HasSubstr("--train_file: "));
  EXPECT_THAT(Fails({LSHFORMER_BINARY, "evaluate", "--predictions", "x"}, 2), HasSubstr("--references"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));  // not even empty
  Fails(Pretrain("a/b/run", {"--train_file", folder_ / "missing.txt"}), 1);
  EXPECT_FALSE(fs::exists(folder_ / "a"));
}

}  // namespace
}  // namespace lshformer::cli
