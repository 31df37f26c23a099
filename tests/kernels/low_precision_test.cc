// Rounding and quantisation of rows against their definitions in double.
#include "kernels/low_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/gated.h"
#include "kernels/ref/functions.h"
#include "kernels/ref/low_precision.h"
#include "util/every_isa.h"
#include "util/numbers.h"

namespace lshformer::testing {
namespace {

class LowPrecisionRowsTest : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, LowPrecisionRowsTest, AllIsas(), NameOfIsa);

TEST_P(LowPrecisionRowsTest, RoundsToTheNearest) {
  std::vector<float> x{0.0f,          -0.0f,          1.0f,   1.00390625f,    1.01171875f,     -1.00390625f,
                       3.4028235e38f, -3.4028235e38f, 1e-45f, 1.1754944e-38f, kInfiniteNumber, -kInfiniteNumber,
                       3.3961775e38f};
  for (const float value : Random(200, 3, 10)) x.push_back(value);
  const auto all = static_cast<int64_t>(x.size());
  for (const int64_t columns : {int64_t{1}, int64_t{7}, int64_t{16}, all}) {
    std::vector<BFloat16> got(x.size());
    const int64_t rows = all / columns;
    RoundRows(x.data(), columns, rows, columns, got.data());
    for (int64_t i = 0; i < rows * columns; ++i) {
      const auto want = static_cast<float>(ref::RoundToBFloat16(x[i]));
      EXPECT_EQ(std::bit_cast<uint32_t>(ToFloat(got[i])), std::bit_cast<uint32_t>(want))
          << x[i] << " of " << columns << " columns";
    }
  }
  std::vector<BFloat16> nan(2);
  const std::vector<float> nans{kNotANumber, std::bit_cast<float>(0x7F800001u)};
  RoundRows(nans.data(), 2, 1, 2, nan.data());
  EXPECT_TRUE(std::isnan(ToFloat(nan[0])) && std::isnan(ToFloat(nan[1])));
}

TEST_P(LowPrecisionRowsTest, RoundsRowsThatLieApart) {
  constexpr int64_t kRows = 5, kColumns = 19, kStride = 24;
  const std::vector<float> x = Random(kRows * kStride, 4);
  std::vector<BFloat16> got(kRows * kColumns);
  RoundRows(x.data(), kStride, kRows, kColumns, got.data());
  for (int64_t i = 0; i < kRows * kColumns; ++i)
    EXPECT_EQ(ToFloat(got[i]), ref::RoundToBFloat16(x[i / kColumns * kStride + i % kColumns]));
}

// The scale and the zero are those of the oracle to rounding, a number is next to the oracle's before it was rounded,
// and x and scale · (q − zero) differ by half a step for the rounding of x and half a step for that of zero. 0 is
// exact.
TEST_P(LowPrecisionRowsTest, QuantizedRowsAreNearTheRow) {
  for (const int64_t columns : {1, 3, 16, 17, 70})
    for (const double shift : {-5.0, 0.0, 5.0}) {
      constexpr int64_t kRows = 9;
      std::vector<float> x = Random(kRows * columns, 5, 2);
      for (float& value : x) value += static_cast<float>(shift);
      x[0] = 0;
      std::vector<uint8_t> q(x.size());
      std::vector<RowScale> rows(kRows);
      QuantizeRows(x.data(), kRows, columns, q.data(), rows.data());
      for (int64_t row = 0; row < kRows; ++row) {
        const std::vector<double> own(x.begin() + row * columns, x.begin() + (row + 1) * columns);
        const ref::QuantizedRow want = ref::QuantizeRow(own);
        EXPECT_NEAR(rows[row].scale, want.scale, 4 * kFloatEps * want.scale);
        EXPECT_LE(std::abs(rows[row].zero - want.zero), 1);  // where it is halfway
        for (int64_t c = 0; c < columns; ++c) {
          const int64_t i = row * columns + c;
          const double back = double{rows[row].scale} * (q[i] - rows[row].zero);
          EXPECT_LE(std::abs(back - x[i]), rows[row].scale * 1.001) << columns << " columns, element " << i;
          EXPECT_LE(std::abs(q[i] - want.numbers[c]), 1.001 + 0.5) << columns << " columns, element " << i;
          if (x[i] == 0) {
            EXPECT_EQ(back, 0);
          }
        }
      }
    }
}

TEST_P(LowPrecisionRowsTest, RowsThatHaveNoScale) {
  std::vector<float> x(4 * 20, 0.0f);
  x[25] = kNotANumber;
  x[45] = -kInfiniteNumber;
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
  QuantizeRows(x.data(), 0, 20, q.data(), rows.data());  // no rows, no work
}

TEST_P(LowPrecisionRowsTest, QuantizedWeights) {
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

// Sums of products of bytes, and what they are made into numbers with.
struct ByteSums {
  ByteSums(int64_t row_count, int64_t columns, uint64_t seed)
      : sums(row_count * columns),
        weight_sums(columns),
        weight_scales(Random(columns, seed + 1, 1e-3)),
        bias(Random(columns, seed + 2)) {
    PhiloxStream stream(seed);
    for (int32_t& sum : sums) sum = static_cast<int32_t>(stream.Below(200000)) - 100000;
    for (int32_t& sum : weight_sums) sum = static_cast<int32_t>(stream.Below(2000)) - 1000;
    for (int32_t i = 0; i < row_count; ++i) rows.push_back({0.01f * static_cast<float>(i + 1), 30 * i});
  }
  Dequantization Call(std::optional<UnaryFunction> function) const {
    return {rows, weight_scales, bias, weight_sums, function};
  }
  // The sums where floats are expected.
  std::vector<float> Lying() const {
    std::vector<float> y(sums.size());
    std::memcpy(y.data(), sums.data(), sums.size() * sizeof(float));
    return y;
  }
  std::vector<float> Dequantized(std::optional<UnaryFunction> function) const {
    std::vector<float> y = Lying();
    Dequantize(Call(function), y.data());
    return y;
  }

  std::vector<int32_t> sums, weight_sums;
  std::vector<RowScale> rows;
  std::vector<float> weight_scales, bias;
};

// All rows with a function behind, and a block of them, which has the bits of the same numbers without one.
TEST_P(LowPrecisionRowsTest, DequantizesSums) {
  constexpr int64_t kRows = 7, kColumns = 37;
  const ByteSums in(kRows, kColumns, 9);
  const std::vector<float> plain = in.Dequantized({}), activated = in.Dequantized(UnaryFunction::kGelu);
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const RowScale& row = in.rows[i / kColumns];
    const int64_t c = i % kColumns;
    const double want =
        ref::Dequantize(row.scale, row.zero, in.weight_scales[c], in.weight_sums[c], in.bias[c], in.sums[i]);
    const double size = std::abs(want - in.bias[c]) + std::abs(in.bias[c]);
    EXPECT_NEAR(plain[i], want, 4 * kFloatEps * size) << i;
    EXPECT_NEAR(activated[i], ref::Value(UnaryFunction::kGelu, plain[i]), 8 * kFloatEps * (1 + std::abs(plain[i])));
  }
  constexpr int64_t kFirstRow = 2, kFirstColumn = 5, kBlockRows = 3, kBlockColumns = 21, kStride = 32;
  std::vector<float> block(kBlockRows * kStride);
  for (int64_t row = 0; row < kBlockRows; ++row)
    std::memcpy(block.data() + row * kStride, in.sums.data() + (kFirstRow + row) * kColumns + kFirstColumn,
                kBlockColumns * sizeof(float));
  DequantizeBlock(in.Call({}), {kFirstRow, kFirstColumn, kBlockRows, kBlockColumns, block.data(), kStride});
  for (int64_t row = 0; row < kBlockRows; ++row)
    for (int64_t c = 0; c < kBlockColumns; ++c)
      EXPECT_EQ(block[row * kStride + c], plain[(kFirstRow + row) * kColumns + kFirstColumn + c]);
}

TEST_P(LowPrecisionRowsTest, DequantizesSumsToBFloat16) {
  constexpr int64_t kRows = 7;
  for (const int64_t columns : {1, 16, 37}) {
    const ByteSums in(kRows, columns, 10);
    const std::vector<float> y = in.Dequantized({}), sums = in.Lying();
    std::vector<BFloat16> want(y.size()), got(y.size());
    RoundRows(y.data(), columns, kRows, columns, want.data());
    Dequantize(in.Call({}), sums.data(), got.data());
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(got[i].bits, want[i].bits) << columns << " columns, element " << i;
  }
}

// Likewise with a gate behind the function.
TEST_P(LowPrecisionRowsTest, RequantizesGatedSums) {
  constexpr int64_t kRows = 6;
  for (const int64_t columns : {1, 16, 37}) {
    ByteSums in(kRows, 2 * columns, 13);
    in.rows[4].scale = kNotANumber;
    const std::vector<float> halves = in.Dequantized({});
    for (const UnaryFunction function : {UnaryFunction::kGelu, UnaryFunction::kSilu}) {
      const bool exact = function != UnaryFunction::kGelu;
      std::vector<float> y(kRows * columns), once = in.Lying();
      GateRows(function, halves.data(), kRows, columns, y.data());
      std::vector<uint8_t> want(y.size()), got(y.size());
      std::vector<RowScale> want_scales(kRows), got_scales = in.rows;
      QuantizeRows(y.data(), kRows, columns, want.data(), want_scales.data());
      Dequantization call = in.Call(function);
      call.rows = got_scales;
      RequantizeGated(call, once.data(), got.data(), got_scales.data());
      if (exact) {
        EXPECT_EQ(got, want);
      }
      for (int64_t i = 0; i < kRows * columns; ++i) {
        const int64_t row = i / columns;
        const RowScale& scale = got_scales[row];
        ASSERT_EQ(std::isnan(scale.scale), row == 4);
        if (row == 4) continue;
        double most = 0;  // GELU's error grows with the gate
        for (int64_t c = 0; c < columns; ++c)
          most = std::max(most, std::abs(double{halves[(2 * row + 1) * columns + c]}));
        const double error = exact ? 0 : 0x1p-12 * most;
        EXPECT_NEAR(scale.scale, want_scales[row].scale, 2 * error / 255 + 0x1p-17 * error);
        EXPECT_NEAR(double{scale.scale} * (got[i] - scale.zero), y[i], scale.scale * 1.01 + error)
            << columns << " columns, element " << i;
      }
    }
  }
}

// Bit for bit what two passes give, but GELU, which is within 2⁻¹². A row without a scale has none afterwards.
TEST_P(LowPrecisionRowsTest, RequantizesSums) {
  constexpr int64_t kRows = 6;
  for (const int64_t columns : {1, 16, 37}) {
    ByteSums in(kRows, columns, 12);
    in.rows[4].scale = kNotANumber;
    for (const UnaryFunction function :
         {UnaryFunction::kGelu, UnaryFunction::kGeluNew, UnaryFunction::kRelu, UnaryFunction::kSigmoid}) {
      const std::vector<float> y = in.Dequantized(function);
      std::vector<float> once = in.Lying();
      std::vector<uint8_t> want(y.size()), got(y.size());
      std::vector<RowScale> want_scales(kRows), got_scales = in.rows;
      QuantizeRows(y.data(), kRows, columns, want.data(), want_scales.data());
      Dequantization call = in.Call(function);
      call.rows = got_scales;  // the scales take the place of those that come in
      Requantize(call, once.data(), got.data(), got_scales.data());
      const bool exact = function != UnaryFunction::kGelu;
      if (exact) {
        EXPECT_EQ(got, want);
      }
      for (int64_t i = 0; i < kRows * columns; ++i) {
        const RowScale &scale = got_scales[i / columns], &other = want_scales[i / columns];
        ASSERT_EQ(std::isnan(scale.scale), i / columns == 4);
        if (i / columns == 4) continue;
        EXPECT_NEAR(scale.scale, other.scale, exact ? 0 : 2 * 0x1p-12 / 255 + 0x1p-17 * other.scale);
        const double back = double{scale.scale} * (got[i] - scale.zero);
        EXPECT_NEAR(back, y[i], scale.scale * 1.01 + (exact ? 0 : 0x1p-12)) << columns << " columns, element " << i;
      }
    }
  }
}

// A row of one number is scale · (q − zero) itself.
TEST_P(LowPrecisionRowsTest, GeluBeforeBytes) {
  std::vector<RowScale> rows{{1e3f, 0}, {-1e3f, 0}, {3.4e38f, 0}, {-3.4e38f, 0}};
  for (float x = -12; x < 12; x += 0.0031f) rows.push_back({x, 0});
  const int32_t one = 1, no_sum = 0;
  std::vector<float> y(rows.size());
  for (float& sum : y) std::memcpy(&sum, &one, sizeof(one));
  std::vector<uint8_t> q(rows.size());
  std::vector<RowScale> scales(rows.size());
  const float weight_scale = 1, bias = 0;
  Requantize({rows, {&weight_scale, 1}, {&bias, 1}, {&no_sum, 1}, UnaryFunction::kGelu}, y.data(), q.data(),
             scales.data());
  for (size_t i = 0; i < rows.size(); ++i) {
    const double x = rows[i].scale, got = double{scales[i].scale} * (q[i] - scales[i].zero);
    EXPECT_NEAR(got, ref::Value(UnaryFunction::kGelu, x),
                std::min(0x1p-12, 0x1p-11 * std::abs(x)) + 4 * kFloatEps * std::abs(x))
        << x;
  }
}

// Every number of the range, by three parts; by fewer to within half of the last one's last bit.
TEST_P(LowPrecisionRowsTest, PartsAddUpToTheNumber) {
  PhiloxStream stream(7);
  const int64_t rows = 50, columns = 37;
  std::vector<float> x(rows * columns);
  for (float& value : x) {
    const auto exponent = static_cast<uint32_t>(27 + stream.Below(227)) << 23;
    value = std::bit_cast<float>((static_cast<uint32_t>(stream.Below(uint64_t{1} << 32)) & 0x807FFFFFu) | exponent);
  }
  x[0] = 0x1p-100f, x[1] = -0x1.fffffep126f, x[2] = 0, x[3] = -0.0f, x[4] = 0x1.fffffep-100f;
  std::vector<BFloat16> memory(3 * x.size());
  const auto count = static_cast<int64_t>(x.size());
  BFloat16* const parts[] = {memory.data(), memory.data() + count, memory.data() + 2 * count};
  std::vector<uint8_t> fits(rows);
  for (const size_t used : {1, 2, 3}) {
    SplitRows(x.data(), columns, rows, columns, std::span(parts).first(used), kLeastExactlySplit, fits.data());
    EXPECT_THAT(fits, ::testing::Each(1));
    for (int64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (size_t part = 0; part < used; ++part) sum += ToFloat(parts[part][i]);
      ASSERT_LE(std::abs(sum - x[i]), used == 3 ? 0 : std::abs(x[i]) * std::exp2(-8.0 * static_cast<double>(used)))
          << x[i];
    }
  }
}

TEST_P(LowPrecisionRowsTest, NumbersWithoutParts) {
  const std::vector<float> without{0x1.fffffep-101f, -1e-38f,         1e-45f,           0x1p127f,
                                   -3e38f,           kInfiniteNumber, -kInfiniteNumber, kNotANumber};
  for (const float number : without) {
    for (const int64_t place : {0, 5, 18}) {
      std::vector<float> x(3 * 19, 1.0f);
      x[19 + place] = number;
      std::vector<BFloat16> part(x.size());
      BFloat16* const parts[] = {part.data()};
      std::vector<uint8_t> fits(3);
      SplitRows(x.data(), 19, 3, 19, parts, kLeastExactlySplit, fits.data());
      EXPECT_THAT(fits, ::testing::ElementsAre(1, 0, 1)) << number;
      SplitRows(x.data(), 19, 3, 19, parts, /*least=*/0, fits.data());
      EXPECT_THAT(fits, ::testing::ElementsAre(1, std::abs(number) < 1 ? 1 : 0, 1)) << number;
    }
  }
}

// Rows that lie apart; and parts of numbers however small are off by no more than the least float that tiles know.
TEST_P(LowPrecisionRowsTest, SmallNumbersByTwoParts) {
  const int64_t rows = 3, columns = 21, stride = 40;
  std::vector<float> x(rows * stride, kNotANumber);
  PhiloxStream stream(8);
  for (int64_t i = 0; i < rows * columns; ++i)
    x[i / columns * stride + i % columns] =
        static_cast<float>(std::exp2(-90 - static_cast<double>(i)) * (1 + stream.Uniform()));
  std::vector<BFloat16> memory(2 * rows * columns);
  BFloat16* const parts[] = {memory.data(), memory.data() + rows * columns};
  std::vector<uint8_t> fits(rows);
  SplitRows(x.data(), stride, rows, columns, parts, /*least=*/0, fits.data());
  EXPECT_THAT(fits, ::testing::Each(1));
  for (int64_t i = 0; i < rows * columns; ++i) {
    const double number = x[i / columns * stride + i % columns];
    ASSERT_LE(std::abs(double{ToFloat(parts[0][i])} + ToFloat(parts[1][i]) - number), number * 0x1p-16 + 0x1p-126);
  }
}

}  // namespace
}  // namespace lshformer::testing
