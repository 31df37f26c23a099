// Training towards the exact model: what it computes, and that it ends where it would have ended whatever stops it.
#include "convert/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>
#include <limits>

#include "base/parallel.h"
#include "base/signals.h"
#include "convert/kept_choice.h"
#include "data/sampler.h"
#include "jobs/small_model.h"
#include "models/stored_directions.h"
#include "ops/threads.h"
#include "train/checkpoint.h"
#include "train/schedule.h"
#include "train/tiny_run.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;
using testing::Copies;
using testing::Different;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::TempFolder;

constexpr int64_t kSteps = 60;  // one checkpoint on the way, one at the end

class RecoveryTest : public ::testing::Test {
 protected:
  void SetUp() override { SetAllThreads(1); }  // a forked child has no other threads
  void TearDown() override { SetAllThreads(threads_); }

  std::vector<AttentionSpec> Attention() const {
    AttentionSpec spec = SmallModel::Base();
    As<ClusteredAttention>(spec).cluster = {4};
    As<ClusteredAttention>(spec).open = {1};
    return {spec, spec};
  }
  RecoveryOptions Options(const std::string& folder) const {
    return {.steps = kSteps, .learning_rate = 1e-3, .folder = folder, .settings = {{"command", 1}}};
  }
  ModelPtr Recovered(const RecoveryOptions& options, const TrainerHooks& hooks = {}) {
    return Recover(*small_.exact, Attention(), small_.directions, small_.texts, options, hooks);
  }

  const int threads_ = Threads();
  SmallModel small_{32, {20, 24, 9, 30, 22, 17, 28, 25, 26, 31, 12}};  // 11 texts: the second batch is short
  TempFolder folder_;
};

// The loop in plain words: batches of 8, a tenth of warm-up, clipping to 1, AdamW.
TEST_F(RecoveryTest, IsPlainTrainingTowardsTheExactModel) {
  const ModelPtr student = WithAttention(*CopyOf(*small_.exact), Attention(), DirectionTensors(small_.directions));
  NamedTensors trained;
  std::vector<ParameterRole> roles;
  for (size_t i = 0; i < student->NamedParameters().size(); ++i) {
    if (!Roles(*student)[i].trained) continue;
    trained.push_back(student->NamedParameters()[i]);
    roles.push_back(Roles(*student)[i]);
  }
  ASSERT_LT(trained.size(), student->NamedParameters().size()) << "directions are not trained";
  TrainingOptions training;
  training.warmup_ratio = 0.1, training.learning_rate = 1e-3;
  const auto optimizer = MakeOptimizer(training, trained, roles);
  TrainSampler sampler(small_.texts.set.size(), 8, 1, 42);
  ForwardOptions forward;
  forward.hidden_states = true;
  for (int64_t step = 0; step < kSteps; ++step) {
    const PackedBatch batch = MakeBatch(small_.texts.set, sampler.Batches(step).front());
    ModelOutput wanted;
    {
      const torch::NoGradGuard no_grad;
      wanted = small_.exact->Forward(batch, forward);
    }
    for (const auto& [name, parameter] : trained) parameter.mutable_grad().reset();
    const ModelOutput got = student->Forward(batch, forward);
    torch::Tensor loss;
    for (size_t layer = 1; layer < 3; ++layer) {
      const torch::Tensor& target = wanted.hidden_states[layer];
      const torch::Tensor part = (got.hidden_states[layer] - target).square().sum() / target.square().sum();
      loss = loss.defined() ? loss + part : part;
    }
    (loss / 2.0).backward();
    const double norm = GradientNorm(trained);
    optimizer->Step(LearningRate(MakeSchedule(training, kSteps), step), ClipScale(norm, 1));
  }
  EXPECT_THAT(Different(Copies(*Recovered(Options(""))), Copies(*student)), IsEmpty());
  EXPECT_THAT(Different(Copies(*Recovered(Options(folder_ / "kept"))), Copies(*student)), IsEmpty());
  EXPECT_THAT(Different(Copies(*small_.exact), Copies(*student)), Not(IsEmpty()));
}

// Killed or stopped at any step and begun again, as often as that goes.
TEST_F(RecoveryTest, EndsAtTheSameBitsWhereverItIsStopped) {
  const NamedTensors whole = Copies(*Recovered(Options("")));
  for (const int signal : {SIGKILL, SIGTERM}) {
    for (const int64_t step : {0, 1, 49, 50, 51, 59, 60}) {
      const std::string folder = folder_ / fmt::format("{}-{}", signal, step);
      const pid_t child = fork();
      if (child == 0) {
        InstallSignalHandlers();
        TrainerHooks hooks;
        hooks.progress = [&](const TrainingProgress& progress) {
          if (progress.step == step) raise(signal);
        };
        try {
          Recovered(Options(folder), hooks);
        } catch (const Interrupted& stopped) {
          const std::string said = stopped.what();
          const std::string expected = fmt::format(
              "recovering: stopped by SIGTERM after step {} of 60; the same command goes on from there", step);
          _exit(said == expected ? 77 : 78);
        }
        _exit(0);
      }
      int status = 0;
      waitpid(child, &status, 0);
      const std::string where = fmt::format("signal {}, step {}", signal, step);
      if (signal == SIGKILL) {
        EXPECT_TRUE(WIFSIGNALED(status)) << where;
      } else {
        EXPECT_EQ(WEXITSTATUS(status), 77) << where;
      }
      std::vector<int64_t> steps;
      TrainerHooks hooks;
      hooks.progress = [&](const TrainingProgress& progress) { steps.push_back(progress.step); };
      EXPECT_THAT(Different(Copies(*Recovered(Options(folder), hooks)), whole), IsEmpty()) << where;
      const int64_t kept = signal == SIGTERM ? step
                           : step <= 50      ? 0
                                             : 50;  // killed while it told the step, before it saved
      EXPECT_EQ(steps.front(), kept) << where;
    }
  }
}

TEST_F(RecoveryTest, AnotherTrainingBeginsAnew) {
  Recovered(Options(folder_ / "kept"));
  ASSERT_EQ(NewestCheckpoint(folder_ / "kept"), folder_ / "kept/checkpoint-60");
  const auto first_step = [&](const RecoveryOptions& options) {
    int64_t first = -1;
    TrainerHooks hooks;
    hooks.progress = [&](const TrainingProgress& progress) { first = first < 0 ? progress.step : first; };
    Recovered(options, hooks);
    return first;
  };
  RecoveryOptions options = Options(folder_ / "kept");
  EXPECT_EQ(first_step(options), 60);
  options.settings["command"] = 2;
  EXPECT_EQ(first_step(options), 0);
  EXPECT_EQ(first_step(options), 60);
  small_.texts.set.Add(std::vector<int32_t>{5, 6, 7, 8}, std::vector<int32_t>(4, 0));
  EXPECT_EQ(first_step(options), 0) << "other texts";
  size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_ / "kept")) ++entries;
  EXPECT_EQ(entries, 1u) << "the newest checkpoint alone";
}

TEST_F(RecoveryTest, WhatCannotGoOnLeavesNothing) {
  RecoveryOptions options = Options(folder_ / "kept");
  options.learning_rate = 1e30;
  EXPECT_THAT(ErrorOf([&] { Recovered(options); }), HasSubstr("recovering: step "));
  EXPECT_FALSE(fs::exists(folder_ / "kept"));
}

// Figures and specs come back to the last bit, heads that differ and what is not a number too.
TEST(KeptChoice, ComesBackAsItWas) {
  const TempFolder folder;
  AttentionSpec clustered = SmallModel::Base(), heads = clustered;
  heads.heads = {clustered, AttentionSpec{}};
  As<ClusteredAttention>(heads.heads[0]).cluster = {8};
  As<ClusteredAttention>(heads).cluster = {8};
  Candidate one{.name = "this conversion", .setting = "head by head", .attention = {heads, clustered}};
  one.budget = 0.1, one.cosine = {0.1 + 0.2, 1.0 / 3, std::numeric_limits<double>::quiet_NaN()};
  one.pairs_fraction = 2.0 / 3, one.time_fraction = 1e-17, one.time_spread = 0.7;
  const Candidate two{.name = "reformer",
                      .attention = {AttentionKinds()[2], AttentionKinds()[1]},
                      .other_kind = true,
                      .comparison = true};
  const Json record{{"seed", 42}, {"texts", "abc"}};
  KeepChoice(folder / "kept", record, {one, two});
  const auto rows = KeptChoice(folder / "kept", record);
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const Candidate &got = rows->at(i), &want = i == 0 ? one : two;
    EXPECT_EQ(got.name, want.name);
    EXPECT_EQ(got.setting, want.setting);
    EXPECT_EQ(got.attention, want.attention) << i;
    EXPECT_EQ(got.budget, want.budget);
    EXPECT_EQ(got.other_kind, want.other_kind);
    EXPECT_EQ(got.comparison, want.comparison);
    EXPECT_EQ(got.cosine.mean, want.cosine.mean);
    EXPECT_EQ(got.cosine.worst, want.cosine.worst);
    EXPECT_EQ(got.pairs_fraction, want.pairs_fraction);
    EXPECT_EQ(got.time_fraction, want.time_fraction);
    EXPECT_EQ(got.time_spread, want.time_spread);
  }
  EXPECT_TRUE(std::isnan(rows->at(0).cosine.spread));
  EXPECT_EQ(rows->at(1).cosine.spread, 0);
  EXPECT_FALSE(KeptChoice(folder / "kept", {{"seed", 43}, {"texts", "abc"}}));
  EXPECT_FALSE(KeptChoice(folder / "none", record));
  folder.Write("kept/choice.json", "{\"record\": ");
  EXPECT_FALSE(KeptChoice(folder / "kept", record)) << "damaged";
}

}  // namespace
}  // namespace lshformer
