// The comparator that numeric tests rely on is tested itself: it must refuse what it should.
#include "util/rounding.h"

#include <gtest/gtest.h>

#include <limits>

namespace lshformer::testing {
namespace {

using ::testing::Not;
constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

TEST(WithinRounding, AcceptsUpToTheBoundAndNotBeyond) {
  const std::vector<float> want{1, -2, 3};
  EXPECT_THAT((std::vector<float>{1, -2, 3}), WithinRounding(want, 0.0));
  EXPECT_THAT((std::vector<float>{1.25f, -2, 3}), WithinRounding(want, 0.25));
  EXPECT_THAT((std::vector<float>{1.25f, -2, 3}), Not(WithinRounding(want, 0.24)));
  EXPECT_THAT((std::vector<float>{1, -2, 2.75f}), WithinRounding(want, {0, 0, 0.25}));
  EXPECT_THAT((std::vector<float>{1, -1.75f, 3}), Not(WithinRounding(want, {0, 0, 0.25})));
}

TEST(WithinRounding, RefusesOtherLengths) {
  EXPECT_THAT((std::vector<float>{1}), Not(WithinRounding(std::vector<float>{1, 2}, 1.0)));
  EXPECT_THAT((std::vector<float>{1, 2}), Not(WithinRounding(std::vector<float>{1}, 1.0)));
  EXPECT_THAT((std::vector<float>{1, 2}), Not(WithinRounding(std::vector<float>{1, 2}, std::vector<double>{})));
}

TEST(WithinRounding, NanAgreesWithNothingAndInfinityOnlyWithItself) {
  EXPECT_THAT(std::vector<double>{kNan}, Not(WithinRounding(std::vector<double>{0}, 1e300)));
  EXPECT_THAT(std::vector<double>{0}, Not(WithinRounding(std::vector<double>{kNan}, 1e300)));
  EXPECT_THAT(std::vector<double>{kNan}, Not(WithinRounding(std::vector<double>{kNan}, kInf)));
  EXPECT_THAT(std::vector<double>{0}, Not(WithinRounding(std::vector<double>{0.5}, kNan)));
  EXPECT_THAT(std::vector<double>{-kInf}, WithinRounding(std::vector<double>{-kInf}, 0.0));
  EXPECT_THAT(std::vector<double>{kInf}, Not(WithinRounding(std::vector<double>{-kInf}, kInf)));
  EXPECT_THAT(std::vector<double>{kInf}, Not(WithinRounding(std::vector<double>{1}, kInf)));
}

TEST(WithinRounding, NamesTheWorstElement) {
  const std::vector<double> got{1.1, 5, 3}, want{1, 2, 3}, bounds{0.01};
  const Mismatch worst = WorstMismatch(std::span(got), std::span(want), std::span(bounds));
  EXPECT_TRUE(worst.found);
  EXPECT_EQ(worst.index, 1u);
}

TEST(OfLargest, ScalesTheLargestMagnitude) { EXPECT_DOUBLE_EQ(OfLargest(std::vector<float>{1, -4, 2}, 1e-4), 4e-4); }

}  // namespace
}  // namespace lshformer::testing
