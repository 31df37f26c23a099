#include "jobs/seed_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/folder_lock.h"
#include "jobs/seed_summary.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::ErrorOf;
using ::lshformer::testing::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::vector<SeedResult> Results(const std::string& key, const std::vector<Json>& values) {
  std::vector<SeedResult> results;
  for (const Json& value : values) {
    Json metrics{{"train_loss", 1.0}, {"epoch", 3.0}};
    metrics[key] = value;
    results.push_back({10 + results.size(), metrics});
  }
  return results;
}

TEST(SummarizeSeedsTest, MeanDeviationAndBest) {
  const Json summary = SummarizeSeeds(Results("eval_accuracy", {0.5, 0.75, 0.25, 0.75}), "", "out");
  EXPECT_EQ(summary["seeds"], Json({10, 11, 12, 13}));
  const Json& accuracy = summary["eval_accuracy"];
  EXPECT_DOUBLE_EQ(accuracy["mean"].get<double>(), 0.5625);
  // Squares of −0.0625, 0.1875, −0.3125, 0.1875 over 3.
  EXPECT_DOUBLE_EQ(accuracy["std"].get<double>(), std::sqrt(0.171875 / 3));
  EXPECT_EQ(accuracy["best"], 0.75);
  EXPECT_EQ(accuracy["best_seed"], 11) << "the first of equals";
  EXPECT_EQ(accuracy["values"], Json({0.5, 0.75, 0.25, 0.75}));
  EXPECT_EQ(summary["train_loss"]["std"], 0.0);
  EXPECT_EQ(summary["metric_for_best_model"], "eval_accuracy");
  EXPECT_EQ(summary["best_seed"], 11);
  EXPECT_EQ(summary["best_model"], "out/seed-11");
  EXPECT_FALSE(summary.contains("epoch"));
}

TEST(SummarizeSeedsTest, OfALossTheSmallestIsTheBest) {
  const std::vector<SeedResult> results = Results("eval_loss", {0.5, 0.25, 0.75});
  EXPECT_EQ(SummarizeSeeds(results, "", "out")["best_seed"], 11);
  EXPECT_EQ(SummarizeSeeds(results, "loss", "out")["metric_for_best_model"], "eval_loss");
}

TEST(SummarizeSeedsTest, WhatIsUndefinedIsNull) {
  Json summary = SummarizeSeeds(Results("eval_pearson", {nullptr, 0.5}), "pearson", "out");
  EXPECT_TRUE(summary["eval_pearson"]["mean"].is_null());
  EXPECT_TRUE(summary["eval_pearson"]["std"].is_null());
  EXPECT_EQ(summary["best_seed"], 11);
  summary = SummarizeSeeds(Results("eval_pearson", {nullptr, nullptr}), "pearson", "out");
  EXPECT_TRUE(summary["best_seed"].is_null());
  EXPECT_FALSE(summary.contains("best_model"));
  summary = SummarizeSeeds(Results("eval_accuracy", {0.5}), "", "out");
  EXPECT_EQ(summary["eval_accuracy"]["mean"], 0.5);
  EXPECT_TRUE(summary["eval_accuracy"]["std"].is_null()) << "one value has no deviation";
  summary = SummarizeSeeds(Results("train_samples", {7, 7}), "", "out");  // nothing was evaluated
  EXPECT_FALSE(summary.contains("best_seed"));
  EXPECT_FALSE(summary.contains("train_samples"));
}

TEST(SummarizeSeedsTest, TheMainMetricIsTheTasks) {
  const auto main = [](std::vector<const char*> keys) {
    Json metrics;
    for (const char* key : keys) metrics[key] = 0.5;
    const SeedResult result{1, metrics};
    return SummarizeSeeds({&result, 1}, "", "out")["metric_for_best_model"].get<std::string>();
  };
  EXPECT_EQ(main({"eval_loss", "eval_accuracy", "eval_matthews_correlation"}), "eval_matthews_correlation");
  EXPECT_EQ(main({"eval_loss", "eval_accuracy", "eval_f1", "eval_combined_score"}), "eval_combined_score");
  EXPECT_EQ(main({"eval_loss", "eval_accuracy", "perplexity"}), "perplexity");
  EXPECT_EQ(main({"eval_loss", "eval_exact", "eval_f1"}), "eval_f1");
  EXPECT_EQ(main({"eval_loss", "eval_accuracy", "eval_accuracy_mm"}), "eval_accuracy");
  EXPECT_EQ(main({"eval_loss", "eval_runtime"}), "eval_loss");
}

TEST(SummarizeSeedsTest, RatesTimesAndCountsAreNoMetrics) {
  const SeedResult result{1,
                          {{"eval_loss", 1.0},
                           {"eval_runtime", 1.0},
                           {"eval_runtime_mm", 1.0},
                           {"eval_samples_per_second", 1.0},
                           {"eval_samples", 3},
                           {"eval_HasAns_total", 3},
                           {"eval_best_f1_thresh", 0.5},
                           {"eval_best_f1", 50.0}}};
  std::vector<std::string> objects;
  const Json summary = SummarizeSeeds({&result, 1}, "", "out");
  for (const auto& [key, value] : summary.items())
    if (value.is_object()) objects.push_back(key);
  EXPECT_THAT(objects, ElementsAre("eval_best_f1", "eval_loss"));
}

TEST(SeedsTextTest, ATableAndWhereTheBestModelIs) {
  const std::string text = SeedsText(SummarizeSeeds(Results("eval_accuracy", {0.5, 0.75, nullptr}), "", "out"));
  EXPECT_EQ(text,
            "3 seeds        mean  std    best  seed\n"
            "--------------------------------------\n"
            "eval_accuracy     –    –  0.7500    11\n"
            "train_loss        1    0       1    10\n"
            "best by eval_accuracy: out/seed-11\n");
}

// Runs that leave what marks a run, finished or not.
class SeedsTest : public ::testing::Test {
 protected:
  JobResult Run(RunFolder folder, const std::string& metric = "", bool dry_run = false) {
    ran_.clear();
    folder.output_dir = folder_ / "out";
    return RunSeeds(folder, metric, dry_run, [&](const RunFolder& own, uint64_t seed) {
      EXPECT_EQ(own.output_dir, folder_ / ("out/seed-" + std::to_string(seed)));
      EXPECT_THAT(own.seeds, IsEmpty());
      EXPECT_EQ(own.resume_from_checkpoint, folder.resume_from_checkpoint);
      EXPECT_EQ(own.overwrite_output_dir, folder.overwrite_output_dir);
      JobResult result;
      if (dry_run) {
        result.plan = Json{{"steps", 7}};
        return result;
      }
      const std::string mark = "out/seed-" + std::to_string(seed) + "/training_args.json";
      result.finished_before = fs::exists(folder_ / mark);
      if (!result.finished_before) {
        if (stop_at_ == seed) throw Interrupted(2, "stopped");
        ran_.push_back(seed);
        folder_.Write(mark, Json{{"max_steps", 5}, {"seed", seed}}.dump());
      }
      result.train = Json{{"train_loss", 0.5}};
      result.eval = Json{{"eval_accuracy", static_cast<double>(seed) / 8}};
      return result;
    });
  }
  static RunFolder Seeds(std::vector<uint64_t> seeds, const std::string& resume = "") {
    RunFolder folder;
    folder.seeds = std::move(seeds);
    folder.resume_from_checkpoint = resume;
    return folder;
  }
  Json Summary() const { return ReadJsonFile(folder_ / "out/all_results.json"); }

  TempFolder folder_;
  std::vector<uint64_t> ran_;
  std::optional<uint64_t> stop_at_;
};

TEST_F(SeedsTest, OneRunASeedAndTheirSummary) {
  const JobResult result = Run(Seeds({3, 1, 2}));
  EXPECT_THAT(ran_, ElementsAre(3, 1, 2));
  EXPECT_EQ(Summary()["eval_accuracy"]["mean"], 0.25);
  EXPECT_EQ(Summary()["best_model"], folder_ / "out/seed-3");
  EXPECT_EQ(nlohmann::json(result.summary), nlohmann::json(Summary()));
  EXPECT_FALSE(result.finished_before);
  EXPECT_FALSE(fs::exists((folder_ / "out/") + kLockFile));
}

// One file of flags makes all of the runs again, and does not pass for that of a single run.
TEST_F(SeedsTest, TheFlagsOfTheWholeJobStandInItsFolder) {
  Run(Seeds({3, 1}));
  EXPECT_EQ(ReadJsonFile(folder_ / "out/training_args.json"), Json({{"max_steps", 5}, {"seeds", "3,1"}}));
  EXPECT_FALSE(HoldsRun(folder_ / "out"));
  EXPECT_TRUE(HoldsRun(folder_ / "out/seed-3"));
  Run(Seeds({3, 1, 2}, "auto"));
  EXPECT_EQ(ReadJsonFile(folder_ / "out/training_args.json")["seeds"], "3,1,2");
}

TEST_F(SeedsTest, AStoppedCommandGoesOn) {
  stop_at_ = 2;
  EXPECT_THAT(ErrorOf([&] { Run(Seeds({1, 2, 3})); }), HasSubstr("stopped"));
  EXPECT_FALSE(fs::exists(folder_ / "out/all_results.json"));
  EXPECT_THAT(ErrorOf([&] { Run(Seeds({1, 2, 3})); }), HasSubstr("out: not empty; overwrite_output_dir"));
  stop_at_.reset();
  EXPECT_FALSE(Run(Seeds({1, 2, 3}, "auto")).finished_before);
  EXPECT_THAT(ran_, ElementsAre(2, 3)) << "the first was finished";
  EXPECT_EQ(Summary()["seeds"], Json({1, 2, 3}));
  EXPECT_TRUE(Run(Seeds({1, 2, 3}, "auto")).finished_before);
  EXPECT_THAT(ran_, IsEmpty());
  // Further seeds join them.
  Run(Seeds({1, 2, 3, 4}, "auto"));
  EXPECT_THAT(ran_, ElementsAre(4));
  EXPECT_EQ(Summary()["best_seed"], 4);
}

// It would tell of runs that are no more.
TEST_F(SeedsTest, AnOlderSummaryGoesWithTheFirstNewRun) {
  Run(Seeds({1}));
  stop_at_ = 3;
  EXPECT_THAT(ErrorOf([&] { Run(Seeds({1, 3}, "auto")); }), HasSubstr("stopped"));
  EXPECT_TRUE(fs::exists(folder_ / "out/all_results.json")) << "nothing is another yet";
  EXPECT_THAT(ErrorOf([&] { Run(Seeds({1, 2, 3}, "auto")); }), HasSubstr("stopped"));
  EXPECT_FALSE(fs::exists(folder_ / "out/all_results.json"));
}

TEST_F(SeedsTest, FoldersThatAreNoneOfTheirsAreRefused) {
  folder_.Write("out/notes.txt", "mine");
  EXPECT_THAT(ErrorOf([&] { Run(Seeds({1})); }), HasSubstr("not empty"));
  EXPECT_THAT(ErrorOf([&] { Run(Seeds({1}, "auto")); }), HasSubstr("not of a training run"));
  folder_.Write("out/training_args.json", "{}");
  RunFolder folder = Seeds({1});
  folder.overwrite_output_dir = true;
  EXPECT_THAT(ErrorOf([&] { Run(folder); }), HasSubstr("out: holds a single run; the runs of seeds need"));
  fs::remove_all(folder_ / "out");
  folder_.Write("out", "");
  EXPECT_THAT(ErrorOf([&] { Run(Seeds({1})); }), HasSubstr("not a folder"));
  EXPECT_THAT(ran_, IsEmpty());
}

TEST_F(SeedsTest, TheFolderIsLockedMeanwhile) {
  const auto lock = std::make_unique<FolderLock>(folder_ / "out", "output_dir");
  EXPECT_THAT(ErrorOf([&] { Run(Seeds({1})); }), AllOf(StartsWith("output_dir: "), HasSubstr("is in use by process")));
}

TEST_F(SeedsTest, ADryRunPlansOneRunAndCountsThem) {
  const JobResult result = Run(Seeds({1, 2, 3}), "", /*dry_run=*/true);
  EXPECT_EQ(Json(result.plan), Json({{"steps", 7}, {"runs", 3}}));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

// The second run would find nothing left, after the first was trained.
TEST_F(SeedsTest, WhatCanBeReadOnlyOnceIsRefused) {
  const std::string file = folder_.Write("a.txt", "a");
  const auto error = [&](const std::string& path) {
    return ErrorOf([&] { RequireReadAgain({{"train_file", file}, {"test_file", path}}, "seeds"); });
  };
  EXPECT_THAT(error("-"), StartsWith("test_file: stdin can be read only once, but seeds reads it again"));
  EXPECT_THAT(error("/dev/null"), StartsWith("test_file: /dev/null can be read only once"));
  for (const std::string& path : {std::string(), file, folder_ / "missing", folder_.path()})
    EXPECT_EQ(error(path), "(nothing thrown)") << path;
}

TEST_F(SeedsTest, WrongOptionsAreNamed) {
  EXPECT_THAT(ErrorOf([&] { Run(Seeds({1, 2, 1})); }), StartsWith("seeds: 1 stands there twice"));
  EXPECT_THAT(ErrorOf([&] { Run(Seeds({1}, "out/seed-1/checkpoint-5")); }),
              StartsWith("resume_from_checkpoint: expected auto beside seeds"));
  const Option<RunFolder>& option = *FindOption(RunFolderTable(), "seeds");
  EXPECT_EQ(TextError(RunFolderTable(), option, "1,22,18446744073709551615"), "");
  EXPECT_EQ(TextError(RunFolderTable(), option, "7"), "");
  for (const char* bad : {"", ",", "1,", "1,,2", "x", "1;2", "-1", "1.5", "0x1", "1, 2", "18446744073709551616"})
    EXPECT_THAT(TextError(RunFolderTable(), option, bad), StartsWith("expected numbers from 0 to 2^64 - 1")) << bad;
  EXPECT_EQ(TextError(RunFolderTable(), option, "1,2,01"), "1 stands there twice");
}

}  // namespace
}  // namespace lshformer
