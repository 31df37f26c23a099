#include "base/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace lshformer {
namespace {

using ::testing::ElementsAre;

// Known answers of Random123, the authors' own code (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_THAT(Philox(0, 0, 0), ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  const uint64_t ones = ~uint64_t{0};
  EXPECT_THAT(Philox(ones, ones, ones), ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  // Digits of π as counter and key.
  EXPECT_THAT(Philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
              ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(StreamKey, EveryArgumentMatters) {
  std::set<uint64_t> keys;
  for (uint64_t seed : {0, 1})
    for (uint64_t step : {0, 1})
      for (uint32_t layer : {0, 1})
        for (uint32_t head : {0, 1})
          for (Purpose purpose : {Purpose::kPlanes, Purpose::kHiddenDropout})
            keys.insert(StreamKey(seed, step, layer, head, purpose));
  EXPECT_EQ(keys.size(), 32u);
}

// Checkpoints depend on this mapping: a changed value would silently change every resumed run.
TEST(StreamKey, IsPartOfTheFormat) {
  EXPECT_EQ(StreamKey(0, 0, 0, 0, Purpose::kInitialization), 0x7439bdd2c58550eau);
  EXPECT_EQ(StreamKey(42, 7, 1, 3, Purpose::kPlanes), 0x691009c1e2aa9162u);
}

TEST(PhiloxStream, IsTheCounterSequence) {
  PhiloxStream stream(5, 9);
  for (uint64_t block = 0; block < 3; ++block)
    for (const uint32_t word : Philox(5, block, 9)) EXPECT_EQ(stream.Next(), word);
}

TEST(PhiloxStream, SubstreamsDiffer) {
  PhiloxStream a(5, 0), b(5, 1);
  EXPECT_NE(a.Next(), b.Next());
}

// Mean and variance of n samples lie within six standard errors of the law's.
TEST(PhiloxStream, MomentsOfUniformAndNormal) {
  constexpr int n = 200'000;
  PhiloxStream stream(StreamKey(1, 0, 0, 0, Purpose::kSynthetic));
  double sum = 0, sum_normal = 0, squares = 0, fourth = 0;
  for (int i = 0; i < n; ++i) {
    const double u = stream.Uniform(), z = stream.Normal();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    sum_normal += z;
    squares += z * z;
    fourth += z * z * z * z;
  }
  const double root = std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(sum / n, 0.5, 6 * std::sqrt(1.0 / 12) / root);
  EXPECT_NEAR(sum_normal / n, 0, 6 / root);
  EXPECT_NEAR(squares / n, 1, 6 * std::sqrt(2.0) / root);
  EXPECT_NEAR(fourth / n, 3, 6 * std::sqrt(96.0) / root);
}

TEST(PhiloxStream, BelowIsUniformAndInRange) {
  constexpr int n = 60'000, bound = 6;
  PhiloxStream stream(3);
  std::vector<int> counts(bound);
  for (int i = 0; i < n; ++i) {
    const uint64_t value = stream.Below(bound);
    ASSERT_LT(value, static_cast<uint64_t>(bound));
    ++counts[value];
  }
  const double expected = n / static_cast<double>(bound);
  for (const int count : counts) EXPECT_NEAR(count, expected, 6 * std::sqrt(expected));
}

TEST(PhiloxStream, BelowAtTheEdges) {
  PhiloxStream stream(3);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(stream.Below(1), 0u);
  const uint64_t half = (uint64_t{1} << 63) + 1;  // a bound that refuses almost half of all draws
  for (int i = 0; i < 100; ++i) EXPECT_LT(stream.Below(half), half);
  stream.Below(~uint64_t{0});
  stream.Below(uint64_t{1} << 63);
}

}  // namespace
}  // namespace lshformer
