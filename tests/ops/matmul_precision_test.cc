// Float32 products in AMX tiles: how a number is split, what the products err by against double, which rows go
// through multiply-add, and when it is chosen.
#include "kernels/matmul_precision.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/parallel.h"
#include "base/philox.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/isa.h"
#include "kernels/low_precision.h"
#include "kernels/packed_linear.h"
#include "ops/amx_model.h"
#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/numbers.h"
#include "ops/sequences.h"
#include "ops/threads.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

using testing::InAmxModel;
using testing::Sequences;
using testing::ToFloat;
using MatmulPrecisionTest = InAmxModel;

std::vector<float> Random(int64_t count, uint64_t key, bool positive = false) {
  std::vector<float> values(static_cast<size_t>(count));
  PhiloxStream stream(key);
  for (float& value : values) {
    value = static_cast<float>(stream.Normal());
    if (positive) value = std::abs(value);
  }
  return values;
}

struct Map {
  Map(int64_t rows, int64_t out, int64_t in, bool positive = false)
      : rows(rows), out(out), in(in), x(Random(rows * in, 1, positive)), weight(Random(out * in, 2, positive)) {}
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

TEST(MatmulPrecisionNames, AreReadAsTheyAreWritten) {
  for (const char* name : {"highest", "high", "medium"}) EXPECT_STREQ(Name(ParseMatmulPrecision(name)), name);
  EXPECT_THAT(ErrorOf([] { ParseMatmulPrecision("low"); }), HasSubstr("expected highest, high or medium, got \"low\""));
}

TEST(MatmulPrecisionNames, ChoiceOfProducts) {
  using enum MatmulPrecision;
  for (const MatmulPrecision precision : {kHighest, kHigh, kMedium})
    EXPECT_EQ(ProductsOfFloat32(precision, 768, 768, /*tiles=*/false), 0);
  struct Row {
    int64_t inner, columns;
    int high, medium;
  };
  for (const Row& row : {Row{768, 768, 3, 1}, Row{768, 3072, 3, 1}, Row{3072, 768, 3, 1}, Row{128, 128, 3, 1},
                         Row{64, 64, 3, 1}, Row{768, 32, 3, 1},  // one panel
                         Row{768, 33, 3, 1},                     // two, one of them nearly empty
                         Row{768, 2, 0, 0},                      // a classifier
                         Row{2, 768, 0, 0},                      // of 32 numbers 30 are zeros
                         Row{0, 0, 0, 0}}) {
    const auto products = [&](MatmulPrecision precision) {
      return row.columns == 0 ? 0 : ProductsOfFloat32(precision, row.inner, row.columns, /*tiles=*/true);
    };
    EXPECT_EQ(products(kHighest), 0) << row.inner << " x " << row.columns;
    EXPECT_EQ(products(kHigh), row.high) << row.inner << " x " << row.columns;
    EXPECT_EQ(products(kMedium), row.medium) << row.inner << " x " << row.columns;
  }
}

// Of 768 columns and more the weight's share and its packing are small beside the products; of a narrow weight's
// gradient splitting and turning round take as long as multiply-add does.
TEST(MatmulPrecisionNames, ChoiceOfProductsInTraining) {
  using enum MatmulPrecision;
  struct Row {
    int64_t rows, columns, inner;
    bool of_tokens;
    int high, medium;
  };
  for (const Row& row : {Row{1000, 768, 768, false, 3, 1}, Row{1000, 128, 128, false, 3, 1},
                         Row{1000, 64, 64, false, 3, 1}, Row{1000, 2, 768, false, 0, 0}, Row{1000, 768, 2, false, 0, 0},
                         Row{768, 768, 1024, true, 3, 1}, Row{128, 128, 1024, true, 3, 1},
                         Row{64, 64, 1024, true, 0, 0}, Row{768, 768, 8, true, 0, 1}, Row{2, 768, 1024, true, 0, 0}}) {
    const auto products = [&](MatmulPrecision precision, int64_t rows, bool tiles = true) {
      MatrixProduct product;
      product.rows = rows, product.columns = row.columns, product.inner = row.inner;
      product.inner_is_tokens = row.of_tokens;
      return ProductsInTraining(precision, product, tiles);
    };
    SCOPED_TRACE(::testing::Message() << row.rows << " x " << row.columns << " of " << row.inner);
    EXPECT_EQ(products(kHighest, row.rows), 0);
    EXPECT_EQ(products(kHigh, row.rows), row.high);
    EXPECT_EQ(products(kMedium, row.rows), row.medium);
    EXPECT_EQ(products(kHigh, row.rows, /*tiles=*/false), 0);
    if (row.of_tokens) continue;
    EXPECT_EQ(products(kHigh, 1), row.high) << "a row's bits are its own";
  }
}

class SplitTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ForceIsa(GetParam()); }
  void TearDown() override { ForceIsa("auto"); }
};
INSTANTIATE_TEST_SUITE_P(Isas, SplitTest, ::testing::ValuesIn(SupportedIsas()),
                         [](const auto& info) { return info.param; });

// Every number of the range, by three parts; by fewer to within half of the last one's last bit.
TEST_P(SplitTest, PartsAddUpToTheNumber) {
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

TEST_P(SplitTest, NumbersWithoutParts) {
  const std::vector<float> without{0x1.fffffep-101f, -1e-38f, 1e-45f, 0x1p127f, -3e38f, kInfinity, -kInfinity, kNaN};
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
TEST_P(SplitTest, SmallNumbersByTwoParts) {
  const int64_t rows = 3, columns = 21, stride = 40;
  std::vector<float> x(rows * stride, kNaN);
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

struct Errors {
  double largest = 0, root_mean_square = 0, deviation = 0;  // deviation: of the exact results about 0
};
Errors ErrorsOf(const Map& map, const std::vector<float>& y) {
  Errors errors;
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

TEST_F(MatmulPrecisionTest, ErrorsAgainstDouble) {
  for (const bool positive : {false, true}) {
    for (const int64_t in : {64, 384, 768, 3072, 4096}) {
      SCOPED_TRACE(::testing::Message() << in << " terms" << (positive ? ", positive" : ""));
      const Map map(96, 64, in, positive);
      const Errors fused = ErrorsOf(map, map.ByMultiplyAdd()),
                   three = ErrorsOf(map, map.InTiles(MatmulPrecision::kHigh)),
                   one = ErrorsOf(map, map.InTiles(MatmulPrecision::kMedium));
      EXPECT_LE(three.largest, 4e-5 * three.deviation);
      EXPECT_LE(one.largest, 2e-2 * one.deviation);
      EXPECT_GE(one.largest, three.largest);
      // For docs/numerics.md: --gtest_output=xml.
      const auto relative = [&](const Errors& errors) {
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
TEST_F(MatmulPrecisionTest, RowsWithoutPartsGoThroughMultiplyAdd) {
  for (const MatmulPrecision precision : {MatmulPrecision::kHigh, MatmulPrecision::kMedium}) {
    SCOPED_TRACE(Name(precision));
    Map map(60, 70, 100);
    map.bias = Random(map.out, 3);
    const std::vector<float> before = map.InTiles(precision, UnaryFunction::kGelu);
    const std::pair<int64_t, float> odd[] = {{0, 1e-35f}, {7, kNaN},    {8, kInfinity},
                                             {9, 2e38f},  {30, 1e-40f}, {59, -0x1p127f}};
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
TEST_F(MatmulPrecisionTest, RowsDoNotDependOnTheCall) {
  for (const MatmulPrecision precision : {MatmulPrecision::kHigh, MatmulPrecision::kMedium}) {
    Map map(kMostPackedRows + 40, 96, 80);
    for (int64_t row = 0; row < map.rows; row += 11) map.x[row * map.in + 5] = 1e-35f;
    SetMatmulPrecision(precision);
    const PackedLinear linear = map.Packed();
    SetAllThreads(1);
    const std::vector<float> all = map.Run(linear, UnaryFunction::kGelu);
    std::vector<float> some(all.size());
    for (const int threads : {1, 2, 48}) {
      SetAllThreads(threads);
      for (int64_t rows = 1; rows <= map.rows; rows += threads < 48 && rows < 35 ? 3 : 67) {
        const int64_t first = rows * 7 % (map.rows - rows + 1);
        linear.Run(rows, map.x.data() + first * map.in, some.data(), UnaryFunction::kGelu);
        ASSERT_EQ(std::memcmp(some.data(), all.data() + first * map.out, rows * map.out * sizeof(float)), 0)
            << Name(precision) << ", " << rows << " rows from " << first << ", " << threads << " threads";
      }
    }
  }
}

TEST_F(MatmulPrecisionTest, WeightsWithoutParts) {
  for (const MatmulPrecision precision : {MatmulPrecision::kHigh, MatmulPrecision::kMedium}) {
    SetMatmulPrecision(precision);
    Map map(3, 70, 100);
    EXPECT_TRUE(map.Packed().in_amx_tiles());
    for (const float number : {1e-35f, kInfinity, kNaN, 0x1p127f}) {
      map.weight[133] = number;
      EXPECT_FALSE(map.Packed().in_amx_tiles()) << number;
    }
  }
}

TEST_F(MatmulPrecisionTest, LinearFollowsTheSetting) {
  const torch::NoGradGuard no_grad;
  const Linear linear({torch::randn({64, 128})}, {torch::randn({64})});
  const torch::Tensor x = torch::randn({9, 128}), highest = linear(x);
  SetMatmulPrecision(MatmulPrecision::kMedium);
  const torch::Tensor medium = linear(x);
  EXPECT_GT((medium - highest).abs().max().item<float>(), 1e-3);
  SetMatmulPrecision(MatmulPrecision::kHigh);
  EXPECT_LT((linear(x) - highest).abs().max().item<float>(), 1e-3);
  SetMatmulPrecision(MatmulPrecision::kHighest);
  EXPECT_TRUE(torch::equal(linear(x), highest));
  // Without tiles every word is float32's multiply-add.
  UseAmxModel(false);
  const torch::Tensor fused = linear(x);
  EXPECT_TRUE(torch::equal(highest, fused));
  for (const MatmulPrecision precision : {MatmulPrecision::kHigh, MatmulPrecision::kMedium}) {
    SetMatmulPrecision(precision);
    EXPECT_TRUE(torch::equal(linear(x), fused));
    EXPECT_FALSE(linear.packed()->in_amx_tiles());
  }
}

// In the model of tiles, and by the instructions where there are some: linear maps and attention, asked and trained.
TEST_F(MatmulPrecisionTest, HighestIsTheSameWithTilesAndWithout) {
  torch::manual_seed(6);
  const torch::Tensor x = torch::randn({300, 256}), w = torch::randn({768, 256}) * 0.1, b = torch::randn({768}),
                      g = torch::randn({300, 256});
  const auto run = [&] {
    const auto attend = [](const torch::Tensor& qkv) {
      auto options = std::make_shared<AttentionOptions>();
      options->heads = 4;
      options->operands = OperandsOf(Precision::kFloat32);
      options->sequences = Sequences({0, 300});
      return SelfAttention(qkv, options);
    };
    const std::vector<torch::Tensor> leaves{x.clone().requires_grad_(true), w.clone().requires_grad_(true),
                                            b.clone().requires_grad_(true)};
    const torch::Tensor trained = attend(Linear({leaves[1]}, {leaves[2]})(leaves[0]));
    trained.backward(g);
    const torch::NoGradGuard no_grad;
    const torch::Tensor asked = attend(Linear({w}, {b})(x));
    return std::vector<torch::Tensor>{asked, trained.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  };
  const std::vector<torch::Tensor> in_model = run();
  UseAmxModel(false);
  const std::vector<torch::Tensor> without = run();
  ForceIsa("auto");
  const std::vector<torch::Tensor> by_instructions = run();
  for (size_t i = 0; i < without.size(); ++i) {
    EXPECT_TRUE(torch::equal(in_model[i], without[i])) << i;
    EXPECT_TRUE(torch::equal(by_instructions[i], without[i])) << i;
  }
}

}  // namespace
}  // namespace lshformer
