// The inner loops of skip-gram against double.
#include "kernels/skip_gram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/ref/skip_gram.h"
#include "util/every_isa.h"
#include "util/numbers.h"

namespace lshformer::testing {
namespace {

class SkipGramKernelTest : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, SkipGramKernelTest, AllIsas(), NameOfIsa);

// Lengths and counts around what is done at once; eps · Σ|products| is what rounding allows, times the terms.
TEST_P(SkipGramKernelTest, ProductsAndSumsOfRows) {
  for (const int64_t length : {16, 48, 304})
    for (int64_t count = 0; count <= 9; ++count) {
      constexpr int64_t kStride = 3;
      const std::vector<float> row = Random(length, 1), factors = Random(count * kStride, 2);
      std::vector<std::vector<float>> rows;
      std::vector<const float*> others;
      for (int64_t j = 0; j < count; ++j) rows.push_back(Random(length, static_cast<uint64_t>(3 + j)));
      for (const std::vector<float>& other : rows) others.push_back(other.data());
      std::vector<float> products(static_cast<size_t>(count)), sum = row;
      RowProducts(row.data(), others.data(), count, length, products.data());
      AddWeightedRows(others.data(), factors.data(), kStride, count, length, sum.data());
      const double norm = std::sqrt(ref::Dot(row, row));
      for (int64_t j = 0; j < count; ++j) {
        const double size = norm * std::sqrt(ref::Dot(rows[j], rows[j]));
        EXPECT_NEAR(products[j], ref::Dot(row, rows[j]), static_cast<double>(length) * kFloatEps * size);
      }
      for (int64_t i = 0; i < length; ++i) {
        double want = row[i], size = std::abs(want);
        for (int64_t j = 0; j < count; ++j) {
          const double term = double{factors[j * kStride]} * rows[j][i];
          want += term, size += std::abs(term);
        }
        EXPECT_NEAR(sum[i], want, static_cast<double>(count + 1) * kFloatEps * size);
      }
    }
}

TEST(SkipGramKernels, StepsFollowTheLabels) {
  const std::vector<float> products{-90, -3, 0.25f, 7, 90};
  std::vector<float> steps = products;
  LogisticSteps(0.025f, std::ssize(steps), steps.data());
  for (size_t j = 0; j < steps.size(); ++j)
    EXPECT_NEAR(steps[j], ref::LogisticStep(0.025f, j == 0 ? 1 : 0, products[j]), 4 * kFloatEps * 0.025);
  std::vector<float> row{1, 2, 3};
  AddToRow(std::vector<float>{0.5f, -2, 0}.data(), 3, row.data());
  EXPECT_EQ(row, (std::vector<float>{1.5f, 0, 3}));
}

}  // namespace
}  // namespace lshformer::testing
