// The command `report`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "report/xml_check.h"
#include "util/command.h"

namespace lshformer {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::RunCommand;
using testing::TempFolder;

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() {
    for (const char* name : {"a", "b"}) {
      folder_.Write(std::string(name) + "/all_results.json", R"({"train_loss": 2.5, "eval_accuracy": 0.75})");
      folder_.Write(std::string(name) + "/trainer_state.json",
                    R"({"log_history": [{"step": 1, "loss": 3.5}, {"step": 2, "loss": 2.5}]})");
    }
  }
  TempFolder folder_;
};

TEST_F(ReportTest, WritesOnePageAndPrintsTheTable) {
  const CommandResult result =
      RunCommand({LSHFORMER_BINARY, "report", folder_ / "a", folder_ / "b", "--output", folder_ / "r.html"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("train_loss"));
  EXPECT_EQ(XmlProblem(folder_.Read("r.html")), "");
}

TEST_F(ReportTest, OnStdoutThePageStandsAlone) {
  const CommandResult result =
      RunCommand({LSHFORMER_BINARY, "report", folder_ / "a", "--output", "-", "--title", "T&T"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(XmlProblem(result.out), "");
  EXPECT_THAT(result.out, HasSubstr("<h1>T&amp;T</h1>"));
}

TEST_F(ReportTest, AMissingOrDamagedRunIsOneLine) {
  folder_.Write("broken/all_results.json", "{\"a\":");
  for (const auto& [run, name] :
       {std::pair(folder_ / "nothing", "nothing"), {folder_ / "broken", "all_results.json"}}) {
    const CommandResult result =
        RunCommand({LSHFORMER_BINARY, "report", folder_ / "a", run, "--output", folder_ / "r.html"});
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr(name));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "r.html"));
  }
  EXPECT_EQ(RunCommand({LSHFORMER_BINARY, "report"}).status, 2);
}

TEST_F(ReportTest, TimingsAloneMakeATableOfTimings) {
  const std::string ours =
      folder_.Write("bench.json", R"({"results": [{"name": "dense", "length": 128, "median_ms": 1.5}]})");
  const std::string peers = folder_.Write("peers.json", R"({"results": [{"name": "hf", "seconds": 2,
      "tokens_per_second": 700}]})");
  const CommandResult result = RunCommand({LSHFORMER_BINARY, "report", ours, peers, "--output", folder_ / "r.html"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::StartsWith("median ms"));
  EXPECT_THAT(result.out, HasSubstr("700"));
  EXPECT_EQ(XmlProblem(folder_.Read("r.html")), "");
}

TEST_F(ReportTest, AFileOfAnotherKindIsRefused) {
  const std::string other = folder_.Write("other.json", R"({"log_history": [], "global_step": 3})");
  for (const std::vector<std::string>& files : {std::vector<std::string>{other}, {folder_ / "a", other}}) {
    std::vector<std::string> words{LSHFORMER_BINARY, "report"};
    words.insert(words.end(), files.begin(), files.end());
    words.insert(words.end(), {"--output", folder_ / "r.html"});
    const CommandResult result = RunCommand(words);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr("other.json: expected timings"));
  }
}

}  // namespace
}  // namespace lshformer
