// lshformer does without libtorch, which takes a third of a second to load, until a model runs: a copy of the program
// without lshformer-models beside it does all the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "base/signals.h"
#include "lshformer/version.h"
#include "util/command.h"

namespace lshformer::cli {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::lshformer::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class StartTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::copy_file(LSHFORMER_BINARY, program_); }

  CommandResult Run(std::vector<std::string> words) const {
    words.insert(words.begin(), program_);
    return RunCommand(words);
  }
  std::string Succeeds(const std::vector<std::string>& words) const {
    const CommandResult result = Run(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }

  TempFolder folder_;
  const std::string program_ = folder_ / "lshformer";
};

TEST_F(StartTest, TheLoaderFindsNoLibtorch) {
  // What the loader would load, in place of running the program.
  const CommandResult libraries = RunCommand({"/usr/bin/env", "LD_TRACE_LOADED_OBJECTS=1", program_});
  EXPECT_THAT(libraries.out, AllOf(HasSubstr("libstdc++"), Not(HasSubstr("libtorch")), Not(HasSubstr("blas"))));
}

// The families' names are in it, which the one program has from a table and the other from the build.
TEST_F(StartTest, HelpAndVersionOfEveryCommandNeedNoModels) {
  EXPECT_EQ(Succeeds({"--version"}), "lshformer " LSHFORMER_VERSION "\n");
  EXPECT_THAT(Succeeds({"--help"}), HasSubstr("quickstart"));
  for (const char* command :
       {"quickstart", "info", "tokenizer", "pretrain", "train", "evaluate", "predict", "search", "serve", "inspect",
        "attention", "bench", "tune", "convert", "synth", "reproduce", "report"})
    EXPECT_EQ(Succeeds({command, "--help"}), RunCommand({LSHFORMER_MODELS_BINARY, command, "--help"}).out) << command;
}

TEST_F(StartTest, InfoOfTheBuildIsThatOfTheProgramWithModels) {
  EXPECT_EQ(Succeeds({"info", "--build"}), RunCommand({LSHFORMER_MODELS_BINARY, "info", "--build"}).out);
}

TEST_F(StartTest, TokenizersTextsAndReportsNeedNoModels) {
  Succeeds({"--quiet", "synth", "--output", folder_ / "text.txt", "--task", "text", "--seed", "1", "--words", "500"});
  Succeeds({"--quiet", "tokenizer", "train", "--type", "wordpiece", "--input", folder_ / "text.txt", "--vocab_size",
            "200", "--output_dir", folder_ / "tokenizer"});
  EXPECT_THAT(Succeeds({"tokenizer", "encode", "--tokenizer", folder_ / "tokenizer", "--input",
                        folder_.Write("line", "a b\n")}),
              HasSubstr("\"input_ids\""));
  EXPECT_EQ(Run({"report", folder_ / "nothing"}).status, 1);  // its own error, not that models are missing
  EXPECT_THAT(Run({"report", folder_ / "nothing"}).err, Not(HasSubstr("lshformer-models")));
}

TEST_F(StartTest, WrongFlagsNeedNoModels) {
  const CommandResult result = Run({"train", "--no_such_flag", "1"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("--no_such_flag"));
}

TEST_F(StartTest, AModelWithoutItsProgramIsOneLine) {
  const CommandResult result = Run({"inspect", "--model_name_or_path", "m", "--input", "x", "--output", folder_ / "o"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("libexec/lshformer/lshformer-models"), HasSubstr("No such file")));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
}

// One line of ours and status 1, whatever it is that the libraries lack.
void ExpectOneLine(const CommandResult& result) {
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_THAT(result.err, ::testing::StartsWith("lshformer: "));
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
}

CommandResult RunUnder(const std::string& limit, std::vector<std::string> words) {
  words.insert(words.begin(), {"/bin/sh", "-c", "ulimit -c 0; ulimit " + limit + "; exec \"$@\"", "sh"});
  return RunCommand(words);
}

const std::vector<std::string> kPredict{
    LSHFORMER_BINARY, "predict", "--model_name_or_path", "/nowhere", "--task", "fill-mask", "--text", "a"};

// The loader cannot map a library; OpenBLAS does not get its buffer; a constructor throws; there is just enough, and
// the command says what is wrong with its folder.
TEST(StartUnderLimitsTest, TooLittleAddressSpaceIsOneLine) {
  for (int kib = 150'000; kib <= 950'000; kib += 100'000)
    for (const std::vector<std::string>& words : {kPredict, {LSHFORMER_MODELS_BINARY, "info", "/nowhere"}}) {
      SCOPED_TRACE(::testing::Message() << words[1] << " under ulimit -v " << kib);
      const CommandResult result = RunUnder("-v " + std::to_string(kib), words);
      // Started by hand, the second program ends with the loader's own line where that cannot go on.
      if (result.status != 127 || words == kPredict) ExpectOneLine(result);
    }
  EXPECT_THAT(RunUnder("-v 150000", kPredict).err, HasSubstr("ulimit -v leaves its libraries 150000 KiB"));
}

TEST(StartUnderLimitsTest, ThreadsThatTheSystemDoesNotGiveAreOneLine) {
  const TempFolder folder;
  const CommandResult result = RunUnder(
      "-v 300000", {LSHFORMER_BINARY, "synth", "--threads", "200", "--task", "text", "--output", folder / "text.txt"});
  ExpectOneLine(result);
  EXPECT_THAT(result.err, HasSubstr("--threads: 200 are wanted"));
}

TEST(StartUnderLimitsTest, ALibraryThatCannotBeLoadedIsOneLine) {
  const CommandResult libraries = RunCommand({"/usr/bin/env", "LD_TRACE_LOADED_OBJECTS=1", LSHFORMER_MODELS_BINARY});
  const size_t begin = libraries.out.find("libtorch_cpu");
  ASSERT_NE(begin, std::string::npos) << libraries.out;
  const TempFolder folder;
  folder.Write(libraries.out.substr(begin, libraries.out.find(' ', begin) - begin), "no library");
  std::vector<std::string> words{"/usr/bin/env", "LD_LIBRARY_PATH=" + folder.path()};
  words.insert(words.end(), kPredict.begin(), kPredict.end());
  const CommandResult result = RunCommand(words);
  ExpectOneLine(result);
  EXPECT_THAT(result.err, AllOf(HasSubstr("lshformer-models: "), HasSubstr("libtorch_cpu")));
}

// The signal waits while the first program becomes the second, and ends that before its libraries have set themselves
// up.
TEST(StartSignalTest, OneWhileLibrariesAreLoadedEndsTheProgram) {
  for (const int signal : {SIGINT, SIGTERM}) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      HoldStopSignals(true);
      raise(signal);
      dup2(ends[1], STDERR_FILENO);
      execl(LSHFORMER_MODELS_BINARY, LSHFORMER_MODELS_BINARY, "--version", nullptr);
      _exit(127);
    }
    close(ends[1]);
    std::string err(200, ' ');
    err.resize(static_cast<size_t>(std::max<ssize_t>(0, read(ends[0], err.data(), err.size()))));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 128 + signal);
    EXPECT_EQ(err, "lshformer: stopped; nothing was written\n");
  }
}

}  // namespace
}  // namespace lshformer::cli
