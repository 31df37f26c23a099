// Linear layers in bfloat16 and in 8-bit integers, attention in bfloat16: the products, and what a row of the result
// may depend on.
#include "kernels/low_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/execution.h"
#include "kernels/isa.h"
#include "kernels/matmul_precision.h"
#include "kernels/packed_linear.h"
#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/linear.h"
#include "ops/numbers.h"
#include "ops/sequences.h"
#include "ops/threads.h"
#include "util/errors.h"
#include "util/rounding.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::Random;
using testing::Sequences;
using testing::ToFloat;
using testing::WithinRounding;
using torch::Tensor;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

#define NEEDS(precision) \
  if (!SupportsProducts(precision)) GTEST_SKIP() << "this CPU has no instructions for " << Name(precision)

// The best instruction set without AMX tiles.
std::string BestWithoutAmx() {
  for (const std::string& isa : SupportedIsas()) {
    if (isa != "amx") return isa;
  }
  return "auto";
}

double RelativeError(const Tensor& got, const Tensor& want) {
  return ((got - want).norm() / want.norm()).item<double>();
}

struct Shape {
  int64_t out, in;
};
// Odd sizes that end inside a vector, all-MiniLM's and BERT base's layers.
const Shape kShapes[] = {{3, 7}, {33, 50}, {128, 512}, {1536, 384}, {768, 768}};

struct Layer {
  Layer(const Shape& shape, int64_t rows)
      : x(Random(rows * shape.in, 1)), weight(Random(shape.out * shape.in, 2, 0.1)), bias(Random(shape.out, 3)) {}
  PackedLinear Packed(Precision precision, const Shape& shape) const {
    return PackedLinear(precision, weight.data(), bias.data(), shape.out, shape.in);
  }
  std::vector<float> x, weight, bias;
};

// By what this machine has, or by the software model of AMX tiles, which any machine runs.
struct Way {
  Precision precision;
  bool amx_model = false;
};

class LowPrecisionTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    UseAmxModel(GetParam().amx_model);
    if (!GetParam().amx_model) NEEDS(precision());
  }
  ~LowPrecisionTest() override {
    UseAmxModel(false);
    SetAllThreads(HardwareThreads());
  }
  Precision precision() const { return GetParam().precision; }
};
INSTANTIATE_TEST_SUITE_P(Ways, LowPrecisionTest,
                         ::testing::Values(Way{Precision::kFloat32}, Way{Precision::kBFloat16}, Way{Precision::kInt8},
                                           Way{Precision::kFloat32, true}, Way{Precision::kBFloat16, true},
                                           Way{Precision::kInt8, true}),
                         [](const auto& info) {
                           return std::string(Name(info.param.precision)) + (info.param.amx_model ? "_tile_model" : "");
                         });

// A row of the result is the same bits alone, in any call and at any place in it, at one thread and at two.
TEST_P(LowPrecisionTest, RowsDoNotDependOnTheCall) {
  constexpr int64_t kRows = kMostPackedRows + 40;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(::testing::Message() << shape.out << " from " << shape.in);
    const Layer layer(shape, kRows);
    const PackedLinear linear = layer.Packed(precision(), shape);
    SetAllThreads(1);
    std::vector<float> all(kRows * shape.out), some(all.size());
    linear.Run(kRows, layer.x.data(), all.data(), UnaryFunction::kGelu);
    for (const int threads : {1, 2, 48}) {
      SetAllThreads(threads);
      for (int64_t rows = 1; rows <= kRows; rows += threads == 48 ? 173 : rows < 40 ? 1 : 37) {
        const int64_t first = (rows * 7) % (kRows - rows + 1);
        linear.Run(rows, layer.x.data() + first * shape.in, some.data(), UnaryFunction::kGelu);
        ASSERT_EQ(std::memcmp(some.data(), all.data() + first * shape.out, rows * shape.out * sizeof(float)), 0)
            << rows << " rows from " << first << ", " << threads << " threads";
      }
    }
  }
}

// The formula of packed_linear.h in double, with the same rounded factors.
TEST_P(LowPrecisionTest, AgreesWithDouble) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(::testing::Message() << shape.out << " from " << shape.in);
    const int64_t rows = 21, out = shape.out, in = shape.in;
    const Layer layer(shape, rows);
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
    std::vector<double> exact(rows * out), bounds(exact.size());
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < out; ++j) {
        double sum = layer.bias[j], size = std::abs(sum);
        for (int64_t k = 0; k < in; ++k)
          sum += x[i * in + k] * w[j * in + k], size += std::abs(x[i * in + k] * w[j * in + k]);
        exact[i * out + j] = sum;
        bounds[i * out + j] = static_cast<double>(in + 4) * 0x1p-24 * size;
      }
    std::vector<float> y(exact.size(), kNaN);
    layer.Packed(precision(), shape).Run(rows, layer.x.data(), y.data(), {});
    EXPECT_THAT(y, WithinRounding(exact, bounds));
    std::vector<float> activated(y.size());
    layer.Packed(precision(), shape).Run(rows, layer.x.data(), activated.data(), UnaryFunction::kGelu);
    ApplyFunction(UnaryFunction::kGelu, y, y.data());
    EXPECT_EQ(activated, y);
  }
}

// What is not finite stays in its row, and makes it not finite.
TEST_P(LowPrecisionTest, NotFiniteRows) {
  const Shape shape{8, 40};
  Layer layer(shape, 3);
  const PackedLinear linear = layer.Packed(precision(), shape);
  std::vector<float> before(3 * shape.out), after(before.size());
  linear.Run(3, layer.x.data(), before.data(), {});
  layer.x[45] = kNaN;
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
TEST(LowPrecisionWays, TilesOnlyWhereTheyAreActive) {
  const Shape shape{33, 50};
  const Layer layer(shape, 20);
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
TEST(LowPrecisionWays, EightBitsAreTheSameInTiles) {
  NEEDS(Precision::kInt8);
  ForceIsa(BestWithoutAmx());
  for (const Shape& shape : kShapes) {
    const int64_t rows = 37;
    Layer layer(shape, rows);
    layer.x[3] = kNaN;
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

// Attention between 8-bit layers is in bfloat16 where there are tiles; between float32's as MatmulPrecision says.
TEST(LowPrecisionWays, OperandsOfAttention) {
  ForceIsa(BestWithoutAmx());
  EXPECT_EQ(OperandsOf(Precision::kInt8), Operands::kFloat32);
  EXPECT_EQ(OperandsOf(Precision::kFloat32), Operands::kFloat32);
  EXPECT_EQ(OperandsOf(Precision::kBFloat16), Operands::kBFloat16);
  UseAmxModel(true);
  EXPECT_EQ(OperandsOf(Precision::kInt8), Operands::kBFloat16);
  EXPECT_EQ(OperandsOf(Precision::kFloat32), Operands::kFloat32);
  SetMatmulPrecision(MatmulPrecision::kHigh);
  EXPECT_EQ(OperandsOf(Precision::kFloat32), Operands::kTwoParts);
  SetMatmulPrecision(MatmulPrecision::kMedium);  // one product of rounded factors is what attention in bfloat16 does
  EXPECT_EQ(OperandsOf(Precision::kFloat32), Operands::kBFloat16);
  UseAmxModel(false);
  EXPECT_EQ(OperandsOf(Precision::kFloat32), Operands::kFloat32);
  SetMatmulPrecision(MatmulPrecision::kHighest);
  ForceIsa("auto");
}

// A weight is packed again where tiles come or go.
TEST(LowPrecisionWays, PackedAgainWhenTilesChange) {
  NEEDS(Precision::kBFloat16);
  ForceIsa(BestWithoutAmx());
  const torch::NoGradGuard no_grad;
  const Linear linear({torch::randn({24, 70})}, {torch::randn({24})});
  const Tensor x = torch::randn({5, 70}), plain = linear(x, Precision::kBFloat16);
  EXPECT_FALSE(linear.packed()->in_amx_tiles());
  UseAmxModel(true);
  const Tensor in_amx_tiles = linear(x, Precision::kBFloat16);
  EXPECT_TRUE(linear.packed()->in_amx_tiles());
  UseAmxModel(false);
  EXPECT_LT(RelativeError(in_amx_tiles, plain), 1e-6);
  EXPECT_TRUE(torch::equal(linear(x, Precision::kBFloat16), plain));
  ForceIsa("auto");
}

// Rounding to 8 bits of mantissa is off by at most 2^-9; independent errors of two factors average to less than 2^-8.
constexpr double kBf16Error = 0x1p-8;

void ExpectGradientsNearThoseOfFloat32() {
  torch::manual_seed(1);
  const Tensor x = torch::randn({70, 48}), w = torch::randn({36, 48}), b = torch::randn({36}),
               g = torch::randn({70, 36});
  std::vector<Tensor> results, grads[2];
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    std::vector<Tensor> in{x.clone().requires_grad_(true), w.clone().requires_grad_(true),
                           b.clone().requires_grad_(true)};
    const Tensor y = Linear({in[1]}, {in[2]})(in[0], precision);
    (y * g).sum().backward();
    results.push_back(y.detach());
    for (const Tensor& input : in) {
      EXPECT_EQ(input.grad().scalar_type(), torch::kFloat32);
      grads[results.size() - 1].push_back(input.grad());
    }
  }
  EXPECT_LT(RelativeError(results[1], results[0]), kBf16Error);
  EXPECT_GT(RelativeError(results[1], results[0]), 1e-5) << "nothing was rounded";
  EXPECT_LT(RelativeError(grads[1][0], grads[0][0]), kBf16Error);
  EXPECT_LT(RelativeError(grads[1][1], grads[0][1]), kBf16Error);
  EXPECT_TRUE(torch::equal(grads[1][2], grads[0][2])) << "the bias' gradient is a sum of float32";
  // With factors that bfloat16 holds exactly the two agree to the last bits.
  const auto whole = [](const Tensor& t) { return (t * 4).round(); };
  Tensor exact_x = whole(x).requires_grad_(true);
  const Tensor y = Linear({whole(w)}, {b})(exact_x, Precision::kBFloat16);
  EXPECT_LT(RelativeError(y.detach(), LinearReference(whole(x), whole(w), b)), 1e-6);
}

TEST(LowPrecisionLinear, GradientsAreNearThoseOfFloat32) {
  NEEDS(Precision::kBFloat16);
  ExpectGradientsNearThoseOfFloat32();
}

TEST(LowPrecisionLinear, GradientsInTilesAreNearThoseOfFloat32) {
  UseAmxModel(true);
  ExpectGradientsNearThoseOfFloat32();
  UseAmxModel(false);
}

// Sums of small whole numbers are exact, so that all three products are those of float32 bit for bit; and a row's are
// its own.
TEST(LowPrecisionLinear, ProductsOfTrainingInTiles) {
  torch::manual_seed(2);
  UseAmxModel(true);
  for (const auto& [rows, out, in] : {std::tuple{1, 1, 1}, {33, 17, 70}, {64, 48, 32}, {45, 96, 31}}) {
    SCOPED_TRACE(::testing::Message() << rows << " rows, " << out << " from " << in);
    const auto whole = [](at::IntArrayRef sizes) { return torch::randint(-8, 9, sizes).to(torch::kFloat32); };
    const Tensor x = whole({rows, in}), w = whole({out, in}), b = whole({out}), g = whole({rows, out});
    const auto run = [&](const Tensor& input, const Tensor& grad, Precision precision) {
      const std::vector<Tensor> leaves{input.clone().requires_grad_(true), w.clone().requires_grad_(true),
                                       b.clone().requires_grad_(true)};
      const Tensor y = Linear({leaves[1]}, {leaves[2]})(leaves[0], precision);
      y.backward(grad);
      return std::vector<Tensor>{y.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
    };
    const std::vector<Tensor> got = run(x, g, Precision::kBFloat16), want = run(x, g, Precision::kFloat32);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(torch::equal(got[i], want[i])) << "tensor " << i;
    const Tensor some = torch::randn({rows, in}), grads = torch::randn({rows, out});
    const std::vector<Tensor> all = run(some, grads, Precision::kBFloat16),
                              last = run(some.slice(0, rows - 1), grads.slice(0, rows - 1), Precision::kBFloat16);
    for (const size_t i : {0, 1}) EXPECT_TRUE(torch::equal(last[i], all[i].slice(0, rows - 1))) << "tensor " << i;
  }
  UseAmxModel(false);
}

TEST(LowPrecisionLinear, PackedAgainWhenThePrecisionChanges) {
  NEEDS(Precision::kInt8);
  NEEDS(Precision::kBFloat16);
  const torch::NoGradGuard no_grad;
  const Linear linear({torch::randn({24, 32})}, {torch::randn({24})});
  const Tensor x = torch::randn({5, 32}), want = linear(x);
  EXPECT_LT(RelativeError(linear(x, Precision::kInt8), want), 0.02);
  EXPECT_FALSE(torch::equal(linear(x, Precision::kInt8), want));
  EXPECT_LT(RelativeError(linear(x, Precision::kBFloat16), want), kBf16Error);
  EXPECT_TRUE(torch::equal(linear(x), want));
  EXPECT_TRUE(torch::equal(linear.Then(UnaryFunction::kRelu, x), torch::relu(want)));
}

// By pieces, as one after the other, and with gradients; in tiles too, where rows between two maps in bfloat16 are
// never float32.
class TwoMaps : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) UseAmxModel(true);
  }
  void TearDown() override { UseAmxModel(false); }
};
INSTANTIATE_TEST_SUITE_P(LowPrecisionLinear, TwoMaps, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "tile_model" : "plain"; });

TEST_P(TwoMaps, InARow) {
  const Linear first({torch::randn({40, 24})}, {torch::randn({40})}),
      second({torch::randn({12, 40})}, {torch::randn({12})});
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16, Precision::kInt8}) {
    if (!GetParam() && !SupportsProducts(precision)) continue;
    for (const int64_t rows : {int64_t{0}, int64_t{1}, kMostPackedRows, 2 * kMostPackedRows + 3}) {
      const torch::NoGradGuard no_grad;
      const Tensor x = torch::randn({rows, 24});
      const Tensor want = second(first.Then(UnaryFunction::kGelu, x, precision), precision);
      const Tensor got = first.Then(UnaryFunction::kGelu, second, x, precision);
      // Before it is rounded to bfloat16, GELU is computed as far as that keeps it.
      const bool rounded = precision == Precision::kBFloat16 && ActiveAmxTiles() != AmxTiles::kNone;
      if (!rounded) {
        EXPECT_TRUE(torch::equal(got, want)) << rows << " rows";
      } else if (rows > 0) {
        EXPECT_LT(RelativeError(got, want), kBf16Error / 4) << rows << " rows";
      }
      const Tensor with_relu = second(first.Then(UnaryFunction::kRelu, x, precision), precision);
      EXPECT_TRUE(torch::equal(first.Then(UnaryFunction::kRelu, second, x, precision), with_relu)) << rows << " rows";
    }
  }
  const Tensor x = torch::randn({5, 24}).requires_grad_(true);
  first.Then(UnaryFunction::kGelu, second, x).sum().backward();
  EXPECT_TRUE(x.grad().defined());
  const torch::NoGradGuard no_grad;
  EXPECT_THAT(ErrorOf([&] { first.Then(UnaryFunction::kGelu, first, x); }),
              HasSubstr("40 outputs for a map of 24 inputs"));
}

TEST(LowPrecisionLinear, Int8HasNoGradients) {
  const Linear linear({torch::randn({6, 8}).requires_grad_(true)}, {torch::randn({6})});
  EXPECT_THAT(ErrorOf([&] { linear(torch::randn({4, 8}), Precision::kInt8); }), HasSubstr("int8 is for inference"));
  EXPECT_THAT(
      ErrorOf([&] {
        DecoderCrossEntropy(torch::randn({1, 4}), torch::randn({5, 4}), torch::randn({5}), {0}, Precision::kInt8);
      }),
      HasSubstr("int8 has no gradients"));
}

// The parameter: in the model of AMX tiles.
class LowPrecisionCrossEntropy : public ::testing::TestWithParam<bool> {
 protected:
  struct Result {
    Tensor loss;
    std::vector<Tensor> grads;  // of hidden, weight, bias
  };
  static Result Run(int64_t rows, int64_t words, Precision precision) {
    torch::manual_seed(rows);
    std::vector<Tensor> in{torch::randn({rows, 32}), torch::randn({words, 32}) * 0.2, torch::randn({words})};
    for (Tensor& t : in) t.requires_grad_(true);
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < rows; ++i) labels.push_back(static_cast<int32_t>(i * 911 % words));
    const Tensor loss = DecoderCrossEntropy(in[0], in[1], in[2], labels, precision);
    loss.backward();
    return {loss, {in[0].grad(), in[1].grad(), in[2].grad()}};
  }
  void TearDown() override { UseAmxModel(false); }
};
INSTANTIATE_TEST_SUITE_P(Ways, LowPrecisionCrossEntropy, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "in_tiles" : "without_tiles"; });

TEST_P(LowPrecisionCrossEntropy, NearFloat32) {
  if (!GetParam()) NEEDS(Precision::kBFloat16);
  for (const int64_t rows : {int64_t{7}, int64_t{40}, kCrossEntropyRows + 3})
    for (const int64_t words : {30, 2051}) {
      const Result want = Run(rows, words, Precision::kFloat32);
      UseAmxModel(GetParam());
      const Result got = Run(rows, words, Precision::kBFloat16);
      UseAmxModel(false);
      EXPECT_NEAR(got.loss.item<double>(), want.loss.item<double>(), 2e-3 * want.loss.item<double>());
      for (int i = 0; i < 3; ++i) EXPECT_LT(RelativeError(got.grads[i], want.grads[i]), 2 * kBf16Error) << i;
    }
}

TEST(LowPrecisionCrossEntropyInTiles, IsInTilesAndTheSameOnAnyNumberOfThreads) {
  UseAmxModel(true);
  const int threads = Threads();
  SetThreads(1);
  torch::manual_seed(3);
  const Tensor hidden = torch::randn({70, 32}), weight = torch::randn({100, 32});
  const auto gradient = [&](Precision precision) {
    const Tensor h = hidden.clone().requires_grad_(true), w = weight.clone().requires_grad_(true);
    DecoderCrossEntropy(h, w, torch::zeros({100}), std::vector<int32_t>(70, 5), precision).backward();
    return torch::cat({h.grad(), w.grad()});
  };
  const Tensor alone = gradient(Precision::kBFloat16);
  SetThreads(3);
  EXPECT_TRUE(torch::equal(gradient(Precision::kBFloat16), alone));
  SetThreads(threads);
  UseAmxModel(false);
  // Where the processor has tiles oneDNN goes through them too.
  if (!SupportsProducts(Precision::kBFloat16) || SupportedIsas().front() == "amx") return;
  EXPECT_FALSE(torch::equal(gradient(Precision::kBFloat16), alone)) << "tiles sum even and odd terms apart";
}

// The same pairs, planned in float32; only products are rounded.
TEST(SelfAttention, InBFloat16IsNearFloat32) {
  if (!Supports(Operands::kBFloat16)) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  for (AttentionSpec spec : AttentionKinds()) {
    spec.min_length = 0;
    if (Is<ReformerAttention>(spec)) As<ReformerAttention>(spec).chunk = 16;
    const std::vector<float> values = Random(150 * 3 * 2 * 24, 30);
    std::vector<Tensor> outs, grads;
    for (const Operands operands : {Operands::kFloat32, Operands::kBFloat16}) {
      auto options = std::make_shared<AttentionOptions>();
      options->spec = std::make_shared<const AttentionSpec>(spec);
      options->heads = 2;
      options->operands = operands;
      options->sequences = Sequences({0, 100, 150});
      const Tensor qkv = torch::tensor(values).view({150, -1}).slice(1, 0, PartsOf(spec) * 48).clone();
      qkv.requires_grad_(true);
      outs.push_back(SelfAttention(qkv, options));
      outs.back().square().sum().backward();
      grads.push_back(qkv.grad());
      EXPECT_EQ(outs.back().scalar_type(), torch::kFloat32);
    }
    EXPECT_LT(RelativeError(outs[1], outs[0]), 2 * kBf16Error) << Name(spec);
    EXPECT_GT(RelativeError(outs[1], outs[0]), 1e-5) << "nothing was rounded";
    EXPECT_LT(RelativeError(grads[1], grads[0]), 4 * kBf16Error) << Name(spec);
  }
}

}  // namespace
}  // namespace lshformer
