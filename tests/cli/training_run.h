// A small vocabulary, a text and a GLUE folder, and the commands that train on them.
#pragma once
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "train/checkpoint.h"
#include "util/command.h"
#include "util/temp_folder.h"

namespace lshformer::cli {

class TrainingRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n,\n";
    for (char letter = 'a'; letter <= 'z'; ++letter) vocabulary += std::string(1, letter) + "\n##" + letter + "\n";
    folder_.Write("tokenizer/vocab.txt", vocabulary);
    std::string text, pairs, table = "sentence\tlabel\n";
    for (int i = 0; i < 60; ++i) {
      const std::string noun(1, static_cast<char>('a' + i * 7 % 26));
      text += noun + "at sits on the " + noun + "ed, and the " + noun + "og sleeps.\n\n";
      pairs += noun + (i % 6 == 0 ? "at sits.\n\n" : "at sits. Its " + noun + "ed is " + noun + "ot. It naps.\n\n");
      table += (i % 2 == 0 ? "good " : "bad ") + noun + "at\t" + (i % 2 == 0 ? "1" : "0") + "\n";
    }
    folder_.Write("text.txt", text);
    folder_.Write("pairs.txt", pairs);
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

  testing::CommandResult Succeeds(const std::vector<std::string>& words) const {
    testing::CommandResult result = testing::RunCommand(words);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, ::testing::IsEmpty());
    return result;
  }
  // One line on stderr, which is returned.
  std::string Fails(const std::vector<std::string>& words, int status) const {
    const testing::CommandResult result = testing::RunCommand(words);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_THAT(result.out, ::testing::IsEmpty());
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
    return result.err;
  }
  // Starts the command, sends it `signal` after `delay` or as soon as `early` holds, waits for its end.
  testing::CommandResult Interrupt(std::vector<std::string> words, int signal, std::chrono::duration<double> delay,
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
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < delay && !(early && early()))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    testing::CommandResult result;
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

  static inline const Json kMark = Json::object({{"marked", 1}});
  testing::TempFolder folder_;
};

}  // namespace lshformer::cli
