// The products of training, of float32 in AMX tiles: what they err by against double, what goes through
// multiply-add, and what a result depends on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "base/philox.h"
#include "kernels/cpu/linear/split_linear.h"
#include "kernels/matmul_precision.h"
#include "util/amx_model.h"
#include "util/numbers.h"

namespace lshformer::testing {
namespace {

using SplitProductTest = InAmxModel;

enum class SplitKind { kForward, kInputGradient, kWeightGradient };

const char* NameOfKind(SplitKind kind) {
  switch (kind) {
    case SplitKind::kForward:
      return "forward";
    case SplitKind::kInputGradient:
      return "input_gradient";
    case SplitKind::kWeightGradient:
      break;
  }
  return "weight_gradient";
}

// A product as a linear map's training has it: y = x · Wᵀ + b, g · W, gᵀ · x.
struct SplitFactors {
  SplitFactors(SplitKind kind, int64_t rows, int64_t columns, int64_t inner, bool positive = false)
      : kind(kind), rows(rows), columns(columns), inner(inner), a(rows * inner), b(inner * columns), bias(columns) {
    PhiloxStream stream(static_cast<uint64_t>(inner));
    for (std::vector<float>* numbers : {&a, &b, &bias}) {
      for (float& number : *numbers) {
        number = static_cast<float>(stream.Normal());
        if (positive) number = std::abs(number);
      }
    }
  }
  MatrixView A() const { return of_tokens() ? MatrixView{a.data(), 1, rows} : MatrixView{a.data(), inner, 1}; }
  MatrixView B() const {
    return kind == SplitKind::kForward ? MatrixView{b.data(), 1, inner} : MatrixView{b.data(), columns, 1};
  }
  bool of_tokens() const { return kind == SplitKind::kWeightGradient; }
  std::vector<float> Run(void (*multiply)(const MatrixProduct&), bool accumulate = false) const {
    std::vector<float> c(rows * columns, 0.5f);
    multiply({.rows = rows,
              .columns = columns,
              .inner = inner,
              .a = A(),
              .b = B(),
              .bias = kind == SplitKind::kForward && !accumulate ? bias.data() : nullptr,
              .c = c.data(),
              .c_stride = columns,
              .accumulate = accumulate,
              .inner_is_tokens = of_tokens()});
    return c;
  }
  std::vector<float> Split(MatmulPrecision precision, bool accumulate = false) const {
    SetMatmulPrecision(precision);
    return Run(MultiplyInParts, accumulate);
  }
  std::vector<float> MultiplyAdd(bool accumulate = false) const { return Run(Multiply, accumulate); }

  SplitKind kind;
  int64_t rows, columns, inner;
  std::vector<float> a, b, bias;
};

// Largest errors, in units of the exact results' standard deviation about 0.
struct ExactSums {
  explicit ExactSums(const SplitFactors& f) : sums(f.rows * f.columns) {
    const MatrixView a = f.A(), b = f.B();
    for (int64_t i = 0; i < f.rows; ++i) {
      double* row = sums.data() + i * f.columns;
      for (int64_t j = 0; j < f.columns; ++j) row[j] = f.kind == SplitKind::kForward ? f.bias[j] : 0;
      for (int64_t k = 0; k < f.inner; ++k) {
        const double factor = a.data[i * a.row_stride + k * a.column_stride];
        for (int64_t j = 0; j < f.columns; ++j) row[j] += factor * b.data[k * b.row_stride + j * b.column_stride];
      }
    }
  }
  double ErrorOf(const std::vector<float>& c) const {
    double largest = 0, squares = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      largest = std::max(largest, std::abs(c[i] - sums[i]));
      squares += sums[i] * sums[i];
    }
    return largest / std::sqrt(squares / static_cast<double>(sums.size()));
  }
  std::vector<double> sums;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class SplitProductKindTest : public SplitProductTest, public ::testing::WithParamInterface<SplitKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, SplitProductKindTest,
                         ::testing::Values(SplitKind::kForward, SplitKind::kInputGradient, SplitKind::kWeightGradient),
                         [](const auto& info) { return NameOfKind(info.param); });

TEST_P(SplitProductKindTest, ErrorsAgainstDouble) {
  const int64_t rows = GetParam() == SplitKind::kWeightGradient ? 160 : 40;
  for (const bool positive : {false, true}) {
    for (const int64_t inner : {64, 768, 1500, 4096}) {
      SCOPED_TRACE(::testing::Message() << inner << " terms" << (positive ? ", positive" : ""));
      const SplitFactors factors(GetParam(), rows, 130, inner, positive);
      const ExactSums exact(factors);
      const std::vector<float> fused = factors.MultiplyAdd(), high = factors.Split(MatmulPrecision::kHigh);
      const double three = exact.ErrorOf(high), one = exact.ErrorOf(factors.Split(MatmulPrecision::kMedium));
      EXPECT_FALSE(SameBits(high, fused)) << "not in tiles";
      EXPECT_LE(three, 2.5e-5);
      EXPECT_LE(one, 2e-2);
      EXPECT_GT(one, 10 * three);
      // For docs/numerics.md: --gtest_output=xml.
      RecordProperty(
          fmt::format("terms_{}{}", inner, positive ? "_positive" : ""),
          fmt::format("largest error: fused {:.2e}, three {:.2e}, one {:.2e}", exact.ErrorOf(fused), three, one));
    }
  }
}

TEST_P(SplitProductKindTest, HighestIsMultiplyAdd) {
  for (const bool accumulate : {false, true}) {
    const SplitFactors factors(GetParam(), 320, 320, 1100);
    EXPECT_TRUE(SameBits(factors.Split(MatmulPrecision::kHighest, accumulate), factors.MultiplyAdd(accumulate)));
  }
}

TEST_P(SplitProductKindTest, AddsToWhatIsThere) {
  const SplitFactors factors(GetParam(), 130, 131, 140);
  const std::vector<float> added = factors.Split(MatmulPrecision::kHigh, /*accumulate=*/true),
                           fused = factors.MultiplyAdd(/*accumulate=*/true);
  EXPECT_FALSE(SameBits(added, fused)) << "not in tiles";
  for (size_t i = 0; i < added.size(); ++i) ASSERT_NEAR(added[i], fused[i], 1e-3);
}

TEST_P(SplitProductKindTest, SameOnAnyNumberOfThreads) {
  const SplitFactors factors(GetParam(), 300, 200, 1100);
  for (const MatmulPrecision precision : {MatmulPrecision::kHigh, MatmulPrecision::kMedium}) {
    SetThreads(1);
    const std::vector<float> alone = factors.Split(precision);
    EXPECT_FALSE(SameBits(alone, factors.MultiplyAdd())) << "not in tiles";
    SetThreads(3);
    EXPECT_TRUE(SameBits(factors.Split(precision), alone)) << Name(precision);
  }
}

// Numbers without parts in the second factor: all is multiply-add. Those of a weight's gradient: its tokens are.
TEST_P(SplitProductKindTest, SecondFactorWithoutParts) {
  for (const float number : {kInfiniteNumber, 0x1p127f}) {
    for (const bool accumulate : {false, true}) {
      SplitFactors factors(GetParam(), 260, 258, 300);
      factors.b[1234] = number;
      SetThreads(2);
      const std::vector<float> got = factors.Split(MatmulPrecision::kHigh, accumulate),
                               fused = factors.MultiplyAdd(accumulate);
      EXPECT_TRUE(SameBits(got, fused)) << number;
    }
  }
  SplitFactors small(GetParam(), 260, 258, 300);
  small.b[1234] = 1e-35f;
  EXPECT_FALSE(SameBits(small.Split(MatmulPrecision::kHigh), small.MultiplyAdd())) << "parts may be of small numbers";
}

// Rows without parts are what multiply-add gives, bit for bit; the others are as without them.
TEST_F(SplitProductTest, RowsWithoutPartsGoThroughMultiplyAdd) {
  for (const MatmulPrecision precision : {MatmulPrecision::kHigh, MatmulPrecision::kMedium})
    for (const SplitKind kind : {SplitKind::kForward, SplitKind::kInputGradient})
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(::testing::Message() << Name(precision) << (accumulate ? ", added" : ""));
        SplitFactors factors(kind, 1060, 140, 150);  // two pieces
        const std::vector<float> before = factors.Split(precision, accumulate);
        const std::pair<int64_t, float> odd[] = {
            {0, 1e-35f},       {7, -kInfiniteNumber}, {8, kInfiniteNumber},   {9, 2e38f},
            {1023, -0x1p127f}, {1024, 2e38f},         {1059, kInfiniteNumber}};
        for (const auto& [row, number] : odd) factors.a[row * factors.inner + row % 13] = number;
        const std::vector<float> fused = factors.MultiplyAdd(accumulate), got = factors.Split(precision, accumulate);
        for (int64_t row = 0; row < factors.rows; ++row) {
          const auto* found =
              std::find_if(std::begin(odd), std::end(odd), [&](const auto& o) { return o.first == row; });
          const bool small = row == 0;  // has parts
          const std::vector<float>& want = found != std::end(odd) && !small ? fused : before;
          for (int64_t i = row * factors.columns; i < (row + 1) * factors.columns; ++i) {
            if (small) {
              ASSERT_NE(got[i], 0);
            } else {
              ASSERT_EQ(got[i], want[i]) << "row " << row;
            }
          }
        }
      }
}

// Of 1,500 tokens the first 1,024 go through multiply-add, the others do not.
TEST_F(SplitProductTest, TokensWithoutPartsGoThroughMultiplyAdd) {
  SplitFactors factors(SplitKind::kWeightGradient, 130, 131, 1500);
  factors.a[777 * factors.rows + 3] = 0x1p127f;
  const std::vector<float> all = factors.Split(MatmulPrecision::kHigh);
  SplitFactors last(SplitKind::kWeightGradient, 130, 131, 476);
  last.a.assign(factors.a.begin() + 1024 * factors.rows, factors.a.end());
  last.b.assign(factors.b.begin() + 1024 * factors.columns, factors.b.end());
  SplitFactors first = factors;
  first.inner = 1024;
  std::vector<float> want = first.MultiplyAdd();
  const std::vector<float> rest = last.Split(MatmulPrecision::kHigh);
  for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(all[i], want[i] + rest[i]) << i;
}

TEST_F(SplitProductTest, NoTokensAndNoRows) {
  const SplitFactors nothing(SplitKind::kWeightGradient, 130, 131, 0), no_rows(SplitKind::kForward, 0, 131, 130);
  EXPECT_THAT(nothing.Split(MatmulPrecision::kHigh), ::testing::Each(0.0f));
  EXPECT_TRUE(no_rows.Split(MatmulPrecision::kHigh).empty());
}

}  // namespace
}  // namespace lshformer::testing
