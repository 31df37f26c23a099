// What recipes run, with which flags, and under which keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/recipes/plan.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using testing::TempFolder;

constexpr const char* kPlanText = R"({
  "title": "T", "source": "S",
  "inputs": {"data": "a folder", "start": {"what": "a model", "quick": "{made}", "full": "{data_dir}/model"},
             "rate": {"both": 1e-4}, "steps": {"quick": 3, "full": 300}},
  "flags": {"learning_rate": "{rate}", "seed": 4},
  "steps": [{"name": "words", "command": "tokenizer train", "flags": {"input": "{data}/*", "vocab_size": 30}},
            {"name": "text", "command": "synth", "flags": {"task": "text", "output": "text.txt"}},
            {"name": "made", "command": "pretrain", "flags": {"train_file": "{text}", "max_steps": "{steps}"},
             "quick": {"logging_steps": 1}}],
  "columns": [
    {"name": "learn", "command": "train", "metric": "eval_accuracy",
     "flags": {"model_name_or_path": "{start}", "tokenizer_name": "{words}", "max_steps": "{steps}", "seed": 1}},
    {"name": "loss", "title": "its loss", "of": "learn", "metric": "eval_loss"},
    {"name": "again", "command": "evaluate", "metric": "eval_f1",
     "flags": {"model_name_or_path": "{learn}", "learning_rate": null}}],
  "rows": [
    {"name": "exact", "flags": {"attention": "dense"}},
    {"name": "hashed", "title": "LSH", "flags": {"attention": {"type": "reformer", "chunk": 8}},
     "columns": {"learn": {"model_name_or_path": "{exact.learn}", "max_steps": 5, "seed": null}, "again": null}},
    {"name": "long", "form": "full", "flags": {"attention": "simhash"}},
    {"name": "paper", "published": {"learn": 91.25, "loss": 0.5}}]})";

class RecipePlanTest : public ::testing::Test {
 protected:
  RecipePlanTest() {
    folder_.Write("data/b.txt", "");
    folder_.Write("data/a.tsv", "");
    options_.form = Form::kQuick;
    options_.inputs = {{"data", folder_ / "data"}};
    options_.output_dir = folder_ / "out";
    recipe_.name = "own";
  }
  RecipePlan Plan() {
    RecipePlan plan;
    missing_.clear(), data_.clear();
    cells_ = PlanRecipe(recipe_, options_, plan, missing_, data_);
    return plan;
  }
  std::vector<std::string> Names(const RecipePlan& plan) const {
    std::vector<std::string> names;
    for (const RecipeRun& run : plan.runs) names.push_back(run.name + ": " + run.command);
    return names;
  }
  TempFolder folder_;
  ReproduceOptions options_;
  Recipe recipe_ = ParseRecipe(ParseJson(kPlanText, "r.json"), "r.json");
  PlannedCells cells_;
  std::vector<Missing> missing_;
  std::vector<DataPath> data_;
};

TEST_F(RecipePlanTest, EachRunStandsBehindWhatItNeeds) {
  const RecipePlan plan = Plan();
  EXPECT_THAT(missing_, IsEmpty());
  EXPECT_THAT(Names(plan),
              ElementsAre("own text: synth", "own made: pretrain", "own words: tokenizer train",
                          "own exact/learn: train", "own exact/again: evaluate", "own hashed/learn: train"));
  const RecipeRun &text = plan.runs[0], &made = plan.runs[1], &words = plan.runs[2], &exact = plan.runs[3],
                  &again = plan.runs[4], &hashed = plan.runs[5];
  const std::string runs = folder_ / "out/runs/";
  EXPECT_EQ(text.flags["output"], runs + text.key + "/text.txt");
  EXPECT_EQ(made.flags, (Json{{"train_file", text.result},
                              {"max_steps", 3},
                              {"logging_steps", 1},
                              {"resume_from_checkpoint", "auto"},
                              {"output_dir", runs + made.key}}));
  EXPECT_EQ(words.flags["input"], Json({folder_ / "data/a.tsv", folder_ / "data/b.txt"}));
  EXPECT_EQ(exact.flags, (Json{{"learning_rate", 1e-4},
                               {"seed", 1},
                               {"model_name_or_path", made.result},
                               {"tokenizer_name", words.result},
                               {"max_steps", 3},
                               {"attention", "dense"},
                               {"resume_from_checkpoint", "auto"},
                               {"output_dir", runs + exact.key}}));
  EXPECT_THAT(exact.needs, ElementsAre(made.key, words.key));
  EXPECT_THAT(exact.key, StartsWith("train-"));
  EXPECT_EQ(again.flags["model_name_or_path"], exact.result);
  EXPECT_FALSE(again.flags.contains("learning_rate"));
  EXPECT_EQ(again.flags["seed"], 4) << "of the table, as its column has no other";
  EXPECT_EQ(hashed.flags["model_name_or_path"], exact.result);
  EXPECT_EQ(hashed.flags["max_steps"], 5);
  EXPECT_FALSE(hashed.flags.contains("seed"));
  EXPECT_EQ(cells_.at({"exact", "loss"}), exact.key) << "of the run that the figure is of";
  EXPECT_FALSE(cells_.contains({"paper", "learn"}));
  EXPECT_THAT(CommandLine(hashed),
              HasSubstr("--attention '{\"type\":\"reformer\",\"chunk\":8}' --resume_from_checkpoint auto "));
}

// The same command is one run, in whatever recipe and output folder, whatever its seeds; another flag makes another.
TEST_F(RecipePlanTest, KeysAreOfWhatIsRun) {
  RecipePlan plan = Plan();
  const size_t runs = plan.runs.size();
  Recipe other = recipe_;
  other.name = "other";
  PlanRecipe(other, options_, plan, missing_, data_);
  EXPECT_EQ(plan.runs.size(), runs);
  const std::string key = plan.runs[3].key;
  options_.output_dir = "elsewhere";
  EXPECT_EQ(Plan().runs[3].key, key);
  options_.output_dir = folder_ / "out";
  recipe_.rows[0].flags["seeds"] = "1,2";
  EXPECT_EQ(Plan().runs[3].key, key) << "further seeds join those that there are";
  EXPECT_THAT(ErrorOf([&] { PlanRecipe(recipe_, options_, plan, missing_, data_); }),
              HasSubstr("are one run, but for \"seeds\""));
  recipe_.rows[0].flags["dropout"] = 0;
  EXPECT_NE(Plan().runs[3].key, key);
}

TEST_F(RecipePlanTest, FormsHaveValuesRowsAndDataOfTheirOwn) {
  options_.form = Form::kFull;
  options_.data_dir = "/there";
  const RecipePlan plan = Plan();
  EXPECT_THAT(Names(plan),
              ElementsAre("own words: tokenizer train", "own exact/learn: train", "own exact/again: evaluate",
                          "own hashed/learn: train", "own long/learn: train", "own long/again: evaluate"));
  EXPECT_EQ(plan.runs[1].flags["model_name_or_path"], "/there/model");
  EXPECT_EQ(plan.runs[1].flags["max_steps"], 300);
  ASSERT_FALSE(data_.empty());
  EXPECT_EQ(data_.back().what, "a model");
}

TEST_F(RecipePlanTest, RowsAndColumnsCanBeChosen) {
  options_.rows = {"hashed"}, options_.columns = {"loss"};
  EXPECT_THAT(Names(Plan()), ElementsAre("own text: synth", "own made: pretrain", "own words: tokenizer train",
                                         "own exact/learn: train", "own hashed/learn: train"))
      << "with what it starts from";
  options_.rows = {"exakt"};
  EXPECT_THAT(ErrorOf([&] { Plan(); }),
              HasSubstr("row: expected some of exact, hashed, long, paper, got \"exakt\" (did you mean \"exact\"?)"));
}

TEST_F(RecipePlanTest, WhatIsMissingIsNamed) {
  const auto error = [&] {
    Plan();
    return ErrorOf([&] { Refuse(missing_); });
  };
  options_.inputs.clear();
  EXPECT_THAT(error(), HasSubstr("input data=VALUE: required: a folder"));
  options_.form = Form::kFull;
  EXPECT_THAT(error(), HasSubstr("data_dir: required: a folder with the data that docs/recipes.md lists; or quick does "
                                 "without; and data"));
  options_.form = Form::kQuick;
  options_.inputs = {{"data", folder_ / "none"}};
  EXPECT_THAT(error(), HasSubstr("none: no folder with files"));
  options_.inputs = {{"data", folder_ / "data"}, {"stat", "m"}};
  EXPECT_THAT(ErrorOf([&] { CheckInputs({recipe_}, options_); }),
              HasSubstr("the recipe has no input \"stat\" (did you mean \"start\"?)"));
}

TEST_F(RecipePlanTest, MisspeltNamesInFlagsAreNamed) {
  const auto error = [&](const Json& value) {
    recipe_.columns[0].flags["train_file"] = value;
    return ErrorOf([&] { Plan(); });
  };
  EXPECT_THAT(error(R"({"type": "dense"})"), HasSubstr("nothing thrown"));
  EXPECT_THAT(error("{}"), HasSubstr("nothing thrown"));
  EXPECT_THAT(error("{dat}/a.tsv"),
              HasSubstr("own: flag \"train_file\" asks for {dat}, which the recipe has not (did you mean \"data\"?)"));
  EXPECT_THAT(error(Json::array({"a", "{data}{nothing_like_it}"})), HasSubstr("asks for {nothing_like_it}"));
  EXPECT_THAT(error("{again}"), HasSubstr("exact/learn needs its own result"));
}

// An input that is given takes the place of the recipe's own, with all that this would have needed.
TEST_F(RecipePlanTest, GivenInputsWin) {
  options_.inputs["start"] = "my-model";
  options_.inputs["steps"] = "7";
  const RecipePlan plan = Plan();
  EXPECT_THAT(Names(plan), ElementsAre("own words: tokenizer train", "own exact/learn: train",
                                       "own exact/again: evaluate", "own hashed/learn: train"));
  EXPECT_EQ(plan.runs[1].flags["model_name_or_path"], "my-model");
  EXPECT_EQ(plan.runs[1].flags["max_steps"], 7);
}

}  // namespace
}  // namespace lshformer
