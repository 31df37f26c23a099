// Linear layers packed for inference, in float32, bfloat16 and 8-bit integers: the products, and what a row of the
// result may depend on.
#include "kernels/packed_linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/isa.h"
#include "kernels/low_precision.h"
#include "kernels/ref/matmul.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {
namespace {

#define NEEDS(precision) \
  if (!SupportsProducts(precision)) GTEST_SKIP() << "this CPU has no instructions for " << Name(precision)

// The best instruction set without AMX tiles.
std::string BestWithoutAmx() {
  for (const std::string& isa : SupportedIsas()) {
    if (isa != "amx") return isa;
  }
  return "auto";
}

struct MapShape {
  int64_t out, in;
};
// Odd sizes that end inside a vector, all-MiniLM's and BERT base's layers.
const MapShape kMapShapes[] = {{3, 7}, {33, 50}, {128, 512}, {1536, 384}, {768, 768}};

struct PackedLayer {
  PackedLayer(const MapShape& shape, int64_t rows)
      : x(Random(rows * shape.in, 1)), weight(Random(shape.out * shape.in, 2, 0.1)), bias(Random(shape.out, 3)) {}
  PackedLinear Packed(Precision precision, const MapShape& shape) const {
    return PackedLinear(precision, weight.data(), bias.data(), shape.out, shape.in);
  }
  std::vector<float> x, weight, bias;
};

// By what this machine has, or by the software model of AMX tiles, which any machine runs.
struct PackedWay {
  Precision precision;
  bool amx_model = false;
};

class PackedLinearTest : public ::testing::TestWithParam<PackedWay> {
 protected:
  void SetUp() override {
    UseAmxModel(GetParam().amx_model);
    if (!GetParam().amx_model) NEEDS(precision());
  }
  ~PackedLinearTest() override {
    UseAmxModel(false);
    SetThreads(HardwareThreads());
  }
  Precision precision() const { return GetParam().precision; }
};
INSTANTIATE_TEST_SUITE_P(Ways, PackedLinearTest,
                         ::testing::Values(PackedWay{Precision::kFloat32}, PackedWay{Precision::kBFloat16},
                                           PackedWay{Precision::kInt8}, PackedWay{Precision::kFloat32, true},
                                           PackedWay{Precision::kBFloat16, true}, PackedWay{Precision::kInt8, true}),
                         [](const auto& info) {
                           return std::string(Name(info.param.precision)) + (info.param.amx_model ? "_tile_model" : "");
                         });

// A row of the result is the same bits alone, in any call and at any place in it, at one thread and at two.
TEST_P(PackedLinearTest, RowsDoNotDependOnTheCall) {
  constexpr int64_t kRows = kMostPackedRows + 40;
  for (const MapShape& shape : kMapShapes) {
    SCOPED_TRACE(::testing::Message() << shape.out << " from " << shape.in);
    const PackedLayer layer(shape, kRows);
    const PackedLinear linear = layer.Packed(precision(), shape);
    SetThreads(1);
    std::vector<float> all(kRows * shape.out), some(all.size());
    linear.Run(kRows, layer.x.data(), all.data(), UnaryFunction::kGelu);
    for (const int threads : {1, 2, 48}) {
      SetThreads(threads);
      for (int64_t rows = 1; rows <= kRows; rows += threads == 48 ? 173 : rows < 40 ? 1 : 37) {
        const int64_t first = (rows * 7) % (kRows - rows + 1);
        linear.Run(rows, layer.x.data() + first * shape.in, some.data(), UnaryFunction::kGelu);
        ASSERT_EQ(std::memcmp(some.data(), all.data() + first * shape.out, rows * shape.out * sizeof(float)), 0)
            << rows << " rows from " << first << ", " << threads << " threads";
      }
    }
  }
}

// Results in bfloat16 are those in float32, rounded.
TEST_P(PackedLinearTest, MayRoundItsResults) {
  constexpr int64_t kRows = kMostPackedRows + 40;
  for (const MapShape& shape : kMapShapes) {
    SCOPED_TRACE(::testing::Message() << shape.out << " from " << shape.in);
    const PackedLayer layer(shape, kRows);
    const PackedLinear linear = layer.Packed(precision(), shape);
    std::vector<float> want(kRows * shape.out);
    linear.Run(kRows, layer.x.data(), want.data(), {});
    std::vector<BFloat16> rounded(want.size()), got(want.size());
    RoundRows(want.data(), shape.out, kRows, shape.out, rounded.data());
    for (const int threads : {1, 3}) {
      SetThreads(threads);
      linear.Run(kRows, layer.x.data(), got.data(), {});
      EXPECT_EQ(std::memcmp(got.data(), rounded.data(), got.size() * sizeof(BFloat16)), 0) << threads << " threads";
    }
  }
}

// The formula of packed_linear.h in double, with the same rounded factors.
TEST_P(PackedLinearTest, AgreesWithDouble) {
  for (const MapShape& shape : kMapShapes) {
    SCOPED_TRACE(::testing::Message() << shape.out << " from " << shape.in);
    const int64_t rows = 21, out = shape.out, in = shape.in;
    const PackedLayer layer(shape, rows);
    std::vector<double> x(layer.x.begin(), layer.x.end()), w(layer.weight.begin(), layer.weight.end());
    if (precision() == Precision::kBFloat16) {
      std::vector<BFloat16> low(layer.x.size()), low_w(layer.weight.size());
      RoundRows(layer.x.data(), in, rows, in, low.data());
      RoundRows(layer.weight.data(), in, out, in, low_w.data());
      std::transform(low.begin(), low.end(), x.begin(), ToFloat);
      std::transform(low_w.begin(), low_w.end(), w.begin(), ToFloat);
    } else if (precision() == Precision::kInt8) {
      std::vector<uint8_t> low(layer.x.size());
      std::vector<RowScale> scales(rows);
      QuantizeRows(layer.x.data(), rows, in, low.data(), scales.data());
      for (int64_t i = 0; i < rows * in; ++i) x[i] = double{scales[i / in].scale} * (low[i] - scales[i / in].zero);
      std::vector<int8_t> low_w(layer.weight.size());
      std::vector<float> scales_w(out);
      std::vector<int32_t> sums(out);
      QuantizeWeight(layer.weight.data(), out, in, low_w.data(), scales_w.data(), sums.data());
      for (int64_t i = 0; i < out * in; ++i) w[i] = double{scales_w[i / in]} * low_w[i];
    }
    ref::ProductSums exact = ref::Multiply(
        rows, out, in, [&](int64_t i, int64_t c) { return x[i * in + c]; },
        [&](int64_t c, int64_t j) { return w[j * in + c]; });
    for (int64_t i = 0; i < rows * out; ++i) {
      exact.sums[i] += layer.bias[i % out];
      exact.sizes[i] = static_cast<double>(in + 4) * kFloatEps * (exact.sizes[i] + std::abs(layer.bias[i % out]));
    }
    std::vector<float> y(exact.sums.size(), kNotANumber);
    layer.Packed(precision(), shape).Run(rows, layer.x.data(), y.data(), {});
    EXPECT_THAT(y, WithinRounding(exact.sums, exact.sizes));
    std::vector<float> activated(y.size());
    layer.Packed(precision(), shape).Run(rows, layer.x.data(), activated.data(), UnaryFunction::kGelu);
    ApplyFunction(UnaryFunction::kGelu, y, y.data());
    EXPECT_EQ(activated, y);
  }
}

// What is not finite stays in its row, and makes it not finite.
TEST_P(PackedLinearTest, NotFiniteRows) {
  const MapShape shape{8, 40};
  PackedLayer layer(shape, 3);
  const PackedLinear linear = layer.Packed(precision(), shape);
  std::vector<float> before(3 * shape.out), after(before.size());
  linear.Run(3, layer.x.data(), before.data(), {});
  layer.x[45] = kNotANumber;
  linear.Run(3, layer.x.data(), after.data(), {});
  for (int64_t i = 0; i < 3 * shape.out; ++i) {
    if (i / shape.out == 1) {
      EXPECT_TRUE(std::isnan(after[i]));
    } else {
      EXPECT_EQ(after[i], before[i]);
    }
  }
}

// Without AMX tiles the code for them is not entered: the bits are those of oneDNN's product.
TEST(PackedLinearWays, TilesOnlyWhereTheyAreActive) {
  const MapShape shape{33, 50};
  const PackedLayer layer(shape, 20);
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16, Precision::kInt8}) {
    if (!SupportsProducts(precision)) continue;
    const bool low = precision != Precision::kFloat32;
    EXPECT_EQ(layer.Packed(precision, shape).in_amx_tiles(),
              low && ActiveAmxTiles() != AmxTiles::kNone);  // too small for float32
    UseAmxModel(true);
    EXPECT_EQ(layer.Packed(precision, shape).in_amx_tiles(), low);
    UseAmxModel(false);
  }
  NEEDS(Precision::kBFloat16);
  ForceIsa(BestWithoutAmx());
  std::vector<BFloat16> x(layer.x.size()), w(layer.weight.size());
  RoundRows(layer.x.data(), shape.in, 20, shape.in, x.data());
  RoundRows(layer.weight.data(), shape.in, shape.out, shape.in, w.data());
  std::vector<float> want(20 * shape.out), got(want.size());
  PackedMatrix(MatrixOf<BFloat16>{w.data(), 1, shape.in}, shape.in, shape.out)
      .Multiply(20, x.data(), shape.in, layer.bias.data(), want.data(), shape.out);
  layer.Packed(Precision::kBFloat16, shape).Run(20, layer.x.data(), got.data(), {});
  EXPECT_EQ(got, want);
  ForceIsa("auto");
}

// Sums of bytes are exact, so that 8-bit layers give the same bits by every way.
TEST(PackedLinearWays, EightBitsAreTheSameInTiles) {
  NEEDS(Precision::kInt8);
  ForceIsa(BestWithoutAmx());
  for (const MapShape& shape : kMapShapes) {
    const int64_t rows = 37;
    PackedLayer layer(shape, rows);
    layer.x[3] = kNotANumber;
    std::vector<float> want(rows * shape.out), got(want.size());
    layer.Packed(Precision::kInt8, shape).Run(rows, layer.x.data(), want.data(), UnaryFunction::kGelu);
    UseAmxModel(true);
    layer.Packed(Precision::kInt8, shape).Run(rows, layer.x.data(), got.data(), UnaryFunction::kGelu);
    UseAmxModel(false);
    EXPECT_EQ(std::memcmp(got.data() + shape.out, want.data() + shape.out, (rows - 1) * shape.out * sizeof(float)), 0)
        << shape.out << " from " << shape.in;
    EXPECT_TRUE(std::all_of(got.begin(), got.begin() + shape.out, [](float y) { return std::isnan(y); }));
  }
  ForceIsa("auto");
}

}  // namespace
}  // namespace lshformer::testing
