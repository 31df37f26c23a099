#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/rows/blocks.h"
#include "kernels/isa.h"
#include "kernels/low_precision.h"
#include "ops/numbers.h"
#include "ops/torch.h"

namespace lshformer {
namespace {

using testing::Random;
using testing::ToFloat;
using torch::Tensor;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

class EveryIsaTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ForceIsa(GetParam()); }
  void TearDown() override { ForceIsa("auto"); }
};
INSTANTIATE_TEST_SUITE_P(Isas, EveryIsaTest, ::testing::ValuesIn(SupportedIsas()),
                         [](const auto& info) { return info.param; });

TEST_P(EveryIsaTest, RoundsAsTorchDoes) {
  std::vector<float> x{0.0f,           -0.0f,  1.0f,           1.00390625f, 1.01171875f, -1.00390625f, 3.4028235e38f,
                       -3.4028235e38f, 1e-45f, 1.1754944e-38f, kInfinity,   -kInfinity,  3.3961775e38f};
  for (const float value : Random(200, 3, 10)) x.push_back(value);
  for (const int64_t columns : {int64_t{1}, int64_t{7}, int64_t{16}, static_cast<int64_t>(x.size())}) {
    std::vector<BFloat16> got(static_cast<size_t>(columns));
    RoundRows(x.data(), columns, 1, columns, got.data());
    const Tensor want = torch::tensor(x).to(torch::kBFloat16).to(torch::kFloat32);
    for (int64_t i = 0; i < columns; ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(ToFloat(got[i])), std::bit_cast<uint32_t>(want.data_ptr<float>()[i]))
          << x[i] << " of " << columns << " columns";
    }
  }
  std::vector<BFloat16> nan(2);
  const std::vector<float> nans{kNaN, std::bit_cast<float>(0x7F800001u)};
  RoundRows(nans.data(), 2, 1, 2, nan.data());
  EXPECT_TRUE(std::isnan(ToFloat(nan[0])) && std::isnan(ToFloat(nan[1])));
}

// Half of the last bit of bfloat16, 2⁻⁸, for the rounding, 2⁻¹⁰ for the function.
TEST_P(EveryIsaTest, GeluForBFloat16IsAsGoodAsThat) {
  std::vector<float> x{0.0f, 1e-30f, -1e-30f, 30.0f, 1e30f, kInfinity, kNaN};
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
    const double sum = x[i] + bias[i], want = 0.5 * sum * std::erfc(-sum / std::sqrt(2.0));
    if (std::isfinite(want)) {
      EXPECT_NEAR(ToFloat(got[i]), want, (0x1p-8 + 0x1p-10) * std::abs(want)) << sum;
    } else {
      EXPECT_EQ(std::isnan(ToFloat(got[i])), std::isnan(want)) << sum;
    }
  }
}

// x and scale · (q − zero) differ by half a step for the rounding of x and half a step for that of zero; 0 is exact.
TEST_P(EveryIsaTest, QuantizedRowsAreNearTheRow) {
  for (const int64_t columns : {1, 3, 16, 17, 70})
    for (const double shift : {-5.0, 0.0, 5.0}) {
      constexpr int64_t kRows = 9;
      std::vector<float> x = Random(kRows * columns, 5, 2);
      for (float& value : x) value += static_cast<float>(shift);
      x[0] = 0;
      std::vector<uint8_t> q(x.size());
      std::vector<RowScale> rows(kRows);
      QuantizeRows(x.data(), kRows, columns, q.data(), rows.data());
      for (int64_t i = 0; i < kRows * columns; ++i) {
        const RowScale& row = rows[i / columns];
        const double back = double{row.scale} * (q[i] - row.zero);
        EXPECT_LE(std::abs(back - x[i]), row.scale * 1.001) << columns << " columns, element " << i;
        if (x[i] == 0) {
          EXPECT_EQ(back, 0);
        }
      }
      const auto [low, high] = std::minmax_element(x.begin(), x.begin() + columns);
      EXPECT_NEAR(rows[0].scale * 255, columns == 1 ? 255 : std::max(*high, 0.0f) - std::min(*low, 0.0f), 1e-4);
    }
}

TEST_P(EveryIsaTest, RowsThatHaveNoScale) {
  std::vector<float> x(4 * 20, 0.0f);
  x[25] = kNaN;
  x[45] = -kInfinity;
  x[65] = 1e-42f;
  std::vector<uint8_t> q(x.size());
  std::vector<RowScale> rows(4);
  QuantizeRows(x.data(), 4, 20, q.data(), rows.data());
  EXPECT_EQ(rows[0].scale, 1);
  EXPECT_TRUE(std::isnan(rows[1].scale));
  EXPECT_TRUE(std::isnan(rows[2].scale));
  EXPECT_EQ(rows[3].scale, 1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(q[i] - rows[0].zero, 0);
  const std::vector<float> huge{3e38f, -3e38f};
  QuantizeRows(huge.data(), 1, 2, q.data(), rows.data());
  EXPECT_TRUE(std::isfinite(rows[0].scale));
  EXPECT_NEAR(rows[0].scale * static_cast<float>(q[0] - rows[0].zero), 3e38, 3e36);
  EXPECT_NEAR(rows[0].scale * static_cast<float>(q[1] - rows[0].zero), -3e38, 3e36);
}

TEST_P(EveryIsaTest, QuantizedWeights) {
  const int64_t rows = 5, columns = 37;
  std::vector<float> w = Random(rows * columns, 8);
  std::fill_n(w.begin() + 2 * columns, columns, 0.0f);
  std::vector<int8_t> q(w.size());
  std::vector<float> scales(rows);
  std::vector<int32_t> sums(rows);
  QuantizeWeight(w.data(), rows, columns, q.data(), scales.data(), sums.data());
  for (int64_t row = 0; row < rows; ++row) {
    int32_t sum = 0, largest = 0;
    for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      EXPECT_LE(std::abs(double{scales[row]} * q[i] - w[i]), scales[row] * 0.5001);
      sum += q[i];
      largest = std::max(largest, std::abs(int32_t{q[i]}));
    }
    EXPECT_EQ(sums[row], sum);
    EXPECT_EQ(largest, row == 2 ? 0 : 127);
  }
}

}  // namespace
}  // namespace lshformer
