// Tables, JSON and pages of what runs have left: every number is the one in the file that they name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "jobs/recipes/pages.h"
#include "jobs/recipes/results.h"
#include "jobs/recipes/tables.h"
#include "lshformer/version.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::TempFolder;

constexpr const char* kResultsText = R"({
  "title": "A table", "source": "A paper, Table 1", "defects": ["It is said to be wrong."], "notes": ["A note."],
  "columns": [
    {"name": "learn", "title": "accuracy, %", "command": "train", "metric": "eval_accuracy", "times": 100, "flags": {"train_file": "f"}},
    {"name": "loss", "of": "learn", "metric": "eval_loss"},
    {"name": "time", "title": "ms", "command": "bench attention", "metric": "median_ms", "where": {"length": 8}, "flags": {"json": true}},
    {"name": "work", "of": "time", "metric": ["a", "-b/c"], "where": {"length": 8}},
    {"name": "theirs", "title": "their average"}],
  "rows": [{"name": "paper", "title": "exact, published", "published": {"learn": 80}},
           {"name": "exact", "where": {"name": "dense"}, "flags": {"seed": 1}, "columns": {"time": {"seed": null}}, "against": "paper", "printed": {"theirs": 7}},
           {"name": "hashed", "where": {"name": "simhash"}, "flags": {"seed": 2}, "columns": {"time": {"seed": null}}, "printed": {"loss": 0.5}}],
  "claims": [{"claim": "Hashing is faster", "of": "hashed/time", "over": "exact/time", "published": 0.5, "rule": {"direction": 0.1}, "quick": true}],
  "figures": [{"kind": "bars", "title": "Accuracy", "columns": ["learn"]}]})";

class RecipeResultsTest : public ::testing::Test {
 protected:
  RecipeResultsTest() {
    options_.output_dir = folder_ / "out";
    options_.form = Form::kQuick;
    recipe_.name = "own";
    std::vector<Missing> missing;
    std::vector<DataPath> data;
    cells_ = PlanRecipe(recipe_, options_, plan_, missing, data);
  }
  const RecipeRun& RunOf(const char* row, const char* column) const { return plan_.run(cells_.at({row, column})); }
  void Finish(const RecipeRun& run) const {
    RunEntry entry = NewEntry(run, "abc");
    entry.finished = true;
    entry.finished_at = entry.started_at + 1;
    WriteEntry(run, entry, options_);
  }
  void WriteAll() const {
    MakeFolder(RunsFolder(options_));
    Write(RunOf("exact", "learn"), "all_results.json", R"({"eval_accuracy": 0.875, "eval_loss": 0.25})");
    Write(RunOf("hashed", "learn"), "all_results.json",
          R"({"eval_accuracy": {"mean": 0.5, "std": 0.01}, "eval_loss": 1})");
    WriteFileAtomically(LogPath(RunOf("exact", "time"), options_),
                        R"({"results": [{"name": "dense", "length": 4, "median_ms": 1, "a": 1, "b": {"c": 1}},
                           {"name": "dense", "length": 8, "median_ms": 2, "a": 5, "b": {"c": 3}},
                           {"name": "simhash", "length": 8, "median_ms": 1, "a": 5, "b": {"c": 4}}]})");
    for (const RecipeRun& run : plan_.runs) Finish(run);
  }
  void Write(const RecipeRun& run, const std::string& file, const std::string& text) const {
    MakeFolder(run.result);
    WriteFileAtomically(run.result + "/" + file, text);
  }
  RecipeResults Read() const { return ReadResults(recipe_, cells_, plan_, options_); }
  ReproducedRecipe Whole() const { return Reproduced(recipe_, cells_, plan_, options_); }

  TempFolder folder_;
  ReproduceOptions options_;
  Recipe recipe_ = ParseRecipe(ParseJson(kResultsText, "r.json"), "r.json");
  RecipePlan plan_;
  PlannedCells cells_;
};

TEST_F(RecipeResultsTest, TheTableHasOursBesideTheirs) {
  WriteAll();
  EXPECT_EQ(plan_.runs.size(), 3u) << "rows of one benchmark are one run";
  const Table table = RecipeTable(recipe_, Read(), options_);
  EXPECT_THAT(table.columns,
              ElementsAre("", "accuracy, %", "loss", "published", "ratio", "ms", "work", "their average"));
  ASSERT_EQ(table.lines.size(), 4u);
  EXPECT_THAT(table.lines[0].cells, ElementsAre("exact, published", "80", "–", "–", "–", "–", "–", "–"));
  EXPECT_THAT(table.lines[1].cells, ElementsAre("exact", "87.50", "0.2500", "–", "–", "2", "2", "7"));
  EXPECT_THAT(table.lines[2].cells, ElementsAre("  ratio to the published", "1.09", "", "", "", "–", "–", "–"));
  EXPECT_THAT(table.lines[3].cells, ElementsAre("hashed", "50 ± 1", "1", "0.5", "2", "1", "1", "–"));
}

TEST_F(RecipeResultsTest, NothingIsShownOfWhatIsNotFinished) {
  WriteAll();
  RunEntry entry = ReadEntry(RunOf("exact", "learn"), options_);
  entry.finished = false;
  WriteEntry(RunOf("exact", "learn"), entry, options_);
  EXPECT_THAT(RecipeTable(recipe_, Read(), options_).lines[1].cells[1], "–");
}

TEST_F(RecipeResultsTest, HalfWrittenAndForeignEntriesAreErrors) {
  WriteAll();
  const RecipeRun& run = RunOf("exact", "learn");
  const std::string path = EntryPath(run, options_), text = ReadFile(path);
  WriteFileAtomically(path, text.substr(0, text.size() / 2));
  EXPECT_THAT(ErrorOf([&] { Read(); }), HasSubstr("is no whole entry of a run; remove it"));
  std::string other = text;
  const std::string version = std::string("\"version\": \"") + LSHFORMER_VERSION;
  ASSERT_NE(other.find(version), std::string::npos);
  WriteFileAtomically(path, other.replace(other.find(version), version.size(), "\"version\": \"0.0.1"));
  EXPECT_THAT(ErrorOf([&] { Read(); }), HasSubstr("the run was made by lshformer 0.0.1, and this is "));
}

TEST_F(RecipeResultsTest, ResultsThatWereCutSayWhatToRemove) {
  WriteAll();
  const RecipeRun &timed = RunOf("exact", "time"), &trained = RunOf("exact", "learn");
  const auto advice = [&](const RecipeRun& run) {
    return "; remove " + RunsFolder(options_) + "/" + run.key + "*, and the run is made again";
  };
  WriteFileAtomically(LogPath(timed, options_), "");
  EXPECT_EQ(ErrorOf([&] { Read(); }).find(LogPath(timed, options_)), 0u);
  EXPECT_THAT(ErrorOf([&] { Read(); }), HasSubstr(advice(timed)));
  WriteAll();
  Write(trained, "all_results.json", "{");
  EXPECT_THAT(ErrorOf([&] { Read(); }), HasSubstr(advice(trained)));
}

// From a number on a page to its file, command, program and machine; and back: another number in the file is another
// page.
TEST_F(RecipeResultsTest, NumbersCanBeTraced) {
  WriteAll();
  WriteRecipe(Whole(), plan_, options_);
  WriteReport({Whole()}, plan_, options_);
  const Json json = ReadJsonFile(folder_ / "out/own/results.json");
  const Json& cell = json.at("cells").at(1);
  EXPECT_EQ(cell.at("row"), "exact");
  EXPECT_EQ(cell.at("value"), 87.5);
  EXPECT_EQ(cell.at("published"), 80);
  EXPECT_EQ(ReadJsonFile(cell.at("file")).at(cell.at("metric")), 0.875);
  const Json& run = json.at("runs").at(cell.at("run").get<std::string>());
  EXPECT_THAT(run.at("command"), HasSubstr("lshformer train --train_file f --seed 1"));
  EXPECT_EQ(run.at("lshformer"), (Json{{"version", LSHFORMER_VERSION}, {"commit", "abc"}}));
  EXPECT_TRUE(run.at("machine").contains("cpu"));
  EXPECT_EQ(json.at("claims").at(0).at("kind"), "holds");
  const std::string page = folder_.Read("out/own/report.html"), all = folder_.Read("out/report.html");
  for (const std::string& text : {page, all, folder_.Read("out/own/report.md"), folder_.Read("out/report.md")})
    for (const char* part : {"87.50", "A paper, Table 1", "It is said to be wrong.", "A note.",
                             "lshformer train --train_file f", "holds, in direction and size"})
      EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(folder_.Read("out/own/figure-1.svg"), HasSubstr("<svg"));
  Write(RunOf("exact", "learn"), "all_results.json", R"({"eval_accuracy": 0.625, "eval_loss": 0.25})");
  WriteRecipe(Whole(), plan_, options_);
  WriteReport({Whole()}, plan_, options_);
  for (const char* file : {"out/own/report.html", "out/report.html", "out/own/report.md", "out/own/results.json"}) {
    EXPECT_THAT(folder_.Read(file), HasSubstr("62.5")) << file;
    EXPECT_THAT(folder_.Read(file), Not(HasSubstr("87.5"))) << file;
  }
}

// A metric of no run is a misspelt one; where some run has it, others may be without.
TEST_F(RecipeResultsTest, MetricsOfNoRunAreNamed) {
  EXPECT_THAT(Read().unknown, IsEmpty()) << "nothing has run";
  WriteAll();
  EXPECT_THAT(Read().unknown, IsEmpty());
  for (const char* row : {"exact", "hashed"}) Write(RunOf(row, "learn"), "all_results.json", R"({"eval_los": 0.5})");
  EXPECT_THAT(Read().unknown,
              ElementsAre(HasSubstr("column \"learn\": no run has a metric \"eval_accuracy\""),
                          "column \"loss\": no run has a metric \"eval_loss\" (did you mean \"eval_los\"?)"));
}

}  // namespace
}  // namespace lshformer
