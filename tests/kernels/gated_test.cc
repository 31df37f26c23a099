// Gated products against double, values and gradients.
#include "kernels/gated.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/low_precision.h"
#include "kernels/ref/gated.h"
#include "util/every_isa.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {
namespace {

constexpr UnaryFunction kGatingFunctions[] = {UnaryFunction::kGelu, UnaryFunction::kSilu, UnaryFunction::kRelu,
                                              UnaryFunction::kGeluNew};

class GatedTest : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, GatedTest, AllIsas(), NameOfIsa);

// Around the lanes of a vector and the 16 rows of a piece of work. A few roundings of each factor.
TEST_P(GatedTest, ValuesAndGradients) {
  for (const UnaryFunction function : kGatingFunctions)
    for (const int64_t columns : {1, 7, 16, 33})
      for (const int64_t rows : {0, 1, 16, 35}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << columns << " of " << static_cast<int>(function));
        const std::vector<float> x = Random(rows * 2 * columns, 1, 3), grad_y = Random(rows * columns, 2);
        std::vector<float> y(grad_y.size()), grad_x(x.size());
        GateRows(function, x.data(), rows, columns, y.data());
        GateRowsGradient(function, x.data(), grad_y.data(), rows, columns, grad_x.data());
        const std::vector<double> want = ref::GateRows(function, Wide(x), rows, columns);
        const std::vector<double> grads = ref::GateRowsGradient(function, Wide(x), Wide(grad_y), rows, columns);
        EXPECT_THAT(y, WithinRounding(want, OfLargest(want, 16 * kFloatEps)));
        EXPECT_THAT(grad_x, WithinRounding(grads, OfLargest(grads, 32 * kFloatEps)));
        std::vector<float> in_place = x;
        GateRowsGradient(function, in_place.data(), grad_y.data(), rows, columns, in_place.data());
        EXPECT_EQ(in_place, grad_x);
      }
}

// Half of the last bit of bfloat16 for the rounding, 2⁻¹⁰ for the function.
TEST_P(GatedTest, RowsInBFloat16) {
  constexpr int64_t kRows = 20, kColumns = 37;
  const std::vector<float> x = Random(kRows * 2 * kColumns, 3, 2);
  for (const UnaryFunction function : kGatingFunctions) {
    std::vector<BFloat16> y(kRows * kColumns);
    GateRows(function, x.data(), kRows, kColumns, y.data());
    const std::vector<double> want = ref::GateRows(function, Wide(x), kRows, kColumns);
    for (size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(ToFloat(y[i]), want[i], (0x1p-8 + 0x1p-10) * std::abs(want[i]) + 1e-12) << static_cast<int>(function);
  }
}

TEST(GatedThreads, ChangeNothing) {
  constexpr int64_t kRows = 100, kColumns = 50;
  const std::vector<float> x = Random(kRows * 2 * kColumns, 4);
  const auto run = [&](int threads) {
    SetThreads(threads);
    std::vector<float> y(kRows * kColumns);
    GateRows(UnaryFunction::kGelu, x.data(), kRows, kColumns, y.data());
    SetThreads(HardwareThreads());
    return y;
  };
  EXPECT_EQ(run(3), run(1));
}

TEST(GatedOracle, HasTheGradientOfFiniteDifferences) {
  const std::vector<double> x = Wide(Random(12, 1)), grad_y = Wide(Random(6, 2));
  for (const UnaryFunction function : {UnaryFunction::kGelu, UnaryFunction::kSilu}) {
    const auto value = [&](const std::vector<double>& moved) {
      const std::vector<double> y = ref::GateRows(function, moved, 2, 3);
      double sum = 0;
      for (size_t i = 0; i < y.size(); ++i) sum += y[i] * grad_y[i];
      return sum;
    };
    ExpectGradient(value, x, ref::GateRowsGradient(function, x, grad_y, 2, 3), "x");
  }
}

}  // namespace
}  // namespace lshformer::testing
