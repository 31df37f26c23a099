// Which pairs dropout drops: as many as asked for, independent of one another, the same again in the backward.
#include "kernels/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention_case.h"
#include "kernels/attention_specs.h"

namespace lshformer::testing {
namespace {

std::vector<std::vector<int>> Mask(uint64_t head_key, int count, float probability) {
  std::vector<std::vector<int>> mask(count, std::vector<int>(count));
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < count; ++j) {
      mask[i][j] = IsDropped(DropoutSide(head_key, i, 0), DropoutSide(head_key, j, 1), DropoutThreshold(probability));
    }
  }
  return mask;
}

TEST(DropoutMask, DropsTheShareAskedFor) {
  constexpr int kCount = 700;
  for (const float probability : {0.0f, 0.1f, 0.5f, 0.9f}) {
    int64_t dropped = 0;
    for (const auto& row : Mask(1234, kCount, probability)) {
      for (const int x : row) dropped += x;
    }
    const double pairs = double{kCount} * kCount;
    EXPECT_NEAR(static_cast<double>(dropped) / pairs, probability,
                4 * std::sqrt(probability * (1 - probability) / pairs) + 1e-9);
  }
}

// Sums over rows, columns and parities of 2 × 2 blocks have the variance of independent draws. The last would show a
// mask that is made of a row's and a column's number by xor or addition alone.
TEST(DropoutMask, PairsAreIndependent) {
  constexpr int kCount = 600;
  constexpr double kP = 0.5, kVariance = kP * (1 - kP);
  const auto mask = Mask(99, kCount, kP);
  double rows = 0, columns = 0;
  for (int i = 0; i < kCount; ++i) {
    double row = 0, column = 0;
    for (int j = 0; j < kCount; ++j) row += mask[i][j] - kP, column += mask[j][i] - kP;
    rows += row * row / (kCount * kVariance);
    columns += column * column / (kCount * kVariance);
  }
  const double spread = 4 * std::sqrt(2.0 / kCount);  // of a mean of kCount squared normals
  EXPECT_NEAR(rows / kCount, 1, spread);
  EXPECT_NEAR(columns / kCount, 1, spread);
  for (const int step : {1, 2, 64, 255}) {
    int64_t even = 0, blocks = 0;
    for (int i = 0; i + step < kCount; ++i) {
      for (int j = 0; j + step < kCount; ++j, ++blocks) {
        even += (mask[i][j] ^ mask[i + step][j] ^ mask[i][j + step] ^ mask[i + step][j + step]) == 0;
      }
    }
    EXPECT_NEAR(static_cast<double>(even) / blocks, 0.5, 4 * 0.5 * 2 / std::sqrt(blocks)) << "step " << step;
  }
}

TEST(DropoutMask, DiffersByKeySequenceAndHead) {
  const auto mask = Mask(DropoutHeadKey(1, 2, 3), 40, 0.5f);
  EXPECT_EQ(mask, Mask(DropoutHeadKey(1, 2, 3), 40, 0.5f));
  EXPECT_NE(mask, Mask(DropoutHeadKey(2, 2, 3), 40, 0.5f));
  EXPECT_NE(mask, Mask(DropoutHeadKey(1, 3, 3), 40, 0.5f));
  EXPECT_NE(mask, Mask(DropoutHeadKey(1, 2, 4), 40, 0.5f));
}

// The mean over many masks is the result without dropout.
TEST(DropoutMask, KeepsTheExpectation) {
  for (const AttentionSpec& spec : {AttentionSpec{}, SimHash(Pairs::kFull, Fill::kZero, 2)}) {
    AttentionCase c = RandomCase(spec, {12}, 1, 4, 31);
    const AttentionResult without = RunKernels(c, false);
    c.dropout = 0.25f;
    constexpr int kDraws = 20'000;
    std::vector<double> sum(c.query.size()), squares(c.query.size());
    for (int draw = 0; draw < kDraws; ++draw) {
      c.sequence_ids = {static_cast<uint64_t>(draw)};
      const AttentionResult result = RunKernels(c, false);
      EXPECT_EQ(result.lse, without.lse);  // dropout comes after normalisation
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] += result.out[i];
        squares[i] += static_cast<double>(result.out[i]) * result.out[i];
      }
    }
    for (size_t i = 0; i < sum.size(); ++i) {
      const double mean = sum[i] / kDraws, error = std::sqrt(std::max(0.0, squares[i] / kDraws - mean * mean) / kDraws);
      EXPECT_NEAR(mean, without.out[i], 5 * error + 1e-6) << i;
    }
  }
}

}  // namespace
}  // namespace lshformer::testing
