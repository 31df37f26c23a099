// Sums over rows, dropout and layer normalisation against double, values and gradients.
#include "kernels/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/ref/rows.h"
#include "util/every_isa.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {
namespace {

// Of 5 tokens a sequence.
struct RowNames {
  explicit RowNames(int64_t rows) {
    for (int64_t i = 0; i < rows; ++i) {
      sequence_ids.push_back(uint64_t{7} << 33 | static_cast<uint64_t>(i / 5));
      positions.push_back(static_cast<int32_t>(i % 5));
    }
  }
  RowDropout Dropout(float probability, uint64_t key = 3) const { return {probability, key, sequence_ids, positions}; }
  std::vector<uint64_t> sequence_ids;
  std::vector<int32_t> positions;
};

std::vector<float> FactorsOf(const RowDropout& dropout, int64_t rows, int64_t columns) {
  const std::vector<float> ones(static_cast<size_t>(rows * columns), 1.0f);
  std::vector<float> factors(ones.size());
  ApplyDropout(dropout, ones.data(), rows, columns, factors.data());
  return factors;
}

class RowsTest : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, RowsTest, AllIsas(), NameOfIsa);

// Around the lanes of a vector and the 64 rows of a partial sum. A sum of n numbers is off by n roundings of Σ|x|.
TEST_P(RowsTest, SumsOfRows) {
  for (const int64_t columns : {1, 7, 16, 33})
    for (const int64_t rows : {0, 1, 64, 65, 200}) {
      const int64_t stride = columns + 5;
      const std::vector<float> x = Random(rows * stride, 1);
      std::vector<float> sums(static_cast<size_t>(columns), NAN), sizes(x);
      for (float& size : sizes) size = std::abs(size);
      SumRows(x.data(), stride, rows, columns, sums.data());
      std::vector<double> bounds = ref::SumRows(sizes, stride, rows, columns);
      for (double& bound : bounds) bound *= static_cast<double>(std::min<int64_t>(rows, 64) + rows / 64) * kFloatEps;
      EXPECT_THAT(sums, WithinRounding(ref::SumRows(x, stride, rows, columns), bounds)) << rows << " x " << columns;
    }
}

// The same bits of Philox whatever the vectors: around the 64 features of a group.
TEST_P(RowsTest, DropoutIsThatOfTheOracle) {
  const RowNames names(23);
  for (const float probability : {0.1f, 0.5f})
    for (const int64_t columns : {1, 16, 63, 64, 65, 200}) {
      const RowDropout dropout = names.Dropout(probability);
      const std::vector<double> want = ref::DropoutFactors(dropout, 23, columns);
      EXPECT_THAT(FactorsOf(dropout, 23, columns), WithinRounding(want, OfLargest(want, 2 * kFloatEps)));
    }
}

// One call's arguments and results, forward and backward.
struct NormCase {
  NormCase(int64_t rows, int64_t columns, bool with_residual, float probability)
      : rows(rows),
        columns(columns),
        names(rows),
        dropout(names.Dropout(probability)),
        x(Random(rows * columns, 1)),
        residual(Random(with_residual ? rows * columns : 0, 2)),
        gamma(Random(columns, 3)),
        beta(Random(columns, 4)),
        grad_y(Random(rows * columns, 5)) {}
  DropoutAddNorm Call() {
    sum.resize(x.size()), y.resize(x.size());
    mean.resize(static_cast<size_t>(rows)), inverse_deviation.resize(mean.size());
    return {.rows = rows,
            .columns = columns,
            .x = x.data(),
            .residual = residual.empty() ? nullptr : residual.data(),
            .gamma = gamma.data(),
            .beta = beta.data(),
            .eps = 1e-3f,
            .dropout = dropout,
            .sum = sum.data(),
            .y = y.data(),
            .mean = mean.data(),
            .inverse_deviation = inverse_deviation.data()};
  }
  void Run() {
    RunDropoutAddNorm(Call());
    grad_x.resize(x.size()), grad_residual.resize(residual.size());
    grad_gamma.resize(gamma.size()), grad_beta.resize(beta.size());
    RunDropoutAddNormGradient({.forward = Call(),
                               .grad_y = grad_y.data(),
                               .grad_x = grad_x.data(),
                               .grad_residual = residual.empty() ? nullptr : grad_residual.data(),
                               .grad_gamma = grad_gamma.data(),
                               .grad_beta = grad_beta.data()});
  }
  int64_t rows, columns;
  RowNames names;
  RowDropout dropout;
  std::vector<float> x, residual, gamma, beta, grad_y;
  std::vector<float> sum, y, mean, inverse_deviation, grad_x, grad_residual, grad_gamma, grad_beta;
};

// Bounds: the sum of a row is rounded twice, its mean and deviation are sums over the row; all of that is divided by
// the deviation, which eps keeps from 0.
void ExpectIsNorm(NormCase& c) {
  const std::vector<double> x = Wide(c.x), residual = Wide(c.residual), gamma = Wide(c.gamma), beta = Wide(c.beta),
                            factors = ref::DropoutFactors(c.dropout, c.rows, c.columns);
  const ref::NormInputs in{c.rows, c.columns, x, residual, gamma, beta, 1e-3f, factors};
  const std::vector<double> y = ref::DropoutAddNorm(in);
  const ref::NormGradients grads = ref::DropoutAddNormGradient(in, Wide(c.grad_y));
  const double rounding = static_cast<double>(c.columns + 8) * kFloatEps * 8,
               of_sums = rounding * std::sqrt(static_cast<double>(c.rows + 1));
  c.Run();
  EXPECT_THAT(c.y, WithinRounding(y, OfLargest(y, rounding)));
  EXPECT_THAT(c.grad_x, WithinRounding(grads.x, OfLargest(grads.x, rounding)));
  if (!c.residual.empty()) {
    EXPECT_THAT(c.grad_residual, WithinRounding(grads.residual, OfLargest(grads.residual, rounding)));
  }
  EXPECT_THAT(c.grad_gamma, WithinRounding(grads.gamma, OfLargest(grads.gamma, of_sums)));
  EXPECT_THAT(c.grad_beta, WithinRounding(grads.beta, OfLargest(grads.beta, of_sums)));
}

TEST_P(RowsTest, LayerNorm) {
  for (const int64_t columns : {3, 16, 17, 64, 65})
    for (const int64_t rows : {0, 1, 64, 70})
      for (const bool with_residual : {false, true})
        for (const float probability : {0.0f, 0.3f}) {
          SCOPED_TRACE(::testing::Message() << rows << " x " << columns << ", dropout " << probability);
          NormCase c(rows, columns, with_residual, probability);
          ExpectIsNorm(c);
          // In place, and nothing kept: as inference calls it.
          std::vector<float> in_place = c.x;
          DropoutAddNorm call = c.Call();
          call.x = in_place.data(), call.sum = in_place.data(), call.y = in_place.data();
          call.mean = call.inverse_deviation = nullptr;
          RunDropoutAddNorm(call);
          EXPECT_EQ(in_place, c.y);
        }
}

TEST(RowsOracle, LayerNormHasTheGradientOfFiniteDifferences) {
  constexpr int64_t kRows = 3, kColumns = 5;
  const std::vector<double> x = Wide(Random(15, 1)), residual = Wide(Random(15, 2)), gamma = Wide(Random(5, 3)),
                            beta = Wide(Random(5, 4)), grad_y = Wide(Random(15, 5));
  const std::vector<double> factors{2, 0, 2, 2, 0, 2, 2, 0, 0, 2, 2, 2, 2, 2, 0};
  const ref::NormInputs in{kRows, kColumns, x, residual, gamma, beta, 1e-3, factors};
  const ref::NormGradients grads = ref::DropoutAddNormGradient(in, grad_y);
  const auto check = [&](std::span<const double> ref::NormInputs::*input, const std::vector<double>& gradient,
                         const char* what) {
    const auto value = [&](const std::vector<double>& moved) {
      ref::NormInputs at = in;
      at.*input = moved;
      const std::vector<double> y = ref::DropoutAddNorm(at);
      double sum = 0;
      for (size_t i = 0; i < y.size(); ++i) sum += y[i] * grad_y[i];
      return sum;
    };
    ExpectGradient(value, {(in.*input).begin(), (in.*input).end()}, gradient, what);
  };
  check(&ref::NormInputs::x, grads.x, "x");
  check(&ref::NormInputs::residual, grads.residual, "residual");
  check(&ref::NormInputs::gamma, grads.gamma, "gamma");
  check(&ref::NormInputs::beta, grads.beta, "beta");
}

TEST(DropoutOfRows, KeepsTheExpectationAndDropsTheShare) {
  constexpr int64_t kRows = 500, kColumns = 200;
  const RowNames names(kRows);
  const std::vector<float> factors = FactorsOf(names.Dropout(0.1f), kRows, kColumns);
  const double dropped = static_cast<double>(std::count(factors.begin(), factors.end(), 0.0f)) / (kRows * kColumns);
  EXPECT_NEAR(dropped, 0.1, 5 * std::sqrt(0.09 / (kRows * kColumns)));
  for (const float factor : factors) ASSERT_TRUE(factor == 0 || std::abs(factor - 1 / 0.9) < 1e-6);
}

// A row's mask follows from who it is, not from where it stands; another key gives another mask.
TEST(DropoutOfRows, MaskIsAFunctionOfIdentity) {
  constexpr int64_t kRows = 40, kColumns = 70;
  RowNames names(kRows), reversed(names);
  std::reverse(reversed.sequence_ids.begin(), reversed.sequence_ids.end());
  std::reverse(reversed.positions.begin(), reversed.positions.end());
  const std::vector<float> factors = FactorsOf(names.Dropout(0.5f), kRows, kColumns),
                           backwards = FactorsOf(reversed.Dropout(0.5f), kRows, kColumns);
  const auto row = [&](const std::vector<float>& all, int64_t i) {
    return std::vector<float>(all.begin() + i * kColumns, all.begin() + (i + 1) * kColumns);
  };
  for (int64_t i = 0; i < kRows; ++i) EXPECT_EQ(row(factors, i), row(backwards, kRows - 1 - i));
  EXPECT_NE(FactorsOf(names.Dropout(0.5f, 4), kRows, kColumns), factors);
  EXPECT_NE(row(factors, 0), row(factors, 1));
  EXPECT_NE(row(factors, 0), row(factors, 5));  // same position, next sequence
  EXPECT_EQ(FactorsOf(names.Dropout(0), kRows, kColumns), std::vector<float>(kRows * kColumns, 1.0f));
}

// Nothing depends on the number of threads, bit for bit: not values, not sums over rows.
TEST(RowsThreads, ChangeNothing) {
  const auto run = [&](int threads) {
    SetThreads(threads);
    NormCase c(333, 70, /*with_residual=*/true, 0.2f);
    c.Run();
    SetThreads(HardwareThreads());
    return std::vector{c.y, c.grad_x, c.grad_residual, c.grad_gamma, c.grad_beta};
  };
  const auto alone = run(1);
  EXPECT_EQ(run(2), alone);
  EXPECT_EQ(run(5), alone);
}

}  // namespace
}  // namespace lshformer::testing
