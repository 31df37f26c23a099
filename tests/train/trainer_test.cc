#include "train/trainer.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "io/safetensors.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/matmul.h"
#include "kernels/matmul_precision.h"
#include "train/checkpoint.h"
#include "train/tiny_run.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::Copies;
using ::lshformer::testing::Different;
using ::lshformer::testing::TempFolder;
using ::lshformer::testing::TinyData;
using ::lshformer::testing::TinyModel;
using ::lshformer::testing::TinyOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

class TrainerTest : public ::testing::Test {
 protected:
  void SetUp() override { SetProgressStyle(ProgressStyle::kOff); }
  TempFolder folder_;
};

TEST_F(TrainerTest, LearnsWhatCanBeLearned) {
  TrainingOptions options = TinyOptions();
  options.max_steps = 600;
  options.logging_steps = 200;
  for (const bool reversible : {false, true}) {
    SCOPED_TRACE(reversible ? "reversible" : "ordinary");
    const ModelPtr model = TinyModel(0, {}, 7, reversible);
    const TrainResult result = Train(*model, TinyData(64), options, {}, {});
    const Json& history = result.trainer_state["log_history"];
    ASSERT_EQ(history.size(), 3u);
    // Guessing costs log(45) = 3.8; nine of ten tokens are like their neighbours.
    EXPECT_GT(history[0]["loss"].get<double>(), 2.5);
    EXPECT_LT(history[2]["loss"].get<double>(), 2.5);
  }
}

// Four batches of two make the update that one batch of eight makes, although their numbers of labelled tokens differ.
TEST_F(TrainerTest, AccumulationEqualsTheBigBatch) {
  TrainingOptions big = TinyOptions(), small = TinyOptions();
  big.per_device_train_batch_size = 8;
  small.per_device_train_batch_size = 2;
  small.gradient_accumulation_steps = 4;
  big.max_steps = small.max_steps = 3;
  // Adam turns the sign of a gradient into a step, rounding errors around 0 included; ε hides them.
  big.adam_epsilon = small.adam_epsilon = 1e-4;
  const ModelPtr one = TinyModel(0), other = TinyModel(0);
  const TrainResult first = Train(*one, TinyData(21), big, {}, {});
  const TrainResult second = Train(*other, TinyData(21), small, {}, {});
  EXPECT_NEAR(first.train_loss, second.train_loss, 1e-6 * first.train_loss);
  const NamedTensors a = Copies(*one), b = Copies(*other), start = Copies(*TinyModel(0));
  for (size_t i = 0; i < a.size(); ++i) {
    const double moved = (a[i].second - start[i].second).abs().max().item<double>();
    EXPECT_LE((a[i].second - b[i].second).abs().max().item<double>(), 1e-3 * moved + 1e-7) << a[i].first;
  }
}

// The losses of a run in bfloat16 stay near those of float32: its gradients are off by less than 1 %, and its weights
// are kept in float32, so that small updates are not lost.
TEST_F(TrainerTest, Bf16LearnsLikeFloat32) {
  if (!SupportsProducts(Precision::kBFloat16)) GTEST_SKIP() << "this CPU has no bfloat16 instructions";
  TrainingOptions options = TinyOptions();
  options.learning_rate = 2e-3;
  options.max_steps = 60;
  options.logging_steps = 10;
  std::vector<Json> histories;
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16, Precision::kBFloat16}) {
    const ModelPtr model = TinyModel(0);
    model->set_precision(precision);
    histories.push_back(Train(*model, TinyData(64), options, {}, {}).trainer_state["log_history"]);
    for (const auto& [name, parameter] : model->NamedParameters()) EXPECT_EQ(parameter.scalar_type(), torch::kFloat32);
  }
  ASSERT_EQ(histories[0].size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    const double loss = histories[0][i]["loss"];
    EXPECT_NEAR(histories[1][i]["loss"].get<double>(), loss, 2e-3 * loss) << "log entry " << i;
  }
  EXPECT_NE(histories[1], histories[0]) << "nothing was rounded";
  EXPECT_EQ(histories[1], histories[2]) << "the same run twice";
}

// The same through matrix tiles, forward and backward.
TEST_F(TrainerTest, Bf16InTilesLearnsLikeFloat32) {
  TrainingOptions options = TinyOptions();
  options.learning_rate = 2e-3;
  options.max_steps = 20;
  options.logging_steps = 10;
  std::vector<Json> histories;
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    const ModelPtr model = TinyModel(0);
    model->set_precision(precision);
    UseTileModel(precision == Precision::kBFloat16);
    histories.push_back(Train(*model, TinyData(64), options, {}, {}).trainer_state["log_history"]);
    UseTileModel(false);
  }
  ASSERT_EQ(histories[0].size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const double loss = histories[0][i]["loss"];
    EXPECT_NEAR(histories[1][i]["loss"].get<double>(), loss, 2e-3 * loss) << "log entry " << i;
  }
  EXPECT_NE(histories[1], histories[0]) << "nothing was rounded";
}

// Float32 through matrix tiles by three products of parts: a run is nearer to multiply-add's than to one in bfloat16.
TEST_F(TrainerTest, Float32OfPartsLearnsLikeFloat32) {
  ModelConfig config = testing::TinyConfig(/*dropout=*/0);
  config.hidden_size = 128, config.intermediate_size = 256;
  TrainingOptions options = TinyOptions();
  options.learning_rate = 1e-3;
  options.max_steps = 10;
  options.logging_steps = 5;
  const auto history = [&](bool in_tiles, MatmulPrecision precision) {
    const ModelPtr model = CreateModel(config, Task::kMaskedLm, 7);
    UseTileModel(in_tiles);
    SetMatmulPrecision(precision);
    Json log = Train(*model, TinyData(64), options, {}, {}).trainer_state["log_history"];
    SetMatmulPrecision(MatmulPrecision::kHighest);
    UseTileModel(false);
    return log;
  };
  const Json fused = history(false, MatmulPrecision::kHighest), high = history(true, MatmulPrecision::kHigh),
             medium = history(true, MatmulPrecision::kMedium);
  ASSERT_EQ(fused.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const double loss = fused[i]["loss"];
    EXPECT_NEAR(high[i]["loss"].get<double>(), loss, 5e-5 * loss) << "log entry " << i;
    EXPECT_NEAR(medium[i]["loss"].get<double>(), loss, 5e-3 * loss) << "log entry " << i;
  }
  EXPECT_NE(high, fused) << "not in tiles";
  EXPECT_NE(medium, high);
}

// Reformer's keys are its queries: the key map of a checkpoint is neither used nor trained, not even decayed.
TEST_F(TrainerTest, ReformerLeavesTheKeyMapAsItIs) {
  AttentionSpec reformer;
  reformer.kind = ReformerAttention{};
  As<ReformerAttention>(reformer).chunk = 4;
  for (const bool reversible : {false, true}) {
    const ModelPtr model = TinyModel(0.1, reformer, 7, reversible);
    const NamedTensors before = Copies(*model);
    TrainingOptions options = TinyOptions();
    options.weight_decay = 0.1;
    Train(*model, TinyData(18), options, {}, {});
    const NamedTensors after = Copies(*model);
    for (size_t i = 0; i < before.size(); ++i) {
      const bool key = before[i].first.find(".self.key.") != std::string::npos;
      EXPECT_EQ(after[i].second.equal(before[i].second), key) << before[i].first;
    }
  }
}

// The whole run, optimizer and all: layers that are computed again in the backward change nothing.
TEST_F(TrainerTest, GradientCheckpointingEndsAtTheSameBits) {
  AttentionSpec simhash;
  simhash.kind = SimHashAttention{};
  TrainingOptions options = TinyOptions();
  const ModelPtr plain = TinyModel(0.1, simhash), checkpointed = TinyModel(0.1, simhash);
  Train(*plain, TinyData(18), options, {}, {});
  options.gradient_checkpointing = true;
  Train(*checkpointed, TinyData(18), options, {}, {});
  EXPECT_THAT(Different(Copies(*plain), Copies(*checkpointed)), IsEmpty());
}

TEST_F(TrainerTest, AnotherSeedIsAnotherRun) {
  TrainingOptions options = TinyOptions();
  const ModelPtr one = TinyModel(), other = TinyModel();
  Train(*one, TinyData(18), options, {}, {});
  options.seed = 43;
  Train(*other, TinyData(18), options, {}, {});
  EXPECT_THAT(Different(Copies(*one), Copies(*other)), Not(IsEmpty()));
}

// The two losses of pretraining are means over different things: tokens and pairs.
TEST_F(TrainerTest, AccumulatedPretrainingEqualsTheBigBatch) {
  const TrainingData data{18, [](int64_t epoch, std::span<const int64_t> examples) {
                            PackedBatch batch = testing::TinyBatch(epoch, examples);
                            for (const int64_t example : examples)
                              batch.labels.classes.push_back(static_cast<int32_t>(example % 2));
                            return batch;
                          }};
  const auto train = [&](int batch, int accumulation) {
    TrainingOptions options = TinyOptions();
    options.per_device_train_batch_size = batch;
    options.gradient_accumulation_steps = accumulation;
    options.max_steps = 3;
    const ModelPtr model = CreateModel(testing::TinyConfig(0), Task::kPretraining, 7);
    const double loss = Train(*model, data, options, {}, {}).train_loss;
    return std::pair(loss, Copies(*model));
  };
  const auto [one_loss, one] = train(6, 1);
  const auto [several_loss, several] = train(2, 3);
  EXPECT_NEAR(several_loss, one_loss, 1e-5);
  EXPECT_GT(one_loss, std::log(50.0) + 0.5);  // both terms are in it
  double worst = 0;
  for (size_t i = 0; i < one.size(); ++i)
    worst = std::max(worst, (one[i].second - several[i].second).abs().max().item<double>());
  EXPECT_LT(worst, 2e-3);  // Adam's first steps have the sign of the gradient, which rounding may turn where it is 0
}

// 18 examples by 4 are 5 batches (the last one of 2), by two an epoch of 3 updates.
TEST_F(TrainerTest, CountsEpochsAndSamples) {
  TrainingOptions options = TinyOptions();
  options.gradient_accumulation_steps = 2;
  options.max_steps = -1;
  options.num_train_epochs = 2;
  options.logging_steps = 1;
  const ModelPtr model = TinyModel();
  const TrainResult result = Train(*model, TinyData(18), options, {}, {});
  EXPECT_EQ(result.global_step, 6);
  EXPECT_EQ(result.samples, 36);
  EXPECT_DOUBLE_EQ(result.epoch, 2);
  std::vector<double> epochs, rates;
  for (const Json& entry : result.trainer_state["log_history"]) {
    epochs.push_back(entry["epoch"]);
    rates.push_back(entry["learning_rate"].get<double>() / 1e-2);
  }
  EXPECT_THAT(epochs, ::testing::Pointwise(::testing::DoubleEq(), {0.4, 0.8, 1.0, 1.4, 1.8, 2.0}));
  EXPECT_THAT(rates, ::testing::Pointwise(::testing::DoubleNear(1e-12), {1.0, 5 / 6., 4 / 6., 3 / 6., 2 / 6., 1 / 6.}));
}

TEST_F(TrainerTest, LogsMeansOfTheStepsInBetween) {
  TrainingOptions each = TinyOptions(), third = TinyOptions();
  each.logging_steps = 1;
  third.logging_steps = 3;
  const ModelPtr one = TinyModel(), other = TinyModel();
  const TrainResult steps = Train(*one, TinyData(18), each, {}, {}), means = Train(*other, TinyData(18), third, {}, {});
  const Json &all = steps.trainer_state["log_history"], &few = means.trainer_state["log_history"];
  ASSERT_EQ(few.size(), 4u);
  double sum = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    sum += all[i]["loss"].get<double>();
    if (i % 3 == 2) {
      const double mean =
          (all[i]["loss"].get<double>() + all[i - 1]["loss"].get<double>() + all[i - 2]["loss"].get<double>()) / 3;
      EXPECT_NEAR(few[i / 3]["loss"].get<double>(), mean, 1e-12);
      EXPECT_EQ(few[i / 3]["step"], i + 1);
    }
  }
  EXPECT_NEAR(means.train_loss, sum / 12, 1e-12);
}

TEST_F(TrainerTest, EvaluatesWhenDueAndOnceAfterAResume) {
  TrainingOptions options = TinyOptions();
  options.max_steps = 6;
  options.eval_steps = 2;
  options.save_steps = 2;
  int evaluations = 0;
  const TrainerHooks hooks{[&] { return Json{{"eval_loss", 1.0 / ++evaluations}}; }, {}};
  const ModelPtr model = TinyModel();
  const TrainResult result = Train(*model, TinyData(18), options, {.output_dir = folder_ / "run"}, hooks);
  EXPECT_EQ(evaluations, 3);
  std::vector<int64_t> steps;
  for (const Json& entry : result.trainer_state["log_history"]) {
    if (entry.contains("eval_loss")) steps.push_back(entry["step"]);
  }
  EXPECT_THAT(steps, ::testing::ElementsAre(2, 4, 6));
  Train(*TinyModel(), TinyData(18), options, {.resume_from = folder_ / "run/checkpoint-4"}, hooks);
  EXPECT_EQ(evaluations, 4);  // that of step 4 is in the checkpoint
}

// Evaluations say 3, 1, 2: the second checkpoint is the best, is kept beside the newest, and is the result; also when
// the run was stopped and resumed in between.
TEST_F(TrainerTest, TheBestCheckpointIsTheResult) {
  TrainingOptions options = TinyOptions();
  options.max_steps = 6;
  options.eval_steps = options.save_steps = 2;
  options.save_total_limit = 1;
  options.load_best_model_at_end = true;
  const auto metric_of = [](int evaluation) { return evaluation == 1 ? 3.0 : evaluation == 2 ? 1.0 : 2.0; };
  int evaluations = 0;
  const TrainerHooks hooks{[&] { return Json{{"eval_loss", metric_of(++evaluations)}}; }, {}};
  const ModelPtr model = TinyModel();
  const TrainResult result = Train(*model, TinyData(18), options, {.output_dir = folder_ / "run"}, hooks);
  EXPECT_EQ(result.best_step, 4);
  EXPECT_EQ(result.trainer_state["best_metric"], 1.0);
  EXPECT_EQ(result.trainer_state["best_model_checkpoint"], "checkpoint-4");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/checkpoint-2"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/checkpoint-4"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/checkpoint-6"));
  const ModelPtr at_four = LoadModel(folder_ / "run/checkpoint-4", Task::kMaskedLm, 0, true);
  EXPECT_THAT(Different(Copies(*model), Copies(*at_four)), IsEmpty());
  // Resumed behind the best: it is still known.
  const ModelPtr resumed = TinyModel(0.1, {}, 99);
  const TrainResult again = Train(*resumed, TinyData(18), options,
                                  {.output_dir = folder_ / "run", .resume_from = folder_ / "run/checkpoint-4"}, hooks);
  EXPECT_EQ(again.best_step, 4);
  EXPECT_THAT(Different(Copies(*resumed), Copies(*at_four)), IsEmpty());
  // Into another folder, where the best one is not: told before the first step.
  const TrainerPlace other{.output_dir = folder_ / "other", .resume_from = folder_ / "run/checkpoint-6"};
  EXPECT_THAT([&] { Train(*TinyModel(), TinyData(18), options, other, hooks); },
              ThrowsMessage<Error>(HasSubstr("resume in the folder where it is")));
}

// A program that calls Train finds nothing on its streams that it did not ask for; it can ask for all of it.
TEST_F(TrainerTest, PrintsNothingAndTellsWhoeverAsks) {
  SetProgressStyle(ProgressStyle::kBar);
  TrainingOptions options = TinyOptions();
  options.max_steps = 4;
  options.logging_steps = options.eval_steps = options.save_steps = 2;
  const auto evaluate = [] { return Json{{"eval_loss", 1.0}}; };
  const int threads = Threads();
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Train(*TinyModel(), TinyData(18), options, {.output_dir = folder_ / "run"}, {evaluate, {}});
  SetThreads(threads + 1);
  Train(*TinyModel(), TinyData(18), options, {.resume_from = folder_ / "run/checkpoint-2"}, {evaluate, {}});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");

  std::vector<std::string> told;
  TrainerHooks hooks{evaluate, {}};
  hooks.progress = [&](const TrainingProgress& progress) {
    told.push_back(fmt::format("{}/{}{}", progress.step, progress.total, progress.loss ? " with loss" : ""));
  };
  hooks.log = [&](const Json& entry) { told.push_back(entry.contains("eval_loss") ? "evaluated" : "logged"); };
  Train(*TinyModel(), TinyData(18), options, {.resume_from = folder_ / "run/checkpoint-2"}, hooks);
  SetThreads(threads);
  EXPECT_THAT(told, ::testing::ElementsAre("2/4", "3/4 with loss", "4/4 with loss", "logged", "evaluated"));
}

TEST_F(TrainerTest, BestModelNeedsEvaluationsAndAKnownMetric) {
  TrainingOptions options = TinyOptions();
  options.load_best_model_at_end = true;
  options.eval_steps = 2;
  options.save_steps = 3;
  EXPECT_THAT([&] { ValidateTrainingOptions(options); },
              ThrowsMessage<UsageError>(HasSubstr("needs eval_steps, and save_steps a multiple of it, got 2 and 3")));
  options.save_steps = 2;
  options.metric_for_best_model = "acuracy";
  const TrainerHooks hooks{[&] { return Json{{"eval_loss", 1.0}, {"eval_accuracy", 0.5}}; }, {}};
  EXPECT_THAT([&] { Train(*TinyModel(), TinyData(18), options, {.output_dir = folder_ / "run"}, hooks); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("no \"acuracy\""), HasSubstr("eval_loss, eval_accuracy"))));
  EXPECT_TRUE(GreaterIsBetter("accuracy"));
  EXPECT_FALSE(GreaterIsBetter("eval_mlm_loss"));
  EXPECT_FALSE(GreaterIsBetter("perplexity"));
  EXPECT_FALSE(GreaterIsBetter("eval_mse"));
  EXPECT_TRUE(GreaterIsBetter("spearmanr"));
  // A metric that decides nothing.
  options.load_best_model_at_end = false;
  EXPECT_THAT([&] { ValidateTrainingOptions(options); },
              ThrowsMessage<UsageError>(HasSubstr("metric_for_best_model: needs load_best_model_at_end")));
}

// The result, what is evaluated and the models of checkpoints are the average, here computed once more from the weights
// of a run without one; and averaging does not change the course of training.
TEST_F(TrainerTest, TheAverageOfTheWeightsIsEvaluatedAndSaved) {
  TrainingOptions options = TinyOptions();
  options.max_steps = 6;
  options.save_steps = 1;
  const ModelPtr plain = TinyModel();
  NamedTensors average = Copies(*plain);
  Train(*plain, TinyData(18), options, {.output_dir = folder_ / "plain"}, {});
  constexpr double kDecay = 0.3;  // in the beginning less: 1/10, 2/11, 3/12, then this
  for (int step = 1; step <= 6; ++step) {
    const ModelPtr at = LoadModel(folder_ / fmt::format("plain/checkpoint-{}", step), Task::kMaskedLm, 0, true);
    const NamedTensors weights = Copies(*at);
    const double decay = std::min(kDecay, static_cast<double>(step) / (9 + step));
    for (size_t i = 0; i < average.size(); ++i)
      average[i].second = decay * average[i].second + (1 - decay) * weights[i].second;
  }
  options.ema_decay = kDecay;
  options.save_steps = options.eval_steps = 3;
  const ModelPtr averaged = TinyModel();
  NamedTensors evaluated;
  const TrainerHooks hooks{[&] {
                             evaluated = Copies(*averaged);
                             return Json{{"eval_loss", 1.0}};
                           },
                           {}};
  Train(*averaged, TinyData(18), options, {.output_dir = folder_ / "averaged"}, hooks);
  const NamedTensors result = Copies(*averaged);
  for (size_t i = 0; i < result.size(); ++i)
    EXPECT_TRUE(torch::allclose(result[i].second, average[i].second, 1e-5, 1e-7)) << result[i].first;
  EXPECT_THAT(Different(result, evaluated), IsEmpty());
  const ModelPtr saved = LoadModel(folder_ / "averaged/checkpoint-6", Task::kMaskedLm, 0, true);
  EXPECT_THAT(Different(result, Copies(*saved)), IsEmpty());
  // What is trained is what was trained without an average.
  const SafetensorsFile state(folder_ / "averaged/checkpoint-6/optimizer.safetensors");
  for (const auto& [name, weight] : Copies(*plain)) {
    const TensorView& view = state.Get("weight." + name, DType::kF32, weight.sizes().vec());
    EXPECT_EQ(std::memcmp(view.bytes.data(), weight.data_ptr(), view.bytes.size()), 0) << name;
  }
  EXPECT_THAT(Different(Copies(*plain), result), Not(IsEmpty()));
}

// An evaluation that some outputs leave undefined is no better than any other, and no end of the run.
TEST_F(TrainerTest, AnUndefinedMetricIsNeverTheBest) {
  TrainingOptions options = TinyOptions();
  options.max_steps = 6;
  options.eval_steps = options.save_steps = 2;
  options.load_best_model_at_end = true;
  options.metric_for_best_model = "pearson";
  int evaluations = 0;
  const TrainerHooks hooks{[&] {
                             ++evaluations;
                             return Json{{"eval_loss", 1.0}, {"eval_pearson", evaluations == 2 ? Json(-0.5) : Json()}};
                           },
                           {}};
  EXPECT_EQ(Train(*TinyModel(), TinyData(18), options, {.output_dir = folder_ / "run"}, hooks).best_step, 4);
}

TEST_F(TrainerTest, AnInfiniteLossStopsTheRunAndKeepsTheLastGoodCheckpoint) {
  TrainingOptions options = TinyOptions();
  options.max_steps = 4;
  options.lr_scheduler_type = ScheduleType::kConstant;
  options.save_steps = 2;
  Train(*TinyModel(), TinyData(18), options, {.output_dir = folder_ / "run"}, {});
  options.max_steps = 12;
  options.learning_rate = 1e30;
  const TrainerPlace place{.output_dir = folder_ / "run", .resume_from = folder_ / "run/checkpoint-4"};
  const ModelPtr model = TinyModel();
  EXPECT_THAT(
      [&] { Train(*model, TinyData(18), options, place, {}); },
      ThrowsMessage<Error>(AllOf(HasSubstr("step 6: "), HasSubstr("not a number"), HasSubstr("learning rate 1e+30"),
                                 HasSubstr("the last good checkpoint is " + (folder_ / "run/checkpoint-4")))));
  EXPECT_EQ(NewestCheckpoint(folder_ / "run"), folder_ / "run/checkpoint-4");
}

TEST_F(TrainerTest, AStepWithoutAnyLabelChangesNothingButTime) {
  const TrainingData data{8, [](int64_t epoch, std::span<const int64_t> examples) {
                            PackedBatch batch = lshformer::testing::TinyBatch(epoch, examples);
                            std::fill(batch.labels.tokens.begin(), batch.labels.tokens.end(), kIgnoredLabel);
                            return batch;
                          }};
  const ModelPtr model = TinyModel();
  const NamedTensors before = Copies(*model);
  EXPECT_EQ(Train(*model, data, TinyOptions(), {}, {}).train_loss, 0);
  EXPECT_THAT(Different(before, Copies(*model)), IsEmpty());
}

}  // namespace
}  // namespace lshformer
