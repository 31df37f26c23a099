#include "convert/quality.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lshformer {
namespace {

using torch::Tensor;

TEST(CompareStates, MeanAndWorstOfTheRows) {
  const Tensor a = torch::tensor({{1., 0.}, {0., 2.}, {3., 3.}}, torch::kFloat64);
  const Tensor b = torch::tensor({{5., 0.}, {1., 0.}, {0., 1.}}, torch::kFloat64);
  const Cosines cosines = Compare(a, b);
  EXPECT_NEAR(cosines.mean, (1 + 0 + std::sqrt(0.5)) / 3, 1e-15);
  EXPECT_NEAR(cosines.worst, 0, 1e-15);
  const Cosines same = Compare(a, a);
  EXPECT_LE(same.mean, 1);
  EXPECT_NEAR(same.worst, 1, 1e-15);
}

// The standard error of the mean; of one text there is none.
TEST(CompareStates, SpreadOverTheTexts) {
  const Tensor a = torch::tensor({{1., 0.}, {1., 0.}, {1., 0.}, {1., 0.}}, torch::kFloat64);
  const Tensor b = torch::tensor({{1., 0.}, {0., 1.}, {1., 0.}, {0., 1.}}, torch::kFloat64);
  EXPECT_NEAR(Compare(a, b).spread, std::sqrt(4 * 0.25 / 3) / 2, 1e-15);
  EXPECT_EQ(Compare(a, a).spread, 0);
  EXPECT_TRUE(std::isnan(Compare(a.slice(0, 0, 1), b.slice(0, 0, 1)).spread));
}

// A model that breaks must not look like one that keeps everything.
TEST(CompareStates, NotANumberStays) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor a = torch::tensor({{1., 0.}, {0., 2.}}, torch::kFloat64);
  const Cosines cosines = Compare(a, torch::tensor({{1., 0.}, {nan, 2.}}, torch::kFloat64));
  EXPECT_TRUE(std::isnan(cosines.mean));
  EXPECT_TRUE(std::isnan(cosines.worst));
}

// Of a text whose states are all zero.
TEST(CompareStates, ZeroIsLikeNothing) {
  const Tensor a = torch::tensor({{0., 0.}, {1., 0.}}, torch::kFloat64);
  EXPECT_EQ(Compare(a, a).worst, 0);
  EXPECT_EQ(Compare(a, a).mean, 0.5);
}

}  // namespace
}  // namespace lshformer
