// lshformer does without libtorch, which takes a third of a second to load, until a model runs: a copy of the program
// without lshformer-models beside it does all the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

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
  for (const char* command : {"quickstart", "info", "tokenizer", "pretrain", "train", "evaluate", "predict", "inspect",
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

}  // namespace
}  // namespace lshformer::cli
