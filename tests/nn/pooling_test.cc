#include "nn/pooling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace lshformer {
namespace {

using torch::Tensor;

constexpr int64_t kWidth = 5;
const std::vector<int32_t> kBorders{0, 1, 1, 18, 21};  // one row, none, more than are added up at once, three

Tensor States() {
  torch::manual_seed(3);
  return torch::randn({21, kWidth});
}

// The plain loop, in double.
std::vector<double> Expected(const Tensor& states, int32_t begin, int32_t end, Pooling pooling) {
  std::vector<double> vector(kWidth, 0.0);
  for (int64_t column = 0; column < kWidth; ++column) {
    for (int32_t row = begin; row < (pooling == Pooling::kCls ? std::min(begin + 1, end) : end); ++row)
      vector[static_cast<size_t>(column)] += static_cast<double>(states[row][column].item<float>());
    if (pooling == Pooling::kMean && end > begin) vector[static_cast<size_t>(column)] /= end - begin;
  }
  return vector;
}

std::span<const float> RowsOfText(const Tensor& states, int32_t begin, int32_t end) {
  return {states.data_ptr<float>() + begin * kWidth, static_cast<size_t>((end - begin) * kWidth)};
}

TEST(Pooling, IsThePlainLoop) {
  const Tensor states = States();
  for (const Pooling pooling : {Pooling::kCls, Pooling::kMean}) {
    const Tensor pooled = Pool(states, kBorders, pooling);
    ASSERT_EQ(pooled.sizes(), (std::vector<int64_t>{4, kWidth}));
    ASSERT_EQ(pooled.scalar_type(), torch::kFloat64);
    for (size_t b = 0; b + 1 < kBorders.size(); ++b) {
      const std::vector<double> want = Expected(states, kBorders[b], kBorders[b + 1], pooling);
      const std::vector<float> rows =
          PoolRows(RowsOfText(states, kBorders[b], kBorders[b + 1]), kWidth, pooling, /*normalize=*/false);
      ASSERT_EQ(rows.size(), static_cast<size_t>(kWidth));
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_NEAR(pooled[static_cast<int64_t>(b)][static_cast<int64_t>(i)].item<double>(), want[i], 1e-15) << b;
        EXPECT_EQ(rows[i], static_cast<float>(want[i])) << b;
      }
    }
  }
  EXPECT_TRUE(Pool(states, kBorders, Pooling::kNone).equal(states.to(torch::kFloat64)));
  EXPECT_EQ(Pool(states, std::vector<int32_t>{0}, Pooling::kMean).sizes(), (std::vector<int64_t>{0, kWidth}));
}

TEST(Pooling, OfOneRowIsThatRowAndOfNoneZero) {
  const Tensor states = States();
  for (const Pooling pooling : {Pooling::kCls, Pooling::kMean}) {
    const Tensor pooled = Pool(states, kBorders, pooling);
    EXPECT_TRUE(pooled[0].equal(states[0].to(torch::kFloat64)));
    EXPECT_TRUE(pooled[1].equal(torch::zeros({kWidth}, torch::kFloat64)));
    EXPECT_EQ(PoolRows({}, kWidth, pooling, /*normalize=*/true), std::vector<float>(kWidth, 0.0F));
  }
  EXPECT_TRUE(PoolRows({}, kWidth, Pooling::kNone, /*normalize=*/true).empty());
}

// Bit for bit, whatever stands beside it.
TEST(Pooling, ASequenceIsItsOwn) {
  const Tensor states = States();
  for (const Pooling pooling : {Pooling::kCls, Pooling::kMean}) {
    const Tensor pooled = Pool(states, kBorders, pooling);
    const Tensor alone = Pool(states.slice(0, 1, 18), std::vector<int32_t>{0, 17}, pooling);
    EXPECT_TRUE(alone[0].equal(pooled[2]));
  }
}

TEST(Pooling, NormalizedVectorsHaveLengthOne) {
  const Tensor states = States();
  for (const Pooling pooling : {Pooling::kNone, Pooling::kCls, Pooling::kMean}) {
    const std::span<const float> rows = RowsOfText(states, 1, 18);
    const std::vector<float> plain = PoolRows(rows, kWidth, pooling, false),
                             unit = PoolRows(rows, kWidth, pooling, true);
    ASSERT_EQ(unit.size(), pooling == Pooling::kNone ? rows.size() : static_cast<size_t>(kWidth));
    for (size_t begin = 0; begin < unit.size(); begin += kWidth) {
      double square = 0, length = 0;
      for (size_t i = begin; i < begin + kWidth; ++i) length += static_cast<double>(plain[i]) * plain[i];
      for (size_t i = begin; i < begin + kWidth; ++i) {
        square += static_cast<double>(unit[i]) * unit[i];
        EXPECT_NEAR(unit[i], plain[i] / std::sqrt(length), 1e-7);
      }
      EXPECT_NEAR(square, 1, 1e-6);
    }
  }
  const std::vector<float> zeros(2 * kWidth, 0.0F);
  EXPECT_EQ(PoolRows(zeros, kWidth, Pooling::kNone, /*normalize=*/true), zeros);
}

TEST(Pooling, GradientsGoThrough) {
  const Tensor states = States().requires_grad_();
  Pool(states, kBorders, Pooling::kMean).sum().backward();
  EXPECT_NEAR(states.grad()[0][0].item<float>(), 1, 1e-7);
  EXPECT_NEAR(states.grad()[5][2].item<float>(), 1.0 / 17, 1e-7);
  EXPECT_NEAR(states.grad()[20][4].item<float>(), 1.0 / 3, 1e-7);
}

}  // namespace
}  // namespace lshformer
