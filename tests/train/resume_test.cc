#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "base/files.h"
#include "base/json.h"
#include "base/progress.h"
#include "models/stored_directions.h"
#include "train/checkpoint.h"
#include "train/tiny_run.h"
#include "train/trainer.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::Copies;
using ::lshformer::testing::Different;
using ::lshformer::testing::TempFolder;
using ::lshformer::testing::TinyData;
using ::lshformer::testing::TinyModel;
using ::lshformer::testing::TinyOptions;
using ::testing::IsEmpty;

struct ResumeCase {
  const char* name;
  const char* attention;
  double dropout;
  int accumulation;
  int64_t examples;  // 4 a batch: 18 make an epoch of 5 batches, so checkpoints lie in the middle of epochs
  double ema_decay = 0;
  bool reversible = false;
  OptimizerType optim = OptimizerType::kAdamW;
  int64_t refresh = 0;  // of directions
};

void PrintTo(const ResumeCase& c, std::ostream* stream) { *stream << c.name; }

class ResumeTest : public ::testing::TestWithParam<ResumeCase> {
 protected:
  void SetUp() override { SetProgressStyle(ProgressStyle::kOff); }
  TrainingOptions Options() const {
    TrainingOptions options = TinyOptions();
    options.gradient_accumulation_steps = GetParam().accumulation;
    options.ema_decay = GetParam().ema_decay;
    options.optim = GetParam().optim;
    options.refresh_directions_steps = GetParam().refresh;
    options.logging_steps = 5;
    options.save_steps = 4;
    options.warmup_steps = 3;
    if (GetParam().optim == OptimizerType::kAdam) options.warmup_type = WarmupType::kLogarithmic;
    return options;
  }
  ModelPtr NewModel(uint64_t seed = 7) const {
    AttentionSpec attention = ParseAttentionSpec(GetParam().attention, "test");
    if (Is<ReformerAttention>(attention)) As<ReformerAttention>(attention).chunk = 4;  // of sequences of 5 to 24 tokens
    if (Is<ClusteredAttention>(attention)) As<ClusteredAttention>(attention) = {.cluster = {4}, .open = {1}};
    const ModelPtr model = TinyModel(GetParam().dropout, attention, seed, GetParam().reversible);
    return GetParam().refresh > 0 ? StoringDirections(*model, seed) : model;
  }
  TempFolder folder_;
};

Json WithoutTimes(Json trainer_state) {
  trainer_state["lshformer"].erase("train_runtime");
  return trainer_state;
}

TEST_P(ResumeTest, EndsAtTheSameBits) {
  const ModelPtr whole = NewModel();
  const TrainResult uninterrupted =
      Train(*whole, TinyData(GetParam().examples), Options(), {.output_dir = folder_ / "whole"}, {});
  for (const std::string step : {"4", "8", "12"}) {
    const ModelPtr resumed = NewModel(/*seed=*/99);  // its weights must not matter
    const TrainResult result =
        Train(*resumed, TinyData(GetParam().examples), Options(),
              {.output_dir = folder_ / ("from" + step), .resume_from = folder_ / "whole/checkpoint-" + step}, {});
    EXPECT_THAT(Different(Copies(*whole), Copies(*resumed)), IsEmpty()) << "from step " << step;
    EXPECT_EQ(WithoutTimes(result.trainer_state), WithoutTimes(uninterrupted.trainer_state)) << "from step " << step;
    EXPECT_EQ(result.train_loss, uninterrupted.train_loss);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ResumeTest,
    ::testing::Values(
        ResumeCase{"dense", "dense", 0, 1, 18}, ResumeCase{"dense_dropout_accumulated", "dense", 0.1, 2, 18},
        ResumeCase{"averaged", "dense", 0.1, 1, 18, 0.7}, ResumeCase{"simhash_dropout", "simhash", 0.1, 1, 18},
        ResumeCase{"lamb", "dense", 0.1, 1, 18, 0, false, OptimizerType::kLamb},
        ResumeCase{"adam_averaged", "dense", 0.1, 2, 18, 0.3, false, OptimizerType::kAdam},
        ResumeCase{"adadelta", "dense", 0.1, 1, 18, 0, false, OptimizerType::kAdadelta},
        ResumeCase{"muon_averaged", "dense", 0.1, 2, 18, 0.3, false, OptimizerType::kMuon},
        ResumeCase{"reversible_muon", "dense", 0.1, 1, 18, 0, true, OptimizerType::kMuon},
        ResumeCase{"reformer_dropout", "reformer", 0.1, 1, 18},
        ResumeCase{"simhash_dropout_accumulated", "simhash", 0.1, 3, 30},
        ResumeCase{"clustered", "clustered", 0.1, 1, 18},
        // Checkpoints lie at 4, 8 and 12: right at a refresh, and between two.
        ResumeCase{"clustered_refreshed", "clustered", 0.1, 1, 18, 0.7, false, OptimizerType::kAdamW, 4},
        ResumeCase{"clustered_refreshed_between", "clustered", 0.1, 3, 30, 0, false, OptimizerType::kAdamW, 3},
        ResumeCase{"reversible_clustered_refreshed", "clustered", 0.1, 1, 18, 0, true, OptimizerType::kAdamW, 3},
        ResumeCase{"reversible_simhash", "simhash", 0.1, 1, 18, 0, true},
        ResumeCase{"reversible_reformer_accumulated", "reformer", 0.1, 2, 18, 0, true}),
    [](const auto& info) { return info.param.name; });

TEST(ResumedRun, ReportsTheWholeRun) {
  SetProgressStyle(ProgressStyle::kOff);
  const TempFolder folder;
  TrainingOptions options = TinyOptions();
  options.save_steps = 8;
  const TrainerPlace whole{.output_dir = folder / "run"}, rest{.resume_from = folder / "run/checkpoint-8"};
  const TrainResult first = Train(*TinyModel(), TinyData(18), options, whole, {});
  Json state = ReadJsonFile(folder / "run/checkpoint-8/trainer_state.json");
  EXPECT_GT(state["lshformer"]["train_runtime"].get<double>(), 0);
  EXPECT_LT(state["lshformer"]["train_runtime"].get<double>(), first.train_runtime);
  state["lshformer"]["train_runtime"] = 1000.0;
  WriteFileAtomically(folder / "run/checkpoint-8/trainer_state.json", state.dump());
  const TrainResult resumed = Train(*TinyModel(), TinyData(18), options, rest, {});
  EXPECT_EQ(resumed.samples, first.samples);
  EXPECT_GT(resumed.train_runtime, 1000);
  EXPECT_NEAR(resumed.steps_per_second, 12 / resumed.train_runtime, 1e-9);
}

}  // namespace
}  // namespace lshformer
