// The parts of `quickstart` that can be told apart from training. The whole is run by the end-to-end tests.
#include "quickstart/quickstart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TempFolder;
namespace fs = std::filesystem;

QuickstartSide Side(const char* name, const AttentionSpec& spec, double near_ms, double far_ms, double share) {
  QuickstartSide side;
  side.name = name;
  side.spec = spec;
  for (const auto& [length, ms] : {std::pair<int64_t, double>(10, near_ms), {8192, far_ms}}) {
    side.attention.push_back({length, {ms, ms, ms, 5}, CostOfAttention(spec, 2, 64, length, share), length * 100});
  }
  side.pretrain.train = {{"train_loss", 5.5},
                         {"train_runtime", 40.0},
                         {"train_samples_per_second", 100.0},
                         {"train_steps_per_second", 12.5}};
  side.pretrain.eval = {
      {"eval_loss", 3.0}, {"eval_accuracy", 0.4}, {"perplexity", std::exp(3.0)}, {"eval_samples", 100}};
  side.sentiment.train = side.pretrain.train;
  side.sentiment.eval = {{"eval_loss", 0.2}, {"eval_accuracy", 0.95}, {"eval_f1", 0.94}, {"eval_samples", 2000}};
  side.pretrain.history =
      Json::parse(R"([{"step": 1, "loss": 8.0}, {"step": 2, "loss": 5.0}, {"step": 2, "eval_accuracy": 0.4}])");
  side.sentiment.history = side.pretrain.history;
  side.questions.train = side.pretrain.train;
  side.questions.eval = {{"eval_loss", 0.3}, {"eval_exact", 90.0}, {"eval_f1", 91.0}, {"eval_samples", 300}};
  return side;
}

QuickstartResult Result() {
  QuickstartResult result;
  result.exact = Side("exact", AttentionSpec{}, 0.01, 300, 1);
  result.sparse = {Side("SimHash", {.kind = SimHashAttention{}}, 0.02, 100, 0.25),
                   Side("Reformer", {.kind = ReformerAttention{}}, 0.01, 10, 1)};
  return result;
}

std::string SimHashSummary(const QuickstartResult& result) { return QuickstartSummary(result, result.sparse[0]); }

std::vector<std::string> Row(const Table& table, const std::string& name) {
  for (const Table::Line& line : table.lines) {
    if (line.cells[0] == name) return line.cells;
  }
  return {"no row " + name};
}

TEST(QuickstartTableTest, HasThePaperNumbersOfTableOne) {
  const Table table = QuickstartTable(Result());
  EXPECT_EQ(table.columns, (std::vector<std::string>{"", "exact", "SimHash", "ratio", "Reformer", "ratio"}));
  EXPECT_THAT(Row(table, "KFLOPs at 10 tokens, the paper's"), ElementsAre(_, "25.60", "10.24", "0.400", "25.60", "1"));
  EXPECT_THAT(Row(table, "dot products at 10 tokens"), ElementsAre(_, "200", "50", "0.250", "200", "1"));
  EXPECT_THAT(Row(table, "time at 8192 tokens, ms"), ElementsAre(_, "300", "100", "0.333", "10", "0.0333"));
  // Four rounds of windows of 128 keys.
  EXPECT_THAT(Row(table, "share of pairs at 8192 tokens, %"), ElementsAre(_, "100", "25", "0.250", "6.250", "0.0625"));
}

TEST(QuickstartTableTest, AFigureThatIsMissingIsShownAsMissing) {
  QuickstartResult result = Result();
  result.sparse[0].pretrain.eval.erase("perplexity");
  EXPECT_THAT(Row(QuickstartTable(result), "perplexity"), ElementsAre(_, "20.09", "–", "–", "20.09", "1"));
}

// A job that was not run took no memory, which is not the same as 0 MB.
TEST(QuickstartTableTest, WhatDidNotRunHasNoMemory) {
  QuickstartResult result = Result();
  result.exact.pretrain.peak_mb = 200, result.sparse[0].pretrain.peak_mb = 100, result.sparse[1].pretrain.peak_mb = 0;
  EXPECT_THAT(Row(QuickstartTable(result), "peak memory of the process, MB"),
              ElementsAre(_, "200", "100", "0.500", "–", "–"));
}

TEST(QuickstartSummaryTest, SaysWhatWasGainedAndWhatItCost) {
  const std::string summary = SimHashSummary(Result());
  EXPECT_THAT(summary, HasSubstr("SimHash attention computed 25.0 % of the pairs and was 3 times faster than exact "
                                 "attention (100 against 300 ms)"));
  EXPECT_THAT(summary, HasSubstr("at 10 tokens it was 2 times slower"));
  EXPECT_THAT(summary, HasSubstr("no difference can be seen"));
}

TEST(QuickstartSummaryTest, EachHashingHasItsOwn) {
  const QuickstartResult result = Result();
  const std::string summary = QuickstartSummary(result, result.sparse[1]);
  EXPECT_THAT(summary, HasSubstr("Reformer attention computed 6.2 % of the pairs and was 30 times faster"));
  EXPECT_THAT(summary, HasSubstr("at 10 tokens it was as fast"));
}

TEST(QuickstartSummaryTest, IsHonestWhenHashingLoses) {
  QuickstartResult result = Result();
  result.sparse[0].attention.back().time.median_ms = 450;
  result.sparse[0].pretrain.train["train_samples_per_second"] = 50.0;
  result.sparse[0].pretrain.eval["eval_loss"] = 3.4;
  const std::string summary = SimHashSummary(result);
  EXPECT_THAT(summary, HasSubstr("was 1.5 times slower than exact attention"));
  EXPECT_THAT(summary, HasSubstr("Pretraining with it was 2 times slower"));
  EXPECT_THAT(summary, HasSubstr("in quality it cost something"));
}

TEST(QuickstartSummaryTest, ADifferenceWithinChanceIsNone) {
  QuickstartResult result = Result();
  result.sparse[0].sentiment.eval["eval_accuracy"] = 0.945;  // ten of 2000 reviews
  EXPECT_THAT(SimHashSummary(result), HasSubstr("no difference can be seen"));
  result.sparse[0].sentiment.eval["eval_accuracy"] = 0.90;
  EXPECT_THAT(SimHashSummary(result), HasSubstr("it cost something"));
  result.sparse[0].sentiment.eval["eval_accuracy"] = 0.99;
  EXPECT_THAT(SimHashSummary(result), HasSubstr("it cost nothing"));
}

TEST(QuickstartSummaryTest, QuestionsCountToo) {
  QuickstartResult result = Result();
  EXPECT_THAT(SimHashSummary(result), HasSubstr("questions on long documents 90.0 % instead of 90.0 %"));
  result.sparse[0].questions.eval["eval_exact"] = 88.0;  // six of 300
  EXPECT_THAT(SimHashSummary(result), HasSubstr("no difference can be seen"));
  result.sparse[0].questions.eval["eval_exact"] = 60.0;
  EXPECT_THAT(SimHashSummary(result), HasSubstr("it cost something"));
  result.sparse[0].sentiment.eval["eval_accuracy"] = 0.99;
  EXPECT_THAT(SimHashSummary(result), HasSubstr("it lost in some and won in others"));
}

TEST(QuickstartTableTest, QuestionsHaveSharesInPercentAlready) {
  const Table table = QuickstartTable(Result());
  EXPECT_THAT(Row(table, "exact answers, %"), ElementsAre(_, "90", "90", "1", "90", "1"));
}

TEST(QuickstartSummaryTest, SpeedsThatTheClockCannotTellApartAreEqual) {
  QuickstartResult result = Result();
  result.sparse[0].attention.back().time.median_ms = 295;
  EXPECT_THAT(SimHashSummary(result), HasSubstr("no faster than exact attention"));
}

TEST(QuickstartPageTest, HoldsTheTableTheCurvesAndTheCommands) {
  QuickstartResult result = Result();
  result.commands = {"lshformer predict --text 'a <b>'"};
  const std::string page = QuickstartPage(result);
  for (const char* part : {"<svg", "perplexity", "--text &#39;a &lt;b&gt;&#39;", "<title>exact: 5 at 2</title>",
                           "<title>Reformer: 5 at 2</title>", "30.00\u00a0x", "Reformer&#39;s settings"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, Not(HasSubstr("nan")));
}

TEST(QuickstartFolderTest, PublishesOverItsOwnOutputAndLeavesTheRest) {
  const TempFolder folder;
  const std::string path = folder / "out";
  for (const char* text : {"first", "second"}) {
    QuickstartFolder output(path);
    folder.Write("out/.partial/report.html", text);
    fs::create_directory(output.Work("model"));
    if (std::string(text) == "second") folder.Write("out/notes.txt", "mine");
    output.Publish();
    EXPECT_EQ(folder.Read("out/report.html"), text);
  }
  EXPECT_EQ(folder.Read("out/notes.txt"), "mine");
  EXPECT_FALSE(fs::exists(path + "/.partial"));
}

TEST(QuickstartFolderTest, WithoutPublishNothingChanges) {
  const TempFolder folder;
  { QuickstartFolder output(folder / "new"); }
  EXPECT_FALSE(fs::exists(folder / "new"));
  fs::create_directory(folder / "empty");
  { QuickstartFolder output(folder / "empty"); }
  EXPECT_TRUE(fs::is_empty(folder / "empty"));
  {
    QuickstartFolder output(folder / "done");
    folder.Write("done/.partial/report.html", "old");
    output.Publish();
  }
  {
    QuickstartFolder output(folder / "done");
    folder.Write("done/.partial/report.html", "new");
  }
  EXPECT_EQ(folder.Read("done/report.html"), "old");
  EXPECT_FALSE(fs::exists(folder / "done/.partial"));
}

TEST(QuickstartFolderTest, AFolderThatIsNotItsOwnIsRefused) {
  const TempFolder folder;
  folder.Write("thesis/chapter.txt", "mine");
  EXPECT_THAT(ErrorOf([&] { QuickstartFolder output(folder / "thesis"); }), HasSubstr("was not made by quickstart"));
  EXPECT_EQ(folder.Read("thesis/chapter.txt"), "mine");
  EXPECT_FALSE(fs::exists(folder / "thesis/.partial"));
  folder.Write("file", "");
  EXPECT_THAT(ErrorOf([&] { QuickstartFolder output(folder / "file"); }), HasSubstr("file"));
  // What a killed run leaves behind is its own.
  folder.Write("killed/.partial/corpus.txt", "");
  EXPECT_EQ(ErrorOf([&] { QuickstartFolder output(folder / "killed"); }), "(nothing thrown)");
}

TEST(TimeAttentionTest, MeasuresEachSpecAtEachLength) {
  const auto timings = TimeAttention(
      {{.kind = DenseAttention{}}, {.kind = SimHashAttention{}}, {.kind = ReformerAttention{}}}, {10, 300}, 2, 16, 1);
  ASSERT_EQ(timings.size(), 3U);
  for (const auto& of_spec : timings) {
    ASSERT_EQ(of_spec.size(), 2U);
    for (const AttentionTiming& timing : of_spec) {
      EXPECT_GT(timing.time.median_ms, 0);
      EXPECT_LE(timing.time.p10_ms, timing.time.median_ms);
      EXPECT_LE(timing.time.median_ms, timing.time.p90_ms);
      EXPECT_GE(timing.time.runs, 5);
    }
  }
  EXPECT_EQ(timings[0][1].cost.share(), 1);
  // Random vectors in 16 dimensions: a quarter and what the table's collisions add, give or take.
  EXPECT_NEAR(timings[1][1].cost.share(), 0.26, 0.1);
  EXPECT_EQ(timings[0][0].cost.dot_products, 200);
}

TEST(PeakMemoryTest, SeesMemoryThatWasFreedAgain) {
  const PeakMemory small;
  const double before = small.Megabytes();
  if (before == 0) GTEST_SKIP() << "/proc/self/statm is not there";
  const PeakMemory peak;
  {
    std::vector<char> block(size_t{300} << 20, 1);
    const PeakMemory inner;  // looks at once, whatever the timer does
    EXPECT_GT(inner.Megabytes(), before + 250);
    EXPECT_GT(peak.Megabytes(), before + 250);
  }
  EXPECT_GT(peak.Megabytes(), before + 250);
}

}  // namespace
}  // namespace lshformer
