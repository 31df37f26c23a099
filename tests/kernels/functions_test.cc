// Activation functions against the standard library in double.
#include "kernels/functions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cpu/rows/blocks.h"
#include "kernels/ref/functions.h"
#include "util/every_isa.h"
#include "util/numbers.h"

namespace lshformer::testing {
namespace {

constexpr UnaryFunction kFunctions[] = {UnaryFunction::kGelu, UnaryFunction::kGeluNew, UnaryFunction::kRelu,
                                        UnaryFunction::kTanh, UnaryFunction::kSilu,    UnaryFunction::kSigmoid};

class FunctionsTest : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, FunctionsTest, AllIsas(), NameOfIsa);

// The whole range, tails included: a few roundings of max(1, |x|), and GELU's own 2e-7 of itself.
TEST_P(FunctionsTest, ValuesAndDerivatives) {
  std::vector<float> x;
  for (float value = -12; value < 12; value += 0.0061f) x.push_back(value);
  const std::vector<float> grad_out = Random(std::ssize(x), 3);
  std::vector<float> y(x.size()), grad_x(x.size());
  for (const UnaryFunction function : kFunctions) {
    ApplyFunction(function, x, y.data());
    ApplyDerivative(function, x, grad_out.data(), grad_x.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double bound = 8 * kFloatEps * std::max(1.0f, std::abs(x[i]));
      ASSERT_NEAR(y[i], ref::Value(function, x[i]), bound) << x[i] << " of " << static_cast<int>(function);
      ASSERT_NEAR(grad_x[i], grad_out[i] * ref::Derivative(function, x[i]), bound * std::abs(grad_out[i]))
          << x[i] << " of " << static_cast<int>(function);
    }
  }
}

TEST_P(FunctionsTest, NotANumberStaysSo) {
  const std::vector<float> x(21, kNotANumber);
  std::vector<float> y(x.size());
  for (const UnaryFunction function : kFunctions) {
    ApplyFunction(function, x, y.data());
    for (const float value : y) EXPECT_TRUE(std::isnan(value)) << static_cast<int>(function);
  }
}

// An element's bits do not depend on where it stands, and results may take the place of what they are made of.
TEST_P(FunctionsTest, AnElementIsItsOwn) {
  const std::vector<float> x = Random(40000, 4, 3), grad_out = Random(40000, 5);  // three pieces of work
  for (const UnaryFunction function : kFunctions) {
    std::vector<float> y(x.size()), grad_x(x.size()), in_place = x, gradient_in_place = grad_out;
    ApplyFunction(function, x, y.data());
    ApplyDerivative(function, x, grad_out.data(), grad_x.data());
    ApplyFunction(function, in_place, in_place.data());
    ApplyDerivative(function, x, gradient_in_place.data(), gradient_in_place.data());
    EXPECT_EQ(in_place, y);
    EXPECT_EQ(gradient_in_place, grad_x);
    for (const size_t begin : {0, 1, 17, 16383, 39997}) {
      const size_t count = std::min<size_t>(21, x.size() - begin);
      std::vector<float> part(count);
      ApplyFunction(function, std::span(x).subspan(begin, count), part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), y.begin() + static_cast<int64_t>(begin)));
    }
  }
}

TEST_P(FunctionsTest, ExtremesAreFinite) {
  const std::vector<float> x{-1e30f, -200, -40, -0.0f, 0, 40, 200, 1e30f}, ones(x.size(), 1);
  std::vector<float> y(x.size());
  for (const UnaryFunction function : kFunctions) {
    ApplyFunction(function, x, y.data());
    for (const float value : y) EXPECT_TRUE(std::isfinite(value)) << static_cast<int>(function);
    ApplyDerivative(function, x, ones.data(), y.data());
    for (const float value : y) EXPECT_TRUE(std::isfinite(value)) << static_cast<int>(function);
  }
}

// Half of the last bit of bfloat16, 2⁻⁸, for the rounding, 2⁻¹⁰ for the function.
TEST_P(FunctionsTest, GeluForBFloat16IsAsGoodAsThat) {
  std::vector<float> x{0.0f, 1e-30f, -1e-30f, 30.0f, 1e30f, kInfiniteNumber, kNotANumber};
  for (float value = -8; value < 8; value += 0.003f) x.push_back(value);
  const std::vector<float> bias(x.size(), 0.25f);
  std::vector<BFloat16> got(x.size());
  const auto columns = static_cast<int64_t>(x.size());
  AddBiasAndApply({.rows = 1,
                   .columns = columns,
                   .x = x.data(),
                   .x_stride = columns,
                   .bias = bias.data(),
                   .function = UnaryFunction::kGelu,
                   .rounded = got.data(),
                   .y_stride = columns});
  for (size_t i = 0; i < x.size(); ++i) {
    const double sum = x[i] + bias[i], want = ref::Value(UnaryFunction::kGelu, sum);
    if (std::isfinite(want)) {
      EXPECT_NEAR(ToFloat(got[i]), want, (0x1p-8 + 0x1p-10) * std::abs(want)) << sum;
    } else {
      EXPECT_EQ(std::isnan(ToFloat(got[i])), std::isnan(want)) << sum;
    }
  }
}

// Blocks with strides: in float32 the bits of an addition and ApplyFunction, and nothing beside the block is touched.
TEST_P(FunctionsTest, BiasAndFunctionOfABlock) {
  constexpr int64_t kRows = 3, kColumns = 21, kStride = 30;
  const std::vector<float> x = Random(kRows * kStride, 6), bias = Random(kColumns, 7);
  for (const UnaryFunction function : kFunctions) {
    std::vector<float> y(x.size(), -7);
    AddBiasAndApply({.rows = kRows,
                     .columns = kColumns,
                     .x = x.data(),
                     .x_stride = kStride,
                     .bias = bias.data(),
                     .function = function,
                     .y = y.data(),
                     .y_stride = kStride});
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<float> want(kStride, -7.0f);
      for (int64_t c = 0; c < kColumns; ++c) want[c] = x[row * kStride + c] + bias[c];
      ApplyFunction(function, std::span(want).first(kColumns), want.data());
      EXPECT_TRUE(std::equal(want.begin(), want.end(), y.begin() + row * kStride)) << static_cast<int>(function);
    }
  }
}

TEST(FunctionsOracle, HasTheDerivativesOfItsValues) {
  for (const UnaryFunction function : kFunctions)
    for (double x = -6.001; x < 6; x += 0.37)
      EXPECT_NEAR(ref::Derivative(function, x),
                  (ref::Value(function, x + 1e-6) - ref::Value(function, x - 1e-6)) / 2e-6, 1e-8)
          << x << " of " << static_cast<int>(function);
}

TEST(FunctionsOracle, KnownValuesOfGelu) {
  const double x[] = {-2, -1, -0.5, 0.5, 1, 2, 3};
  const double erf[] = {-0.0455003, -0.1586553, -0.1542688, 0.3457312, 0.8413447, 1.9544997, 2.9959503};
  const double tanh[] = {-0.0454023, -0.1588080, -0.1542860, 0.3457140, 0.8411920, 1.9545977, 2.9963626};
  for (size_t i = 0; i < std::size(x); ++i) {
    EXPECT_NEAR(ref::Value(UnaryFunction::kGelu, x[i]), erf[i], 1e-7) << x[i];
    EXPECT_NEAR(ref::Value(UnaryFunction::kGeluNew, x[i]), tanh[i], 1e-7) << x[i];
  }
}

}  // namespace
}  // namespace lshformer::testing
