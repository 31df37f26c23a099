#include "train/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "train/tiny_run.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using ::lshformer::testing::Copies;
using ::lshformer::testing::Different;
using ::lshformer::testing::ErrorOf;
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

// The trainer is these calls: the same weights, the same losses.
TEST(TrainingStep, TheCallsAreAStepOfTheTrainer) {
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
    step.Begin(batches);
    for (const PackedBatch& batch : batches) step.Accumulate(batch);
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
  step.Begin(batches);
  for (const PackedBatch& batch : batches) step.Accumulate(batch);
  step.Reduce();
  EXPECT_NEAR(step.loss(), sum / static_cast<double>(all), 1e-6);
  step.Update(kRate);
  EXPECT_EQ(step.loss(), 0) << "the next step begins anew";
}

TEST(TrainingStep, ABatchWithoutItemsAddsNothing) {
  const ModelPtr model = TinyModel(), other = TinyModel();
  PackedBatch empty = TinyBatch(0, std::vector<int64_t>{3});  // every tenth example has no label
  ASSERT_EQ(LossItems(model->task(), empty.labels)[0], 0);
  const std::vector<PackedBatch> batches{TinyBatch(0, std::vector<int64_t>{0, 1}), empty};
  for (const bool with : {false, true}) {
    TrainingStep step(with ? *model : *other, TinyOptions());
    step.Begin({batches.data(), with ? size_t{2} : size_t{1}});
    const double loss = step.Accumulate(batches[0]);
    if (with) {
      EXPECT_EQ(step.Accumulate(batches[1]), loss);
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
  step.Begin({batches.data(), 1});
  step.Accumulate(batches[0]);
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
  next.Begin({batches.data(), 1});
  EXPECT_TRUE(std::isnan(next.Accumulate(batches[0])));
  EXPECT_FALSE(next.parameters()[2].second.grad().defined());
}

// A loss that counts how it is asked.
struct Asked {
  int items = 0, terms = 0;
  std::vector<int64_t> micro_batches;  // that the items were asked for, an update each
};

TrainingLoss Counted(TrainingLoss loss, Asked& asked) {
  TrainingLoss counted;
  counted.items = [loss, &asked](Model& model, std::span<const PackedBatch> update) {
    ++asked.items;
    asked.micro_batches.push_back(static_cast<int64_t>(update.size()));
    return loss.items(model, update);
  };
  counted.terms = [loss, &asked](Model& model, const PackedBatch& batch, const ForwardOptions& options) {
    ++asked.terms;
    EXPECT_TRUE(options.train);
    return loss.terms(model, batch, options);
  };
  return counted;
}

// Once an update, with all its micro-batches; no forward where there is nothing to learn from.
TEST(TrainingLoss, IsAskedForItsItemsOnceAnUpdate) {
  TrainingOptions options = TinyOptions();
  options.per_device_train_batch_size = 1;
  options.gradient_accumulation_steps = 3;
  options.max_steps = 4;
  Asked asked;
  const ModelPtr own = TinyModel(), other = TinyModel();
  Train(*own, testing::TinyData(10), options, {}, {}, Counted(HeadLoss(), asked));
  EXPECT_EQ(asked.items, 4);
  EXPECT_THAT(asked.micro_batches, ::testing::ElementsAre(3, 3, 3, 1)) << "ten batches an epoch";
  int labelled = 0;
  for (int64_t example = 0; example < 10; ++example) {
    const PackedBatch batch = TinyBatch(0, std::vector<int64_t>{example});
    labelled += LossItems(own->task(), batch.labels)[0] > 0 ? 1 : 0;
  }
  EXPECT_LT(labelled, 10);
  EXPECT_EQ(asked.terms, labelled);
  Train(*other, testing::TinyData(10), options, {}, {});
  EXPECT_THAT(Different(Copies(*own), Copies(*other)), IsEmpty()) << "it is the head's own";
}

// Two terms over different numbers of items, of the first states and of all of them: as if all were one batch.
TEST(TrainingLoss, TermsAreMeansOverTheirOwnItems) {
  TrainingLoss loss;
  loss.items = [](Model&, std::span<const PackedBatch> update) {
    std::vector<TermItems> items;
    for (const PackedBatch& batch : update) items.push_back({batch.sequences(), batch.tokens.size()});
    return items;
  };
  loss.terms = [](Model& model, const PackedBatch& batch, const ForwardOptions&) {
    const torch::Tensor states = model.Forward(batch, {}).last_hidden_state;  // [T, H]
    std::vector<int64_t> first(batch.tokens.cu_seqlens.begin(), batch.tokens.cu_seqlens.end() - 1);
    return std::vector<torch::Tensor>{states.index_select(0, torch::tensor(first)).exp().sum(1).mean(),
                                      states.exp().sum(1).mean()};
  };
  const ModelPtr parts = TinyModel(), whole = TinyModel();
  const std::vector<PackedBatch> batches{TinyBatch(0, std::vector<int64_t>{0}),
                                         TinyBatch(0, std::vector<int64_t>{1, 2, 3})};
  const PackedBatch all = TinyBatch(0, std::vector<int64_t>{0, 1, 2, 3});
  TrainingStep step(*parts, TinyOptions(), loss), once(*whole, TinyOptions(), loss);
  step.Begin(batches);
  for (const PackedBatch& batch : batches) step.Accumulate(batch);
  once.Begin({&all, 1});
  once.Accumulate(all);
  EXPECT_NEAR(step.loss(), once.loss(), 1e-6 * once.loss());
  for (size_t i = 0; i < step.parameters().size(); ++i) {
    const torch::Tensor &got = step.parameters()[i].second.grad(), &want = once.parameters()[i].second.grad();
    ASSERT_EQ(got.defined(), want.defined()) << step.parameters()[i].first;
    if (got.defined()) {
      EXPECT_TRUE(torch::allclose(got.to_dense(), want.to_dense(), 1e-4, 1e-6)) << step.parameters()[i].first;
    }
  }
  EXPECT_THAT(ErrorOf([&] { step.Accumulate(all); }), ::testing::HasSubstr("the update has 2 micro-batches"));
}

}  // namespace
}  // namespace lshformer
