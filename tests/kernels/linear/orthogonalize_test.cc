// Newton–Schulz against its formula in double, and against what it is for.
#include "kernels/orthogonalize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/ref/orthogonalize.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {
namespace {

struct MatrixShape {
  int64_t rows, columns;
};
// Wide, tall, square; a row, a column, one number; sizes around those that products are cut at.
const MatrixShape kMatrixShapes[] = {{1, 1},   {1, 17},   {17, 1},   {3, 5},    {16, 16},  {33, 20},
                                     {20, 33}, {128, 96}, {64, 300}, {300, 64}, {130, 130}};

// a⁵: what the smallest singular values, and roundings in their directions, are multiplied by.
const double kGain = std::pow(NewtonSchulz::kA, NewtonSchulz::kSteps);

double OneValue(double s) {
  for (int step = 0; step < NewtonSchulz::kSteps; ++step)
    s = NewtonSchulz::kA * s + NewtonSchulz::kB * s * s * s + NewtonSchulz::kC * s * s * s * s * s;
  return s;
}

TEST(Orthogonalize, IsItsFormula) {
  for (const auto& [rows, columns] : kMatrixShapes) {
    for (const double scale : {1e-20, 1.0, 1e15}) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << columns << " times " << scale);
      std::vector<float> matrix = Random(rows * columns, 5, scale);
      const std::vector<double> want = ref::Orthogonalize(rows, columns, Wide(matrix));
      Orthogonalize(rows, columns, matrix.data());
      EXPECT_THAT(matrix, WithinRounding(want, OfLargest(want, kGain * kFloatEps / 2)));
    }
  }
}

// Of a matrix with given singular values: U·diag(s)·Vᵀ becomes U·diag(p(s))·Vᵀ. U, V: rotations of pairs of axes.
TEST(Orthogonalize, TakesEachSingularValueByItself) {
  constexpr double kValues[] = {0.8, 0.5, 0.3, 0.1, 0.05, 0};
  constexpr int64_t kRows = 6, kColumns = 10;
  double squares = 0;
  for (const double s : kValues) squares += s * s;
  std::vector<float> matrix(kRows * kColumns);
  std::vector<double> want(matrix.size());
  const auto rotation = [](double angle, int64_t i, int64_t j) {  // of the axes 0 and 1, 2 and 3, …
    if (i / 2 != j / 2) return 0.0;
    if (i == j) return std::cos(angle);
    return i > j ? std::sin(angle) : -std::sin(angle);
  };
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      double element = 0, wanted = 0;
      for (int64_t k = 0; k < kRows; ++k) {
        const double axes = rotation(0.4, i, k) * rotation(1.1, j, k);
        element += kValues[k] * axes;
        wanted += OneValue(kValues[k] / std::sqrt(squares)) * axes;
      }
      matrix[i * kColumns + j] = static_cast<float>(element);
      want[i * kColumns + j] = wanted;
    }
  }
  Orthogonalize(kRows, kColumns, matrix.data());
  EXPECT_THAT(matrix, WithinRounding(want, 4 * kGain * kFloatEps + 1e-6));  // 10⁻⁷ is added to the norm
}

TEST(Orthogonalize, EndsNearOneWhereASingularValueIsNotTiny) {
  for (double s = 0.005; s <= 1; s += 0.0001) {
    EXPECT_GT(OneValue(s), 0.68) << s;
    EXPECT_LT(OneValue(s), 1.16) << s;
  }
}

// A matrix of one row is a multiple of a unit vector: by hand.
TEST(Orthogonalize, OfOneRowIsAUnitVectorTimesTheValueOfOne) {
  std::vector<float> row{3, -4};
  Orthogonalize(1, 2, row.data());
  EXPECT_NEAR(row[0], 0.6 * OneValue(1), 1e-6);
  EXPECT_NEAR(row[1], -0.8 * OneValue(1), 1e-6);
}

TEST(Orthogonalize, LeavesZerosAndNothing) {
  std::vector<float> zeros(12, 0.0f);
  Orthogonalize(3, 4, zeros.data());
  EXPECT_THAT(zeros, ::testing::Each(0.0f));
  Orthogonalize(0, 4, nullptr);
  Orthogonalize(4, 0, nullptr);
}

TEST(Orthogonalize, IsTheSameForAnyNumberOfThreads) {
  const int threads = Threads();
  for (const auto& [rows, columns] : {MatrixShape{128, 512}, {512, 128}, {200, 200}}) {
    const std::vector<float> matrix = Random(rows * columns, 6);
    std::vector<float> one;
    for (const int count : {1, 2, 3}) {
      SetThreads(count);
      std::vector<float> got = matrix;
      Orthogonalize(rows, columns, got.data());
      if (count == 1) one = got;
      EXPECT_EQ(got, one) << rows << " x " << columns << ", " << count << " threads";
    }
  }
  SetThreads(threads);
}

}  // namespace
}  // namespace lshformer::testing
