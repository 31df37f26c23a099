#include "train/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "train/tiny_run.h"

namespace lshformer {
namespace {

using ::lshformer::testing::Copies;
using ::lshformer::testing::Different;
using ::lshformer::testing::TinyBatch;
using ::lshformer::testing::TinyModel;
using ::lshformer::testing::TinyOptions;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double kRate = 1e-2;

std::vector<PackedBatch> MicroBatches(int64_t step) {
  std::vector<PackedBatch> batches;
  for (int64_t micro = 0; micro < 3; ++micro) {
    const std::vector<int64_t> examples{6 * step + 2 * micro, 6 * step + 2 * micro + 1};
    batches.push_back(TinyBatch(0, examples));
  }
  return batches;
}

// The trainer is these three calls: the same weights, the same losses.
TEST(TrainingStep, ThreeCallsAreAStepOfTheTrainer) {
  TrainingOptions options = TinyOptions();
  options.per_device_train_batch_size = 2;
  options.gradient_accumulation_steps = 3;
  options.max_steps = 3;
  options.lr_scheduler_type = ScheduleType::kConstant;
  options.learning_rate = kRate;
  std::vector<PackedBatch> seen;
  const TrainingData data{18, [&](int64_t epoch, std::span<const int64_t> examples) {
                            seen.push_back(TinyBatch(epoch, examples));
                            return seen.back();
                          }};
  const ModelPtr trained = TinyModel(), stepped = TinyModel();
  const double mean = Train(*trained, data, options, {}, {}).train_loss;
  ASSERT_EQ(seen.size(), 9u);
  TrainingStep step(*stepped, options);
  double losses = 0;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(step.updates(), static_cast<int64_t>(i));
    const std::span<const PackedBatch> batches(seen.data() + 3 * i, 3);
    for (const PackedBatch& batch : batches) step.Accumulate(batch, step.Items(batches));
    step.Reduce();
    losses += step.loss();
    step.Update(kRate);
  }
  EXPECT_EQ(losses / 3, mean);
  EXPECT_THAT(Different(Copies(*trained), Copies(*stepped)), IsEmpty());
}

// Without dropout the loss of an update is the mean over its labelled items, whatever the micro-batches.
TEST(TrainingStep, TheLossIsTheMeanOverAllItems) {
  const ModelPtr model = TinyModel(/*dropout=*/0);
  const std::vector<PackedBatch> batches = MicroBatches(0);
  int64_t all = 0;
  double sum = 0;
  for (const PackedBatch& batch : batches) {
    const int64_t tokens = LossItems(model->task(), batch.labels)[0];
    const auto items = static_cast<double>(tokens);
    all += tokens;
    if (items > 0) sum += model->Forward(batch, {}).loss.item<double>() * items;
  }
  TrainingStep step(*model, TinyOptions());
  for (const PackedBatch& batch : batches) step.Accumulate(batch, step.Items(batches));
  step.Reduce();
  EXPECT_NEAR(step.loss(), sum / static_cast<double>(all), 1e-6);
  step.Update(kRate);
  EXPECT_EQ(step.loss(), 0) << "the next step begins anew";
}

TEST(TrainingStep, ABatchWithoutItemsAddsNothing) {
  const ModelPtr model = TinyModel(), other = TinyModel();
  PackedBatch empty = TinyBatch(0, std::vector<int64_t>{3});  // every tenth example has no label
  ASSERT_EQ(LossItems(model->task(), empty.labels)[0], 0);
  const PackedBatch batch = TinyBatch(0, std::vector<int64_t>{0, 1});
  for (const bool with : {false, true}) {
    TrainingStep step(with ? *model : *other, TinyOptions());
    const double loss = step.Accumulate(batch, step.Items({&batch, 1}));
    if (with) {
      EXPECT_EQ(step.Accumulate(empty, step.Items({&batch, 1})), loss);
    }
    step.Reduce();
    step.Update(kRate);
  }
  EXPECT_THAT(Different(Copies(*model), Copies(*other)), IsEmpty());
}

TEST(TrainingStep, NumbersThatAreNotFiniteChangeNothing) {
  const ModelPtr model = TinyModel();
  const std::vector<PackedBatch> batches = MicroBatches(0);
  TrainingStep step(*model, TinyOptions());
  step.Accumulate(batches[0], step.Items({batches.data(), 1}));
  step.Reduce();
  step.parameters()[1].second.mutable_grad()[0] = std::numeric_limits<float>::infinity();
  const NamedTensors before = Copies(*model);
  EXPECT_TRUE(std::isinf(step.Update(kRate)));
  EXPECT_EQ(step.updates(), 0);
  EXPECT_THAT(Different(Copies(*model), before), IsEmpty());
  // A loss: its gradients are not even computed.
  {
    const torch::NoGradGuard no_grad;
    step.parameters()[1].second.fill_(std::numeric_limits<float>::quiet_NaN());
  }
  TrainingStep next(*model, TinyOptions());
  EXPECT_TRUE(std::isnan(next.Accumulate(batches[0], next.Items({batches.data(), 1}))));
  EXPECT_FALSE(next.parameters()[2].second.grad().defined());
}

}  // namespace
}  // namespace lshformer
