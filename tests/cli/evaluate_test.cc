#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "util/command.h"
#include "util/temp_folder.h"

namespace lshformer::cli {
namespace {

using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::lshformer::testing::TempFolder;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class EvaluateCommandTest : public ::testing::Test {
 protected:
  CommandResult Evaluate(const std::vector<std::string>& flags) const {
    std::vector<std::string> words{LSHFORMER_BINARY, "evaluate", "--no_progress"};
    words.insert(words.end(), flags.begin(), flags.end());
    return RunCommand(words);
  }
  std::string Wrong(const std::vector<std::string>& flags, int status = 2) const {
    const CommandResult result = Evaluate(flags);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_THAT(result.err, StartsWith("lshformer: "));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1);
    return result.err;
  }
  TempFolder folder_;
  const std::string references_ = folder_.Write("dev.tsv", "sentence\tlabel\na\t1\nb\t0\nc\t1\nd\t1\n");
  const std::string predictions_ =
      folder_.Write("predict_results_sst2.txt", "index\tprediction\n0\t1\n1\tpositive\n2\t1\n3\t0\n");
};

TEST_F(EvaluateCommandTest, ScoresFilesAlone) {
  const CommandResult result =
      Evaluate({"--task_name", "sst2", "--predictions", predictions_, "--references", references_});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_DOUBLE_EQ(ParseJson(result.out, "stdout")["accuracy"].get<double>(), 0.5);
}

TEST_F(EvaluateCommandTest, FilesOfOnesOwnNeedNoTaskName) {
  const CommandResult result =
      Evaluate({"--task", "text-classification", "--predictions",
                folder_.Write("predict_results.txt", "index\tprediction\n0\t1.500\n1\t0.000\n"), "--references",
                folder_.Write("own.tsv", "text\tlabel\na\t1\nb\t0.5\n")});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_DOUBLE_EQ(ParseJson(result.out, "stdout")["mse"].get<double>(), 0.25);
}

TEST_F(EvaluateCommandTest, WritesToAFile) {
  const std::string output = folder_ / "scores.json";
  const CommandResult result =
      Evaluate({"--task_name", "sst2", "--predictions", predictions_, "--references", references_, "--output", output});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_DOUBLE_EQ(ReadJsonFile(output)["accuracy"].get<double>(), 0.5);
}

TEST_F(EvaluateCommandTest, WrongFlagsAreNamed) {
  EXPECT_THAT(Wrong({}), HasSubstr("--model_name_or_path"));
  EXPECT_THAT(Wrong({"--predictions", predictions_}), HasSubstr("--references"));
  EXPECT_THAT(Wrong({"--predictions", predictions_, "--references", references_}), HasSubstr("--task_name: required"));
  EXPECT_THAT(Wrong({"--model_name_or_path", "m"}), HasSubstr("--validation_file"));
  EXPECT_THAT(Wrong({"--model_name_or_path", "m", "--task", "text-classification", "--data_dir", "d"}),
              HasSubstr("--data_dir: needs --task_name"));
  EXPECT_THAT(Wrong({"--model_name_or_path", "m", "--task_name", "sst", "--data_dir", "d"}),
              HasSubstr("did you mean sst2?"));
  EXPECT_THAT(Wrong({"--model_name_or_path", "/nowhere", "--validation_file", references_}, 1),
              HasSubstr("/nowhere: no such folder"));
}

}  // namespace
}  // namespace lshformer::cli
