// The products of training, of float32 in AMX tiles: what they err by against double, what goes through
// multiply-add, and what a result depends on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/parallel.h"
#include "base/philox.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/matmul_precision.h"
#include "kernels/split_linear.h"
#include "ops/amx_model.h"
#include "ops/cross_entropy.h"
#include "ops/linear.h"
#include "ops/threads.h"

namespace lshformer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

using SplitProductTest = testing::InAmxModel;

enum class Kind { kForward, kInputGradient, kWeightGradient };

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kForward:
      return "forward";
    case Kind::kInputGradient:
      return "input_gradient";
    case Kind::kWeightGradient:
      break;
  }
  return "weight_gradient";
}

// A product as a linear map's training has it: y = x · Wᵀ + b, g · W, gᵀ · x.
struct Factors {
  Factors(Kind kind, int64_t rows, int64_t columns, int64_t inner, bool positive = false)
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
    return kind == Kind::kForward ? MatrixView{b.data(), 1, inner} : MatrixView{b.data(), columns, 1};
  }
  bool of_tokens() const { return kind == Kind::kWeightGradient; }
  std::vector<float> Run(void (*multiply)(const MatrixProduct&), bool accumulate = false) const {
    std::vector<float> c(rows * columns, 0.5f);
    multiply({.rows = rows,
              .columns = columns,
              .inner = inner,
              .a = A(),
              .b = B(),
              .bias = kind == Kind::kForward && !accumulate ? bias.data() : nullptr,
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

  Kind kind;
  int64_t rows, columns, inner;
  std::vector<float> a, b, bias;
};

// Largest errors, in units of the exact results' standard deviation about 0.
struct Exact {
  explicit Exact(const Factors& f) : sums(f.rows * f.columns) {
    const MatrixView a = f.A(), b = f.B();
    for (int64_t i = 0; i < f.rows; ++i) {
      double* row = sums.data() + i * f.columns;
      for (int64_t j = 0; j < f.columns; ++j) row[j] = f.kind == Kind::kForward ? f.bias[j] : 0;
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

bool Same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class SplitProductKindTest : public SplitProductTest, public ::testing::WithParamInterface<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, SplitProductKindTest,
                         ::testing::Values(Kind::kForward, Kind::kInputGradient, Kind::kWeightGradient),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(SplitProductKindTest, ErrorsAgainstDouble) {
  const int64_t rows = GetParam() == Kind::kWeightGradient ? 160 : 40;
  for (const bool positive : {false, true}) {
    for (const int64_t inner : {64, 768, 1500, 4096}) {
      SCOPED_TRACE(::testing::Message() << inner << " terms" << (positive ? ", positive" : ""));
      const Factors factors(GetParam(), rows, 130, inner, positive);
      const Exact exact(factors);
      const std::vector<float> fused = factors.MultiplyAdd(), high = factors.Split(MatmulPrecision::kHigh);
      const double three = exact.ErrorOf(high), one = exact.ErrorOf(factors.Split(MatmulPrecision::kMedium));
      EXPECT_FALSE(Same(high, fused)) << "not in tiles";
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
    const Factors factors(GetParam(), 320, 320, 1100);
    EXPECT_TRUE(Same(factors.Split(MatmulPrecision::kHighest, accumulate), factors.MultiplyAdd(accumulate)));
  }
}

TEST_P(SplitProductKindTest, AddsToWhatIsThere) {
  const Factors factors(GetParam(), 130, 131, 140);
  const std::vector<float> added = factors.Split(MatmulPrecision::kHigh, /*accumulate=*/true),
                           fused = factors.MultiplyAdd(/*accumulate=*/true);
  EXPECT_FALSE(Same(added, fused)) << "not in tiles";
  for (size_t i = 0; i < added.size(); ++i) ASSERT_NEAR(added[i], fused[i], 1e-3);
}

TEST_P(SplitProductKindTest, SameOnAnyNumberOfThreads) {
  const Factors factors(GetParam(), 300, 200, 1100);
  for (const MatmulPrecision precision : {MatmulPrecision::kHigh, MatmulPrecision::kMedium}) {
    SetAllThreads(1);
    const std::vector<float> alone = factors.Split(precision);
    EXPECT_FALSE(Same(alone, factors.MultiplyAdd())) << "not in tiles";
    SetAllThreads(3);
    EXPECT_TRUE(Same(factors.Split(precision), alone)) << Name(precision);
  }
}

// Numbers without parts in the second factor: all is multiply-add. Those of a weight's gradient: its tokens are.
TEST_P(SplitProductKindTest, SecondFactorWithoutParts) {
  for (const float number : {kInfinity, 0x1p127f}) {
    for (const bool accumulate : {false, true}) {
      Factors factors(GetParam(), 260, 258, 300);
      factors.b[1234] = number;
      SetAllThreads(2);
      const std::vector<float> got = factors.Split(MatmulPrecision::kHigh, accumulate),
                               fused = factors.MultiplyAdd(accumulate);
      EXPECT_TRUE(Same(got, fused)) << number;
    }
  }
  Factors small(GetParam(), 260, 258, 300);
  small.b[1234] = 1e-35f;
  EXPECT_FALSE(Same(small.Split(MatmulPrecision::kHigh), small.MultiplyAdd())) << "parts may be of small numbers";
}

// Rows without parts are what multiply-add gives, bit for bit; the others are as without them.
TEST_F(SplitProductTest, RowsWithoutPartsGoThroughMultiplyAdd) {
  for (const MatmulPrecision precision : {MatmulPrecision::kHigh, MatmulPrecision::kMedium})
    for (const Kind kind : {Kind::kForward, Kind::kInputGradient})
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(::testing::Message() << Name(precision) << (accumulate ? ", added" : ""));
        Factors factors(kind, 1060, 140, 150);  // two pieces
        const std::vector<float> before = factors.Split(precision, accumulate);
        const std::pair<int64_t, float> odd[] = {{0, 1e-35f},       {7, -kInfinity}, {8, kInfinity},   {9, 2e38f},
                                                 {1023, -0x1p127f}, {1024, 2e38f},   {1059, kInfinity}};
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
  Factors factors(Kind::kWeightGradient, 130, 131, 1500);
  factors.a[777 * factors.rows + 3] = 0x1p127f;
  const std::vector<float> all = factors.Split(MatmulPrecision::kHigh);
  Factors last(Kind::kWeightGradient, 130, 131, 476);
  last.a.assign(factors.a.begin() + 1024 * factors.rows, factors.a.end());
  last.b.assign(factors.b.begin() + 1024 * factors.columns, factors.b.end());
  Factors first = factors;
  first.inner = 1024;
  std::vector<float> want = first.MultiplyAdd();
  const std::vector<float> rest = last.Split(MatmulPrecision::kHigh);
  for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(all[i], want[i] + rest[i]) << i;
}

TEST_F(SplitProductTest, NoTokensAndNoRows) {
  const Factors nothing(Kind::kWeightGradient, 130, 131, 0), no_rows(Kind::kForward, 0, 131, 130);
  EXPECT_THAT(nothing.Split(MatmulPrecision::kHigh), ::testing::Each(0.0f));
  EXPECT_TRUE(no_rows.Split(MatmulPrecision::kHigh).empty());
}

// A linear map's result and gradients: near those of multiply-add, the same on any number of threads, of a row alone,
// and without tiles those of multiply-add.
TEST_F(SplitProductTest, LinearInTraining) {
  torch::manual_seed(4);
  const torch::Tensor x = torch::randn({150, 160}), w = torch::randn({192, 160}), b = torch::randn({192}),
                      g = torch::randn({150, 192});
  const auto run = [&](MatmulPrecision precision, int64_t rows = 150) {
    SetMatmulPrecision(precision);
    const std::vector<torch::Tensor> leaves{x.slice(0, 0, rows).clone().requires_grad_(true),
                                            w.clone().requires_grad_(true), b.clone().requires_grad_(true)};
    const torch::Tensor y = Linear({leaves[1]}, {leaves[2]})(leaves[0]);
    y.backward(g.slice(0, 0, rows));
    return std::vector<torch::Tensor>{y.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  };
  UseAmxModel(false);
  const std::vector<torch::Tensor> fused = run(MatmulPrecision::kHighest), high_without = run(MatmulPrecision::kHigh);
  UseAmxModel(true);
  SetAllThreads(1);
  const std::vector<torch::Tensor> high = run(MatmulPrecision::kHigh), medium = run(MatmulPrecision::kMedium);
  SetAllThreads(3);
  const std::vector<torch::Tensor> again = run(MatmulPrecision::kHigh), part = run(MatmulPrecision::kHigh, 77);
  const auto error = [](const torch::Tensor& got, const torch::Tensor& want) {
    return ((got - want).abs().max() / want.std()).item<double>();
  };
  for (size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(torch::equal(high_without[i], fused[i]));
    EXPECT_LT(error(high[i], fused[i]), 2.5e-5);
    EXPECT_GT(error(high[i], fused[i]), 4e-6) << "not in tiles";
    EXPECT_LT(error(medium[i], fused[i]), 2e-2);
    EXPECT_GT(error(medium[i], fused[i]), 1e-3) << "not in tiles";
    EXPECT_TRUE(torch::equal(again[i], high[i]));
    if (i < 2) {
      EXPECT_TRUE(torch::equal(part[i], high[i].slice(0, 0, 77)));
    }
  }
  EXPECT_TRUE(torch::equal(medium[3], fused[3])) << "the bias' gradient is a sum of float32";
  // What is asked gets the bits of what is trained.
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::equal(Linear({w}, {b})(x), high[0]));
}

TEST_F(SplitProductTest, CrossEntropyInTraining) {
  torch::manual_seed(5);
  const torch::Tensor hidden = torch::randn({kCrossEntropyRows + 40, 128}), weight = torch::randn({300, 128}) * 0.2;
  const auto run = [&](MatmulPrecision precision) {
    SetMatmulPrecision(precision);
    const torch::Tensor h = hidden.clone().requires_grad_(true), w = weight.clone().requires_grad_(true);
    const torch::Tensor loss =
        DecoderCrossEntropy(h, w, torch::zeros({300}), std::vector<int32_t>(kCrossEntropyRows + 40, 5));
    loss.backward();
    return std::vector<torch::Tensor>{loss.detach(), h.grad(), w.grad()};
  };
  UseAmxModel(false);
  const std::vector<torch::Tensor> fused = run(MatmulPrecision::kHigh);
  UseAmxModel(true);
  SetAllThreads(1);
  const std::vector<torch::Tensor> alone = run(MatmulPrecision::kHigh);
  SetAllThreads(3);
  const std::vector<torch::Tensor> three = run(MatmulPrecision::kHigh);
  EXPECT_NEAR(alone[0].item<double>(), fused[0].item<double>(), 1e-5 * fused[0].item<double>());
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_FALSE(torch::equal(alone[i], fused[i])) << "not in tiles";
    EXPECT_LT(((alone[i] - fused[i]).abs().max() / fused[i].abs().max()).item<double>(), 5e-5);
    EXPECT_TRUE(torch::equal(three[i], alone[i]));
  }
}

}  // namespace
}  // namespace lshformer
