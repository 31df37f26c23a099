#include "bench/crossing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/philox.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;

// Timings that leave no doubt: hashing takes `ratio` times as long as exact attention.
Comparison Clear(double ratio) { return {1, ratio, ratio, ratio * 0.99, ratio * 1.01, 9}; }

Crossing Find(int shortest, int longest, const std::function<bool(int)>& pays) {
  return FindCrossing(shortest, longest, [&](int length) { return Clear(pays(length) ? 0.5 : 1.5); });
}

TEST(Compare, MedianOfTheRatiosOfPairsAndItsBounds) {
  // A slow moment that meets both runs of a pair leaves their ratio alone.
  const Comparison comparison = Compare({2, 2, 20, 2, 2}, {1, 1.2, 11, 0.8, 1});
  EXPECT_DOUBLE_EQ(comparison.exact_ms, 2);
  EXPECT_DOUBLE_EQ(comparison.sparse_ms, 1);
  EXPECT_DOUBLE_EQ(comparison.ratio, 0.5);
  EXPECT_DOUBLE_EQ(comparison.ratio_low, 0.4);  // of five pairs all are needed: 1/32 < 5 % < 6/32
  EXPECT_DOUBLE_EQ(comparison.ratio_high, 0.6);
  EXPECT_EQ(comparison.runs, 5);
  EXPECT_TRUE(comparison.Pays());
}

TEST(Compare, OneSlowRunAmongManyDoesNotDecide) {
  std::vector<double> exact(21, 1.0), hashed(21, 0.9);
  hashed[3] = 5;
  hashed[17] = 7;
  EXPECT_TRUE(Compare(exact, hashed).Pays());
  for (int i = 0; i < 7; ++i) hashed[static_cast<size_t>(i)] = 1.1;  // 8 of 21 with the slow one: not beyond doubt
  EXPECT_FALSE(Compare(exact, hashed).Pays());
}

TEST(Compare, WhatCannotBeToldApartDoesNotPay) {
  EXPECT_FALSE(Compare({1, 1, 1, 1, 1}, {0.9, 0.9, 0.9, 0.9, 1.1}).Pays());
  EXPECT_FALSE(Compare({1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}).Pays());
  EXPECT_THROW(Compare({1}, {}), Error);
}

TEST(Compare, TheBoundsLeaveOutTheMedianAsRarelyAsTheySay) {
  PhiloxStream stream(1);
  int above = 0;
  constexpr int kTrials = 4000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> hashed;
    for (int i = 0; i < 21; ++i) hashed.push_back(0.5 + stream.Uniform());  // true median 1
    above += Compare(std::vector<double>(21, 1.0), hashed).Pays() ? 1 : 0;
  }
  EXPECT_LT(above, 0.05 * kTrials);
  EXPECT_GT(above, 0.02 * kTrials);  // P(at most 6 of 21) is 3.9 %
}

TEST(Ladder, PowersOfTwoBetweenTheEnds) {
  EXPECT_THAT(Ladder(16, 512), ElementsAre(16, 32, 64, 128, 256, 512));
  EXPECT_THAT(Ladder(65, 300), ElementsAre(65, 128, 256, 300));
  EXPECT_THAT(Ladder(64, 65), ElementsAre(64, 65));
  EXPECT_THAT(Ladder(16, 16), ElementsAre(16));
  EXPECT_THAT(Ladder(1 << 30, INT32_MAX), ElementsAre(1 << 30, INT32_MAX));
}

TEST(FindCrossing, IsFoundToASixteenth) {
  for (const int truth : {17, 20, 33, 100, 129, 500, 777, 1000}) {
    const Crossing crossing = Find(16, 4096, [&](int length) { return length >= truth; });
    EXPECT_GE(crossing.length, truth);
    EXPECT_LE(crossing.length, truth + std::max(8, crossing.length / 16));
    EXPECT_TRUE(std::is_sorted(crossing.points.begin(), crossing.points.end(),
                               [](const auto& a, const auto& b) { return a.length < b.length; }));
    EXPECT_LE(crossing.points.back().length, 4 * truth);  // no long sequences are measured for nothing
  }
}

TEST(FindCrossing, AlwaysAndNever) {
  EXPECT_EQ(Find(16, 512, [](int) { return true; }).length, 16);
  EXPECT_EQ(Find(16, 512, [](int) { return true; }).points.size(), 2U);
  EXPECT_EQ(Find(16, 512, [](int) { return false; }).length, kNeverSparse);
  EXPECT_EQ(Find(16, 512, [](int length) { return length == 512; }).length, 512);
  EXPECT_EQ(Find(16, 512, [](int length) { return length >= 400; }).length, 400);
  EXPECT_EQ(Find(16, 16, [](int) { return true; }).length, 16);
  EXPECT_EQ(Find(16, 16, [](int) { return false; }).length, kNeverSparse);
}

TEST(FindCrossing, ALuckyStepIsNoCrossing) {
  EXPECT_EQ(Find(16, 512, [](int length) { return length == 64; }).length, kNeverSparse);
  const Crossing later = Find(16, 1024, [](int length) { return length == 32 || length >= 256; });
  EXPECT_GT(later.length, 128);
  EXPECT_LE(later.length, 256);
}

TEST(FindCrossing, NoiseIsNotTakenForANo) {
  Comparison noisy;
  noisy.ratio = 0.57;
  noisy.ratio_low = 0.4;
  noisy.ratio_high = 1.9;
  int measured = 0;
  const Crossing crossing = FindCrossing(512, 512, [&](int) {
    ++measured;
    return noisy;
  });
  EXPECT_TRUE(crossing.cannot_tell);
  EXPECT_EQ(measured, 3);
  noisy.ratio_low = 0.95;  // whatever it is, it saves next to nothing
  EXPECT_FALSE(FindCrossing(512, 512, [&](int) { return noisy; }).cannot_tell);
}

TEST(ShortestToMeasure, IsHashedAndHasAWindowThatIsAllowed) {
  AttentionSpec spec;
  spec.kind = SimHashAttention{};
  EXPECT_EQ(ShortestToMeasure(spec), 16);
  As<SimHashAttention>(spec).pairs = Pairs::kSorted;
  EXPECT_EQ(ShortestToMeasure(spec), 129);
  spec.min_length = 5000;  // asked for, not measured
  EXPECT_EQ(ShortestToMeasure(spec), 129);
  spec = AttentionSpec{};
  spec.kind = ReformerAttention{};
  for (const int rounds : {1, 2, 5}) {
    for (const int look : {0, 1, 2, 7, 12}) {
      for (const bool wrap : {true, false}) {
        As<ReformerAttention>(spec).rounds = rounds;
        As<ReformerAttention>(spec).look_back = look;
        As<ReformerAttention>(spec).look_ahead = look / 2;
        As<ReformerAttention>(spec).wrap = wrap;
        As<ReformerAttention>(spec).chunk = 20;
        const int shortest = static_cast<int>(ShortestToMeasure(spec));
        EXPECT_TRUE(IsSparseAt(spec, shortest));
        EXPECT_NO_THROW(CheckView(As<ReformerAttention>(spec), shortest));
        if (shortest > As<ReformerAttention>(spec).chunk + 1) {
          EXPECT_THROW(CheckView(As<ReformerAttention>(spec), shortest - 1), Error);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lshformer
