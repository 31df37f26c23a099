#include "data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/philox.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;

TEST(Sampler, StepsOfThePaper) {
  // BERT-LSH: ⌈235314/8⌉·3 = 88,245; SST-2 ⌈63981/32⌉·3 = 6,000; SQuAD ⌈83219/32⌉·3 = 7,803.
  EXPECT_EQ(3 * TrainSampler(235314, 8, 1, 0).steps_per_epoch(), 88245);
  EXPECT_EQ(3 * TrainSampler(63981, 32, 1, 0).steps_per_epoch(), 6000);
  EXPECT_EQ(3 * TrainSampler(83219, 32, 1, 0).steps_per_epoch(), 7803);
}

class SamplerShapes : public ::testing::TestWithParam<std::tuple<int, int, int>> {};

// Every example exactly once an epoch, in the epoch's order, whatever the sizes.
TEST_P(SamplerShapes, AnEpochIsAPermutation) {
  const auto [examples, batch, accumulation] = GetParam();
  TrainSampler sampler(examples, batch, accumulation, 42);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> seen;
    int64_t batches = 0;
    for (int64_t step = epoch * sampler.steps_per_epoch(); step < (epoch + 1) * sampler.steps_per_epoch(); ++step) {
      EXPECT_EQ(sampler.Epoch(step), epoch);
      const auto pieces = sampler.Batches(step);
      ASSERT_FALSE(pieces.empty());
      ASSERT_LE(pieces.size(), static_cast<size_t>(accumulation));
      for (const auto& piece : pieces) {
        ASSERT_FALSE(piece.empty());
        ASSERT_LE(piece.size(), static_cast<size_t>(batch));
        seen.insert(seen.end(), piece.begin(), piece.end());
        ++batches;
      }
    }
    EXPECT_EQ(batches, sampler.batches_per_epoch());
    EXPECT_EQ(seen, ShuffledOrder(examples, 42, epoch));
    std::sort(seen.begin(), seen.end());
    std::vector<int64_t> all(static_cast<size_t>(examples));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(seen, all);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, SamplerShapes,
                         ::testing::Values(std::tuple{1, 1, 1}, std::tuple{1, 8, 4}, std::tuple{7, 2, 3},
                                           std::tuple{16, 4, 2}, std::tuple{17, 4, 2}, std::tuple{100, 33, 1},
                                           std::tuple{5, 5, 5}));

TEST(Sampler, ResumesAtAnyStep) {
  TrainSampler through(53, 4, 2, 7);
  for (int64_t step = 0; step < 40; ++step) {
    TrainSampler resumed(53, 4, 2, 7);
    EXPECT_EQ(resumed.Batches(step), through.Batches(step)) << step;
  }
}

TEST(Sampler, EpochsAndSeedsDiffer) {
  EXPECT_NE(ShuffledOrder(50, 1, 0), ShuffledOrder(50, 1, 1));
  EXPECT_NE(ShuffledOrder(50, 1, 0), ShuffledOrder(50, 2, 0));
}

TEST(Sampler, OrdersAreEquallyLikely) {
  std::map<std::vector<int64_t>, int> count;
  constexpr int kDraws = 24000;
  for (int epoch = 0; epoch < kDraws; ++epoch) ++count[ShuffledOrder(4, 5, epoch)];
  ASSERT_EQ(count.size(), 24u);
  for (const auto& [order, times] : count) EXPECT_NEAR(times, kDraws / 24, 160);  // five standard deviations
}

TEST(Sampler, RefusesImpossibleSizes) {
  EXPECT_THAT(ErrorOf([] { TrainSampler(0, 1, 1, 0); }), HasSubstr("no training examples"));
  EXPECT_THAT(ErrorOf([] { TrainSampler(1, 0, 1, 0); }),
              HasSubstr("per_device_train_batch_size: expected at least 1, got 0"));
  EXPECT_THAT(ErrorOf([] { TrainSampler(1, 1, -2, 0); }),
              HasSubstr("gradient_accumulation_steps: expected at least 1, got -2"));
}

TEST(CutByTokens, CoversInOrderWithinTheBudget) {
  PhiloxStream random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> lengths(random.Below(60));
    for (int& length : lengths) length = static_cast<int>(random.Below(40));
    const int64_t budget = 1 + static_cast<int64_t>(random.Below(80)), most = static_cast<int64_t>(random.Below(6));
    int64_t next = 0;
    for (const auto& [begin, end] : CutByTokens(lengths, budget, most)) {
      ASSERT_EQ(begin, next);
      ASSERT_LT(begin, end);
      next = end;
      const int64_t tokens = std::accumulate(lengths.begin() + begin, lengths.begin() + end, int64_t{0});
      EXPECT_TRUE(tokens <= budget || end == begin + 1) << "over the budget";
      EXPECT_TRUE(most == 0 || end - begin <= most);
      // Greedy: the next sequence would not have fitted.
      if (end < static_cast<int64_t>(lengths.size())) {
        EXPECT_TRUE(tokens + lengths[end] > budget || end - begin == most);
      }
    }
    EXPECT_EQ(next, static_cast<int64_t>(lengths.size()));
  }
}

}  // namespace
}  // namespace lshformer
