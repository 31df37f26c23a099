// Reading recipes, and those that are shipped. What they run: recipe_plan_test.cc; running:
// tests/cli/reproduce_test.cc.
#include "jobs/recipes/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "jobs/recipes/names.h"
#include "jobs/recipes/plan.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

constexpr const char* kShipped = LSHFORMER_SOURCE_DIR "/recipes";

std::string ErrorOfText(const std::string& text) {
  return ErrorOf([&] { ParseRecipe(ParseJson(text, "r"), "r.json"); });
}

TEST(Recipe, WhatIsWrongWithTheWholeIsNamed) {
  EXPECT_THAT(ErrorOfText("[]"), HasSubstr("r.json: expected an object"));
  EXPECT_THAT(ErrorOfText(R"({"titel": "x"})"), HasSubstr("unknown key \"titel\" (did you mean \"title\"?)"));
  EXPECT_THAT(ErrorOfText(R"({"title": "x", "rows": []})"), HasSubstr("\"columns\" is missing"));
  EXPECT_THAT(ErrorOfText(R"({"title": "x", "minutes": {"quik": 1}})"), HasSubstr("did you mean \"quick\"?"));
  for (const char* name : {"", "a=b", "{a}", "a.b"})
    EXPECT_THAT(ErrorOfText(std::string(R"({"title": "x", "inputs": {")") + name + "\": \"a file\"}}"),
                HasSubstr("expected names without '=', '.' and braces, got"));
  EXPECT_THAT(ErrorOfText(R"({"title": "x", "columns": [], "rows": [{"name": "a"}, {"name": "a"}]})"),
              HasSubstr("row 2: \"a\" stands there twice"));
  EXPECT_THAT(ErrorOfText(R"({"title": "x", "columns": [], "rows": [{"name": "a", "columns": {"c": {}}}]})"),
              HasSubstr("the recipe has no column \"c\""));
}

TEST(Recipe, WhatIsWrongWithAColumnIsNamed) {
  const auto column = [](const std::string& text) {
    return ErrorOfText(R"({"title": "x", "rows": [], "columns": [)" + text + "]}");
  };
  EXPECT_THAT(column("3"), HasSubstr("column 1: expected an object, got 3"));
  EXPECT_THAT(column(R"({"name": "a/b"})"), HasSubstr("\"name\": expected letters"));
  EXPECT_THAT(column(R"({"name": "a", "command": "rm", "metric": "m"})"), HasSubstr("\"command\": expected pretrain"));
  EXPECT_THAT(column(R"({"name": "a", "command": "train"})"), HasSubstr("\"metric\" is missing"));
  EXPECT_THAT(column(R"({"name": "a", "of": "b", "metric": "m"})"), HasSubstr("the recipe has no column \"b\""));
  EXPECT_THAT(column(R"({"name": "a", "like": "b", "metric": "m"})"), HasSubstr("no step before it is called \"b\""));
  EXPECT_THAT(column(R"({"name": "a", "command": "train", "metric": "m", "flags": {"output_dir": "x"}})"),
              HasSubstr("\"output_dir\" is reproduce's"));
  const std::string columns = R"({"title": "x", "columns": [{"name": "c", "command": "train", "metric": "m"},
                                  {"name": "d", "of": "c", "metric": "n"}], "rows": [{"name": "a", "columns": )";
  EXPECT_THAT(ErrorOfText(columns + R"({"d": {"seed": 1}}}]})"), HasSubstr("\"of\" another column has no flags"));
  EXPECT_THAT(ErrorOfText(columns + R"({"c": {"resume_from_checkpoint": "x"}}}]})"), HasSubstr("is reproduce's"));
}

TEST(Recipe, WhatIsWrongWithClaimsAndFiguresIsNamed) {
  const std::string table = R"({"title": "x", "columns": [{"name": "c", "command": "train", "metric": "m"}],
                                "rows": [{"name": "a"}], )";
  const auto claim = [&](const std::string& text) { return ErrorOfText(table + "\"claims\": [" + text + "]}"); };
  EXPECT_THAT(claim(R"({"claim": "x", "of": "a", "rule": {"equals": 0}})"), HasSubstr("expected ROW/COLUMN"));
  EXPECT_THAT(claim(R"({"claim": "x", "of": "b/c", "rule": {"equals": 0}})"), HasSubstr("has no row \"b\""));
  EXPECT_THAT(claim(R"({"claim": "x", "of": "a/c", "rule": {}})"), HasSubstr("expected one of \"equals\""));
  EXPECT_THAT(claim(R"({"claim": "x", "of": "a/c", "rule": {"direction": 1}})"), HasSubstr("needs \"over\" or"));
  const auto figure = [&](const std::string& text) { return ErrorOfText(table + "\"figures\": [" + text + "]}"); };
  EXPECT_THAT(figure(R"({"kind": "pie", "title": "x"})"), HasSubstr("\"kind\": expected heat_map"));
  EXPECT_THAT(figure(R"({"kind": "bars", "title": "x", "rows": ["b"]})"), HasSubstr("has no row \"b\""));
  EXPECT_THAT(figure(R"({"kind": "curves", "title": "x"})"), HasSubstr("\"y\" is missing"));
}

// What a claim says of theirs follows from published rows.
TEST(Recipe, PublishedMeasuresFollowFromRows) {
  const Recipe recipe = ParseRecipe(ParseJson(R"({"title": "x",
    "columns": [{"name": "c", "command": "train", "metric": "m"}],
    "rows": [{"name": "p", "published": {"c": 8}}, {"name": "q", "published": {"c": 2}},
             {"name": "a", "against": "p"}, {"name": "b", "against": "q"}, {"name": "d", "printed": {"c": 3}}],
    "claims": [{"claim": "1", "of": "a/c", "rule": {"equals": 0}}, {"claim": "2", "of": "a/c", "over": "b/c", "rule": {"equals": 0}},
               {"claim": "3", "of": "a/c", "minus": "d/c", "rule": {"equals": 0}}]})",
                                              "r"),
                                    "r.json");
  EXPECT_EQ(*recipe.claims[0].published, 8);
  EXPECT_EQ(*recipe.claims[1].published, 4);
  EXPECT_EQ(*recipe.claims[2].published, 5);
  EXPECT_THAT(ErrorOfText(R"({"title": "x", "columns": [], "rows": [{"name": "a", "against": "p"}]})"),
              HasSubstr("has no published row \"p\""));
}

// A part lies below the recipe: objects of one name are joined, lists go on.
TEST(Recipe, PartsAreJoined) {
  const TempFolder folder;
  folder.Write("parts/base.json", R"({"inputs": {"n": {"both": 3}}, "notes": ["first"],
    "steps": [{"name": "made", "command": "pretrain", "flags": {"seed": 1, "train_file": ["x", "y"]}}]})");
  const Recipe recipe = ParseRecipe(ParseJson(R"({"title": "x", "parts": ["base"], "notes": ["second"],
    "inputs": {"n": {"quick": 2}}, "steps": [{"name": "made", "flags": {"seed": 2, "train_file": ["z"]}}],
    "columns": [{"name": "c", "like": "made", "metric": "m", "flags": {"max_steps": 4}}], "rows": []})",
                                              "r"),
                                    "r.json", folder / "parts");
  EXPECT_THAT(recipe.notes, ElementsAre("first", "second"));
  EXPECT_EQ(recipe.inputs[0].quick, 2);
  EXPECT_EQ(recipe.inputs[0].full, 3);
  ASSERT_EQ(recipe.steps.size(), 1u);
  EXPECT_EQ(recipe.steps[0].flags, (Json{{"seed", 2}, {"train_file", {"z"}}})) << "of flags the last word counts";
  EXPECT_EQ(recipe.columns[0].command, "pretrain");
  EXPECT_EQ(recipe.columns[0].flags, (Json{{"seed", 2}, {"train_file", {"z"}}, {"max_steps", 4}}));
}

TEST(Recipes, AreFoundByNameAliasAndSource) {
  EXPECT_EQ(FindRecipes("bert-lsh/table-1", kShipped).recipes.size(), 1u);
  const FoundRecipes figure = FindRecipes("bert-lsh/fig-2", kShipped);
  ASSERT_EQ(figure.recipes.size(), 1u);
  EXPECT_EQ(figure.recipes[0].name, "bert-lsh/table-2");
  EXPECT_EQ(figure.told, "bert-lsh/fig-2 is part of bert-lsh/table-2");
  EXPECT_EQ(FindRecipes("albert-lsh", kShipped).recipes.size(), 3u);
  EXPECT_EQ(FindRecipes("all", kShipped).recipes.size(), RecipeNames(kShipped).size());
  const auto error = [](const char* word) { return ErrorOf([&] { FindRecipes(word, kShipped); }); };
  EXPECT_THAT(error("bert-lsh/tabel-1"), HasSubstr("did you mean \"bert-lsh/table-1\"?"));
  EXPECT_THAT(error("table-2"), HasSubstr("did you mean \"bert-lsh/table-2\"?"));
  EXPECT_THAT(error("albert-pretraining"), HasSubstr("it is albert/sharing now"));
  EXPECT_THAT(error("al"), HasSubstr("; list shows"));
}

// The list of tables and figures of the four sources, of Reformer's, and this program's own.
TEST(Recipes, AreComplete) {
  std::vector<std::string> all;
  for (const std::string& name : RecipeNames(kShipped)) {
    const Recipe recipe = ReadNamedRecipe(name, kShipped);
    all.push_back(name);
    for (const std::string& alias : recipe.aliases) all.push_back(name.substr(0, name.find('/') + 1) + alias);
    EXPECT_EQ(recipe.minutes.size(), 2u) << name << " says what it takes";
    EXPECT_LE(recipe.minutes.at(Form::kQuick), 3) << name;
    EXPECT_FALSE(recipe.source.empty()) << name;
    EXPECT_FALSE(recipe.figures.empty()) << name;
  }
  std::sort(all.begin(), all.end());
  EXPECT_THAT(
      all, ElementsAre("albert-lsh/loss", "albert-lsh/memory", "albert-lsh/table", "albert/depth", "albert/dropout",
                       "albert/embedding-size", "albert/equal-time", "albert/extra-data", "albert/parameters",
                       "albert/sharing", "albert/sop", "albert/width", "bert-lsh/fig-1", "bert-lsh/fig-2",
                       "bert-lsh/fig-3", "bert-lsh/fig-3-radar", "bert-lsh/fig-4", "bert-lsh/fig-5", "bert-lsh/table-1",
                       "bert-lsh/table-2", "bert-lsh/table-3", "bert-lsh/table-4", "ours/memory", "ours/quality",
                       "ours/speed", "reformer/duplication", "squad2-poster/curves", "squad2-poster/table"));
}

// Both forms can be planned from what the recipe itself and one folder of data have.
TEST(Recipes, NeedNothingButADataFolder) {
  for (const Form form : {Form::kQuick, Form::kFull}) {
    ReproduceOptions options;
    options.form = form;
    options.output_dir = "out";
    RecipePlan plan;
    for (const std::string& name : RecipeNames(kShipped)) {
      SCOPED_TRACE(name + ", " + Name(form));
      const Recipe recipe = ReadNamedRecipe(name, kShipped);
      std::vector<Missing> missing;
      std::vector<DataPath> data;
      if (form == Form::kFull) options.data_dir = "data";
      PlanRecipe(recipe, options, plan, missing, data);
      for (const Missing& one : missing) EXPECT_THAT(one.name, HasSubstr("files in data/")) << one.error;
      EXPECT_TRUE(form == Form::kFull || data.empty());
    }
    // What several recipes need is one run: with exact attention, and hashed.
    const auto pretrainings = std::count_if(plan.runs.begin(), plan.runs.end(), [](const RecipeRun& run) {
      return run.command == "pretrain" && run.flags.value("model_type", "") == "bert" &&
             run.name.starts_with("bert-lsh");
    });
    EXPECT_EQ(pretrainings, 2);
  }
}

}  // namespace
}  // namespace lshformer
