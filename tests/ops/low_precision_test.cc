// Linear layers in bfloat16 and in 8-bit integers, the loss and attention in bfloat16: which way they go, and
// gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/decoder_cross_entropy.h"
#include "kernels/execution.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "kernels/matmul_precision.h"
#include "kernels/packed_linear.h"
#include "ops/attention.h"
#include "ops/decoder_cross_entropy.h"
#include "ops/linear.h"
#include "ops/sequences.h"
#include "ops/threads.h"
#include "util/errors.h"
#include "util/numbers.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::Random;
using testing::Sequences;
using torch::Tensor;

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

// Attention between 8-bit layers is in bfloat16 where that takes less time; between float32's as MatmulPrecision says.
TEST(LowPrecisionWays, OperandsOfAttention) {
  for (const std::string& isa : SupportedIsas()) {
    if (isa == "amx" || isa == "avx512") continue;
    ForceIsa(isa);
    EXPECT_EQ(OperandsOf(Precision::kInt8), Operands::kFloat32) << isa;
  }
  ForceIsa(BestWithoutAmx());
  const bool pays = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_is("amd");
  EXPECT_EQ(OperandsOf(Precision::kInt8), pays ? Operands::kBFloat16 : Operands::kFloat32);
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
      // Before it is rounded, GELU is computed as far as bfloat16, or a byte, keeps it: some bytes are one more or
      // less.
      const bool tiles = ActiveAmxTiles() != AmxTiles::kNone;
      const bool rounded = precision == (tiles ? Precision::kBFloat16 : Precision::kInt8);
      if (!rounded) {
        EXPECT_TRUE(torch::equal(got, want)) << rows << " rows";
      } else if (rows > 0) {
        EXPECT_LT(RelativeError(got, want), kBf16Error / (rows == 1 ? 1 : 4)) << rows << " rows";
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
      const Tensor qkv = torch::tensor(values).view({150, -1}).slice(1, 0, SlicesOf(spec) * 48).clone();
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
