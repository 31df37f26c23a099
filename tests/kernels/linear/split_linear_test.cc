// Linear maps of float32 in AMX tiles, for inference: what the products err by against double, and which rows go
// through multiply-add.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "kernels/matmul_precision.h"
#include "kernels/packed_linear.h"
#include "kernels/ref/matmul.h"
#include "util/amx_model.h"
#include "util/numbers.h"

namespace lshformer::testing {
namespace {

using SplitLinearTest = InAmxModel;

std::vector<float> SignedOrPositive(int64_t count, uint64_t key, bool positive) {
  std::vector<float> values = Random(count, key);
  if (positive)
    for (float& value : values) value = std::abs(value);
  return values;
}

struct SplitMap {
  SplitMap(int64_t rows, int64_t out, int64_t in, bool positive = false)
      : rows(rows),
        out(out),
        in(in),
        x(SignedOrPositive(rows * in, 1, positive)),
        weight(SignedOrPositive(out * in, 2, positive)) {}
  PackedLinear Packed() const { return {Precision::kFloat32, weight.data(), bias.data(), out, in}; }
  std::vector<float> Run(const PackedLinear& linear, std::optional<UnaryFunction> function = {}) const {
    std::vector<float> y(static_cast<size_t>(rows * out));
    linear.Run(rows, x.data(), y.data(), function);
    return y;
  }
  std::vector<float> InTiles(MatmulPrecision precision, std::optional<UnaryFunction> function = {}) const {
    SetMatmulPrecision(precision);
    const PackedLinear linear = Packed();
    EXPECT_TRUE(linear.in_amx_tiles());
    return Run(linear, function);
  }
  std::vector<float> ByMultiplyAdd(std::optional<UnaryFunction> function = {}) const {
    UseAmxModel(false);
    const PackedLinear linear = Packed();
    EXPECT_FALSE(linear.in_amx_tiles());
    UseAmxModel(true);
    return Run(linear, function);
  }
  int64_t rows, out, in;
  std::vector<float> x, weight, bias = std::vector<float>(static_cast<size_t>(out));
};

struct SplitErrors {
  double largest = 0, root_mean_square = 0, deviation = 0;  // deviation: of the exact results about 0
};
SplitErrors ErrorsOf(const SplitMap& map, const std::vector<float>& y) {
  SplitErrors errors;
  for (int64_t i = 0; i < map.rows; ++i) {
    for (int64_t j = 0; j < map.out; ++j) {
      double exact = 0;
      for (int64_t k = 0; k < map.in; ++k) exact += double{map.x[i * map.in + k]} * map.weight[j * map.in + k];
      const double error = std::abs(y[i * map.out + j] - exact);
      errors.largest = std::max(errors.largest, error);
      errors.root_mean_square += error * error;
      errors.deviation += exact * exact;
    }
  }
  errors.root_mean_square = std::sqrt(errors.root_mean_square / static_cast<double>(y.size()));
  errors.deviation = std::sqrt(errors.deviation / static_cast<double>(y.size()));
  return errors;
}

TEST_F(SplitLinearTest, ErrorsAgainstDouble) {
  for (const bool positive : {false, true}) {
    for (const int64_t in : {64, 384, 768, 3072, 4096}) {
      SCOPED_TRACE(::testing::Message() << in << " terms" << (positive ? ", positive" : ""));
      const SplitMap map(96, 64, in, positive);
      const SplitErrors fused = ErrorsOf(map, map.ByMultiplyAdd()),
                        three = ErrorsOf(map, map.InTiles(MatmulPrecision::kHigh)),
                        one = ErrorsOf(map, map.InTiles(MatmulPrecision::kMedium));
      EXPECT_LE(three.largest, 4e-5 * three.deviation);
      EXPECT_LE(one.largest, 2e-2 * one.deviation);
      EXPECT_GE(one.largest, three.largest);
      // For docs/numerics.md: --gtest_output=xml.
      const auto relative = [&](const SplitErrors& errors) {
        return fmt::format("{:.2e} {:.2e}", errors.largest / fused.deviation,
                           errors.root_mean_square / fused.deviation);
      };
      RecordProperty(fmt::format("terms_{}{}", in, positive ? "_positive" : ""),
                     fmt::format("largest and rms error: fused {}, three {}, one {}", relative(fused), relative(three),
                                 relative(one)));
    }
  }
}

// Rows that have no parts are what multiply-add gives, bit for bit; the others are as without them.
TEST_F(SplitLinearTest, RowsWithoutPartsGoThroughMultiplyAdd) {
  for (const MatmulPrecision precision : {MatmulPrecision::kHigh, MatmulPrecision::kMedium}) {
    SCOPED_TRACE(Name(precision));
    SplitMap map(60, 70, 100);
    map.bias = Random(map.out, 3);
    const std::vector<float> before = map.InTiles(precision, UnaryFunction::kGelu);
    const std::pair<int64_t, float> odd[] = {{0, 1e-35f}, {7, kNotANumber}, {8, kInfiniteNumber},
                                             {9, 2e38f},  {30, 1e-40f},     {59, -0x1p127f}};
    for (const auto& [row, number] : odd) map.x[row * map.in + row % 13] = number;
    const std::vector<float> fused = map.ByMultiplyAdd(UnaryFunction::kGelu),
                             got = map.InTiles(precision, UnaryFunction::kGelu);
    for (int64_t row = 0; row < map.rows; ++row) {
      const bool is_odd = std::any_of(std::begin(odd), std::end(odd), [&](const auto& o) { return o.first == row; });
      const std::vector<float>& want = is_odd ? fused : before;
      for (int64_t i = row * map.out; i < (row + 1) * map.out; ++i) {
        if (std::isnan(want[i])) {
          ASSERT_TRUE(std::isnan(got[i])) << "row " << row;
        } else {
          ASSERT_EQ(got[i], want[i]) << "row " << row;
        }
      }
    }
  }
}

// With such rows among them too.
TEST_F(SplitLinearTest, RowsDoNotDependOnTheCall) {
  for (const MatmulPrecision precision : {MatmulPrecision::kHigh, MatmulPrecision::kMedium}) {
    SplitMap map(kMostPackedRows + 40, 96, 80);
    for (int64_t row = 0; row < map.rows; row += 11) map.x[row * map.in + 5] = 1e-35f;
    SetMatmulPrecision(precision);
    const PackedLinear linear = map.Packed();
    SetThreads(1);
    const std::vector<float> all = map.Run(linear, UnaryFunction::kGelu);
    std::vector<float> some(all.size());
    for (const int threads : {1, 2, 48}) {
      SetThreads(threads);
      for (int64_t rows = 1; rows <= map.rows; rows += threads < 48 && rows < 35 ? 3 : 67) {
        const int64_t first = rows * 7 % (map.rows - rows + 1);
        linear.Run(rows, map.x.data() + first * map.in, some.data(), UnaryFunction::kGelu);
        ASSERT_EQ(std::memcmp(some.data(), all.data() + first * map.out, rows * map.out * sizeof(float)), 0)
            << Name(precision) << ", " << rows << " rows from " << first << ", " << threads << " threads";
      }
    }
  }
}

TEST_F(SplitLinearTest, WeightsWithoutParts) {
  for (const MatmulPrecision precision : {MatmulPrecision::kHigh, MatmulPrecision::kMedium}) {
    SetMatmulPrecision(precision);
    SplitMap map(3, 70, 100);
    EXPECT_TRUE(map.Packed().in_amx_tiles());
    for (const float number : {1e-35f, kInfiniteNumber, kNotANumber, 0x1p127f}) {
      map.weight[133] = number;
      EXPECT_FALSE(map.Packed().in_amx_tiles()) << number;
    }
  }
}

}  // namespace
}  // namespace lshformer::testing
