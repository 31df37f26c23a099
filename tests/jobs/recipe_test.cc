// Recipes: reading, and what is run with which flags. Running: tests/cli/reproduce_test.cc.
#include "jobs/recipes/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

constexpr const char* kText = R"({
  "title": "T", "source": "S", "notes": ["n"], "inputs": {"data": "a folder", "start": "a model", "rate": "a number"},
  "flags": {"learning_rate": "{rate}", "seed": 4},
  "steps": [{"name": "words", "command": "tokenizer train", "flags": {"input": "{data}/*", "vocab_size": 30}}],
  "columns": [
    {"name": "learn", "command": "train", "metric": "eval_accuracy", "times": 100,
     "flags": {"model_name_or_path": "{start}", "train_file": "{data}/a.tsv", "max_steps": 3, "seed": 1}},
    {"name": "loss", "title": "its loss", "of": "learn", "metric": "eval_loss"},
    {"name": "again", "command": "evaluate", "metric": "eval_f1",
     "flags": {"model_name_or_path": "{output}/{row}/learn", "learning_rate": null}}],
  "rows": [
    {"name": "exact", "flags": {"attention": "dense"}},
    {"name": "hashed", "title": "LSH", "flags": {"attention": {"type": "reformer", "chunk": 8}},
     "columns": {"learn": {"max_steps": 5, "seed": null}, "again": null}},
    {"name": "paper", "published": {"learn": 91.25, "loss": 0.5}}]})";

class RecipeTest : public ::testing::Test {
 protected:
  RecipeTest() {
    folder_.Write("data/b.txt", "");
    folder_.Write("data/a.tsv", "");
    options_.inputs = {{"data", folder_ / "data"}, {"start", "m"}, {"rate", "1e-4"}};
    options_.output_dir = folder_ / "out";
  }
  TempFolder folder_;
  ReproduceOptions options_;
  Recipe recipe_ = ParseRecipe(ParseJson(kText, "r.json"), "r.json");
};

std::vector<std::string> NamesOfRuns(const std::vector<RecipeRun>& runs) {
  std::vector<std::string> names;
  for (const RecipeRun& run : runs) names.push_back(run.name + ": " + run.command);
  return names;
}

TEST_F(RecipeTest, RunsStepsThenRowsWithTheirFlags) {
  const std::vector<RecipeRun> runs = PlanRecipe(recipe_, options_);
  EXPECT_THAT(NamesOfRuns(runs), ElementsAre("words: tokenizer train", "exact/learn: train", "exact/again: evaluate",
                                             "hashed/learn: train"));
  EXPECT_EQ(runs[0].flags["input"], Json({folder_ / "data/a.tsv", folder_ / "data/b.txt"}));
  EXPECT_EQ(runs[0].flags["output_dir"], folder_ / "out/words");
  EXPECT_EQ(runs[1].flags, (Json{{"learning_rate", 1e-4},
                                 {"seed", 1},
                                 {"model_name_or_path", "m"},
                                 {"train_file", folder_ / "data/a.tsv"},
                                 {"max_steps", 3},
                                 {"attention", "dense"},
                                 {"resume_from_checkpoint", "auto"},
                                 {"output_dir", folder_ / "out/exact/learn"}}));
  EXPECT_EQ(runs[2].flags["model_name_or_path"], folder_ / "out/exact/learn");
  EXPECT_FALSE(runs[2].flags.contains("resume_from_checkpoint"));
  EXPECT_FALSE(runs[2].flags.contains("learning_rate"));
  EXPECT_EQ(runs[2].flags["seed"], 4) << "of the table, as its column has no other";
  EXPECT_EQ(runs[3].flags["max_steps"], 5);
  EXPECT_FALSE(runs[3].flags.contains("seed"));
  EXPECT_THAT(
      CommandLine(runs[3]),
      HasSubstr("lshformer train --learning_rate 0.0001 --model_name_or_path m --train_file " + folder_ / "data/a.tsv" +
                " --max_steps 5 --attention '{\"type\":\"reformer\",\"chunk\":8}' --resume"));
}

TEST_F(RecipeTest, RowsAndColumnsCanBeChosen) {
  options_.rows = {"exact"}, options_.columns = {"loss"};
  EXPECT_THAT(NamesOfRuns(PlanRecipe(recipe_, options_)), ElementsAre("words: tokenizer train", "exact/learn: train"))
      << "what a figure is of is run for it";
  EXPECT_EQ(RecipeTable(recipe_, options_).columns, (std::vector<std::string>{"", "its loss"}));
  options_.rows = {"exakt"};
  EXPECT_THAT(ErrorOf([&] { PlanRecipe(recipe_, options_); }),
              HasSubstr("row: expected some of exact, hashed, paper, got \"exakt\" (did you mean \"exact\"?)"));
}

TEST_F(RecipeTest, TheTableHasWhatThereIs) {
  folder_.Write("out/exact/learn/all_results.json", R"({"eval_accuracy": 0.875, "eval_loss": 0.25})");
  folder_.Write("out/exact/again/eval_results.json", R"({"eval_f1": 0.5})");
  folder_.Write("out/hashed/learn/all_results.json", R"({"eval_accuracy": {"mean": 0.5, "std": 0.01}})");
  const Table table = RecipeTable(recipe_, options_);
  ASSERT_EQ(table.lines.size(), 3u);
  EXPECT_THAT(table.lines[0].cells, ElementsAre("exact", "87.50", "0.2500", "0.5000"));
  EXPECT_THAT(table.lines[1].cells, ElementsAre("LSH", "50 ± 1", "–", "–"));
  EXPECT_THAT(table.lines[2].cells, ElementsAre("paper", "91.25", "0.5", "–"));
  const std::string page = RecipePage(recipe_, options_);
  for (const char* text : {"T</h1>", "87.50", "91.25", "lshformer tokenizer train --input"})
    EXPECT_THAT(page, HasSubstr(text));
}

// A metric of no run is a misspelt one; where some run has it, others may be without.
TEST_F(RecipeTest, MetricsOfNoRunAreNamed) {
  EXPECT_TRUE(UnknownMetrics(recipe_, options_).empty()) << "nothing has run";
  folder_.Write("out/exact/learn/all_results.json", R"({"eval_accuracy": 0.875, "eval_los": 0.25})");
  folder_.Write("out/exact/again/eval_results.json", R"({"eval_f1": 0.5})");
  EXPECT_THAT(UnknownMetrics(recipe_, options_),
              ElementsAre("column \"loss\": no run has a metric \"eval_loss\" (did you mean \"eval_los\"?)"));
  folder_.Write("out/hashed/learn/all_results.json", R"({"eval_loss": null})");
  EXPECT_TRUE(UnknownMetrics(recipe_, options_).empty());
}

TEST_F(RecipeTest, InputsAreAskedForByName) {
  options_.inputs.erase("data");
  EXPECT_THAT(ErrorOf([&] { PlanRecipe(recipe_, options_); }), HasSubstr("input data=VALUE: required: a folder"));
  options_.inputs.clear();
  EXPECT_THAT(ErrorOf([&] { PlanRecipe(recipe_, options_); }),
              HasSubstr("input data=VALUE: required: a folder; and start, rate"));
  options_.inputs = {{"data", folder_ / "data"}, {"start", "m"}, {"rate", "1"}, {"stat", "m"}};
  EXPECT_THAT(ErrorOf([&] { PlanRecipe(recipe_, options_); }),
              HasSubstr("the recipe has no input \"stat\" (did you mean \"start\"?)"));
  options_.inputs = {{"data", folder_ / "none"}, {"start", "m"}, {"rate", "1"}};
  EXPECT_THAT(ErrorOf([&] { PlanRecipe(recipe_, options_); }), HasSubstr("none: no folder with files"));
}

TEST_F(RecipeTest, MisspeltInputsInFlagsAreNamed) {
  const auto error = [&](const char* flag, const Json& value) {
    recipe_.columns[0].flags[flag] = value;
    return ErrorOf([&] { PlanRecipe(recipe_, options_); });
  };
  EXPECT_THAT(error("attention", R"({"type": "dense"})"), HasSubstr("nothing thrown"));
  EXPECT_THAT(error("attention", "{}"), HasSubstr("nothing thrown"));
  EXPECT_THAT(error("train_file", "{dat}/a.tsv"),
              HasSubstr("flag \"train_file\" asks for an input {dat} that it has not (did you mean \"data\"?)"));
  EXPECT_THAT(error("train_file", Json::array({"a", "{data}{nothing_like_it}"})),
              HasSubstr("an input {nothing_like_it} that"));
}

TEST_F(RecipeTest, InputsOfOtherRowsAndColumnsAreNotAskedFor) {
  options_.inputs = {{"data", folder_ / "data"}};
  options_.columns = {"again"};  // without a learning rate, of a model in the folder
  EXPECT_THAT(NamesOfRuns(PlanRecipe(recipe_, options_)),
              ElementsAre("words: tokenizer train", "exact/again: evaluate"));
  options_.columns = {"loss"};
  EXPECT_THAT(ErrorOf([&] { PlanRecipe(recipe_, options_); }), HasSubstr("input start=VALUE: required: a model"));
  options_.columns.clear(), options_.rows = {"paper"};
  EXPECT_THAT(NamesOfRuns(PlanRecipe(recipe_, options_)), ElementsAre("words: tokenizer train"));
}

TEST_F(RecipeTest, WhatIsWrongIsNamed) {
  const auto error = [](const char* text) { return ErrorOf([&] { ParseRecipe(ParseJson(text, "r"), "r.json"); }); };
  EXPECT_THAT(error("[]"), HasSubstr("r.json: expected an object"));
  EXPECT_THAT(error(R"({"titel": "x"})"), HasSubstr("unknown key \"titel\" (did you mean \"title\"?)"));
  EXPECT_THAT(error(R"({"title": "x", "rows": []})"), HasSubstr("\"columns\" is missing"));
  const auto column = [&](const std::string& text) {
    return error((R"({"title": "x", "rows": [], "columns": [)" + text + "]}").c_str());
  };
  EXPECT_THAT(column("3"), HasSubstr("column 1: expected an object, got 3"));
  EXPECT_THAT(column(R"({"name": "a/b"})"), HasSubstr("\"name\": expected letters"));
  EXPECT_THAT(column(R"({"name": "a", "command": "rm", "metric": "m"})"), HasSubstr("\"command\": expected pretrain"));
  EXPECT_THAT(column(R"({"name": "a", "command": "train"})"), HasSubstr("\"metric\" is missing"));
  EXPECT_THAT(column(R"({"name": "a", "of": "b", "metric": "m"})"), HasSubstr("the recipe has no column \"b\""));
  EXPECT_THAT(column(R"({"name": "a", "command": "train", "metric": "m", "flags": {"output_dir": "x"}})"),
              HasSubstr("\"output_dir\" is reproduce's"));
  for (const char* name : {"report.html", "a.log", "a.flags.json"})
    EXPECT_THAT(column(std::string(R"({"name": ")") + name + "\"}"),
                HasSubstr(std::string(name) + " is what reproduce writes"));
  for (const char* name : {"", "a=b", "{a}"})
    EXPECT_THAT(error((std::string(R"({"title": "x", "inputs": {")") + name + "\": \"a file\"}}").c_str()),
                HasSubstr("expected names without '=' and braces, got"));
  EXPECT_THAT(error(R"({"title": "x", "columns": [], "rows": [{"name": "a"}, {"name": "a"}]})"),
              HasSubstr("row 2: \"a\" stands there twice"));
  EXPECT_THAT(error(R"({"title": "x", "columns": [], "rows": [{"name": "a", "columns": {"c": {}}}]})"),
              HasSubstr("the recipe has no column \"c\""));
  const std::string columns = R"({"title": "x", "columns": [{"name": "c", "command": "train", "metric": "m"},
                                  {"name": "d", "of": "c", "metric": "n"}], "rows": [{"name": "a", "columns": )";
  EXPECT_THAT(error((columns + R"({"d": {"seed": 1}}}]})").c_str()), HasSubstr("\"of\" another column has no flags"));
  EXPECT_THAT(error((columns + R"({"c": {"resume_from_checkpoint": "x"}}}]})").c_str()), HasSubstr("is reproduce's"));
}

TEST_F(RecipeTest, NullsAreNoFlagsAndListsAreFilled) {
  const Recipe recipe = ParseRecipe(ParseJson(R"({"title": "T", "inputs": {"data": "a folder"}, "flags": {"seed": null},
    "columns": [{"name": "c", "command": "train", "metric": "m",
                 "flags": {"train_file": ["{data}/a", "{data}/b"], "max_steps": null}},
                {"name": "d", "of": "c", "metric": "n"}],
    "rows": [{"name": "a"}, {"name": "b", "columns": {"d": null}}, {"name": "p", "published": {}}]})",
                                              "r"),
                                    "r.json");
  options_.inputs = {{"data", "x"}};
  const std::vector<RecipeRun> runs = PlanRecipe(recipe, options_);
  ASSERT_EQ(runs.size(), 2u) << "a row of published figures runs nothing, also of none";
  EXPECT_EQ(
      runs[0].flags,
      (Json{{"train_file", {"x/a", "x/b"}}, {"resume_from_checkpoint", "auto"}, {"output_dir", folder_ / "out/a/c"}}));
  folder_.Write("out/b/c/all_results.json", R"({"m": 1, "n": 2})");
  EXPECT_THAT(RecipeTable(recipe, options_).lines[1].cells, ElementsAre("b", "1", "–"));
}

// Those that are shipped, with whatever they ask for.
TEST(Recipes, AreWhole) {
  const std::string folder = LSHFORMER_SOURCE_DIR "/recipes";
  ASSERT_FALSE(RecipeNames(folder).empty());
  for (const std::string& name : RecipeNames(folder)) {
    SCOPED_TRACE(name);
    const Recipe recipe = ReadRecipe(name, folder);
    const TempFolder data;
    data.Write("file", "text");
    ReproduceOptions options;
    for (const auto& [input, what] : recipe.inputs) options.inputs[input] = data.path();
    options.output_dir = data / "out";
    EXPECT_FALSE(PlanRecipe(recipe, options).empty());
    for (const RecipeRun& run : PlanRecipe(recipe, options))
      for (const auto& [flag, value] : run.flags.items())
        EXPECT_TRUE(!value.is_string() || value.get<std::string>().find('{') == std::string::npos)
            << run.name << ": " << flag << " has a name that the recipe has not: " << value;
  }
  EXPECT_THAT(ErrorOf([&] { ReadRecipe("albert-pretrainin", folder); }), HasSubstr("albert-pretraining"));
}

}  // namespace
}  // namespace lshformer
