// Functions computed again in the backward, and reversible layers made of them.
#include "ops/reversible.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/linear.h"
#include "ops/recompute.h"
#include "ops/row_ops.h"
#include "ops/tensor_memory.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using torch::Tensor;

constexpr double kEps = 0x1p-24;

Tensor Normal(std::vector<int64_t> shape, uint64_t seed, double scale = 1) {
  torch::manual_seed(seed);
  return torch::randn(shape, torch::kFloat32) * scale;
}

// x ↦ W · gelu(x) + b.
RowFunction MakeFunction(int64_t hidden, uint64_t seed, double scale = 1, int64_t chunk = 0) {
  const Tensor weight = (Normal({hidden, hidden}, seed, scale / std::sqrt(hidden))).requires_grad_(true);
  const Tensor bias = Normal({hidden}, seed + 1, scale).requires_grad_(true);
  const auto run = [linear = Linear({weight}, {bias})](const Tensor& x, const RowCall&) {
    return linear(Apply(UnaryFunction::kGelu, x));
  };
  return {run, {weight, bias}, chunk};
}

std::vector<ReversibleLayer> MakeLayers(int count, int64_t hidden, double scale = 0.5) {
  std::vector<ReversibleLayer> layers;
  for (int layer = 0; layer < count; ++layer)
    layers.push_back({MakeFunction(hidden, 100 + 4 * layer, scale), MakeFunction(hidden, 102 + 4 * layer, scale)});
  return layers;
}

// The gradients of Σ y · g by x and every parameter; .grad is left empty.
std::vector<Tensor> Gradients(const Tensor& y, const Tensor& g, const Tensor& x,
                              const std::vector<Tensor>& parameters) {
  (y * g).sum().backward();
  std::vector<Tensor> leaves{x}, gradients;
  leaves.insert(leaves.end(), parameters.begin(), parameters.end());
  for (const Tensor& leaf : leaves) {
    gradients.push_back(leaf.grad().clone());
    leaf.mutable_grad().reset();
  }
  return gradients;
}

TEST(RecomputeTest, ChangesNoBit) {
  const RowFunction function = MakeFunction(40, 1);
  const Tensor x = Normal({130, 40}, 3).requires_grad_(true), g = Normal({130, 40}, 4);
  const Tensor plain = function.run(x, {}), again = Recomputed(function, x);
  EXPECT_TRUE(again.equal(plain));
  const auto want = Gradients(plain, g, x, function.parameters), got = Gradients(again, g, x, function.parameters);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(got[i].equal(want[i])) << i;
}

// Pieces of every size, the last one short: values and the gradient by x bit for bit. A gradient by a parameter is a
// sum of `rows` terms in another order: each order is within rows · eps · Σ |term| of the exact sum.
TEST(RecomputeTest, PiecesChangeNothingButTheOrderOfSums) {
  const int64_t rows = 130, hidden = 40;
  const Tensor x = Normal({rows, hidden}, 3).requires_grad_(true), g = Normal({rows, hidden}, 4);
  RowFunction function = MakeFunction(hidden, 1);
  const Tensor plain = function.run(x, {});
  const auto want = Gradients(plain, g, x, function.parameters);
  const Tensor act = ApplyReference(UnaryFunction::kGelu, x.detach());
  const std::vector<Tensor> sizes{torch::matmul(g.abs().t(), act.abs()), g.abs().sum(0)};
  for (const int64_t chunk : {1, 7, 64, 129, 130, 1000}) {
    SCOPED_TRACE(chunk);
    function.chunk = chunk;
    const Tensor pieces = Recomputed(function, x);
    EXPECT_TRUE(pieces.equal(plain));
    const auto got = Gradients(pieces, g, x, function.parameters);
    EXPECT_TRUE(got[0].equal(want[0]));
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(((got[i + 1] - want[i + 1]).abs() <= 2 * rows * kEps * sizes[i]).all().item<bool>()) << i;
  }
}

TEST(RecomputeTest, SaysWhereAPieceBeginsAndThatItComesAgain) {
  std::vector<std::pair<int64_t, bool>> calls;
  RowFunction function;
  function.run = [&](const Tensor& x, const RowCall& call) {
    calls.emplace_back(call.begin, call.again);
    return x * 2;
  };
  function.chunk = 4;
  const Tensor x = Normal({9, 3}, 1).requires_grad_(true);
  Recomputed(function, x).sum().backward();
  EXPECT_EQ(calls, (std::vector<std::pair<int64_t, bool>>{{0, 0}, {4, 0}, {8, 0}, {0, 1}, {4, 1}, {8, 1}}));
  EXPECT_TRUE(x.grad().eq(2).all().item<bool>());
  const torch::NoGradGuard no_grad;
  calls.clear();
  EXPECT_FALSE(Recomputed(function, x).requires_grad());
  EXPECT_EQ(calls.size(), 3u);
}

TEST(RecomputeTest, NoRowsAtAll) {
  const Tensor scale = Normal({8}, 1).requires_grad_(true), x = torch::empty({0, 8}).requires_grad_(true);
  const RowFunction function{[scale](const Tensor& rows, const RowCall&) { return rows * scale; }, {scale}, 4};
  const Tensor y = Recomputed(function, x);
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{0, 8}));
  y.sum().backward();
  EXPECT_TRUE(scale.grad().eq(0).all().item<bool>());
}

// Whatever a function sees on the way back, it saw on the way there: no error at all after 24 layers, for streams of
// size 1 and for streams of hundreds of thousands.
TEST(ReversibleTest, StreamsAreRebuiltBitForBit) {
  for (const double scale : {1.0, 1e3, 3e4}) {
    std::vector<Tensor> first, again;
    std::vector<ReversibleLayer> layers = MakeLayers(24, 32);
    for (ReversibleLayer& layer : layers)
      for (RowFunction* half : {&layer.f, &layer.g})
        half->run = [&, run = half->run](const Tensor& x, const RowCall& call) {
          (call.again ? again : first).push_back(x.detach().clone());
          return run(x, call);
        };
    const Tensor x = Normal({50, 32}, 3, scale).requires_grad_(true);
    RunReversible(x, layers).sum().backward();
    ASSERT_EQ(first.size(), 48u);
    ASSERT_EQ(again.size(), 48u);
    for (size_t i = 0; i < 48; ++i) EXPECT_TRUE(again[47 - i].equal(first[i])) << "scale " << scale << ", half " << i;
    const double largest = first.back().abs().max().item<double>();
    std::cout << "scale " << scale << ": streams up to " << largest << "\n";
    EXPECT_LT(largest, 0x1p21) << "the streams must stay where sums are exact";
  }
}

// Beyond 2²¹ a sum is rounded, once a half: what is rebuilt is off by 2⁻⁵³ of the stream a half, and the float that a
// function sees by one unit in the last place where that crosses a border of floats.
TEST(ReversibleTest, BeyondTheExactRangeErrorsAreThoseOfDoubles) {
  std::vector<Tensor> first, again;
  std::vector<ReversibleLayer> layers = MakeLayers(24, 32, 0.1);
  for (ReversibleLayer& layer : layers)
    layer.f.run = [&, run = layer.f.run](const Tensor& x, const RowCall& call) {
      (call.again ? again : first).push_back(x.detach().clone());
      return torch::tanh(run(x * 1e-12, call)) * 1e11;
    };
  const Tensor x = (Normal({50, 32}, 3) * 1e12).requires_grad_(true);
  RunReversible(x, layers).sum().backward();
  for (size_t i = 0; i < 24; ++i)
    EXPECT_TRUE(torch::allclose(again[23 - i], first[i], /*rtol=*/2 * 0x1p-23, /*atol=*/1)) << i;
}

// Against torch's own graph with everything stored: values bit for bit. Gradients differ in the sums of the two
// gradient streams, floats here and doubles there: 4 roundings a layer, of numbers no larger than a few of the result.
TEST(ReversibleTest, AgreesWithStoredActivations) {
  const int count = 6;
  const std::vector<ReversibleLayer> layers = MakeLayers(count, 32);
  std::vector<Tensor> parameters;
  for (const ReversibleLayer& layer : layers)
    for (const RowFunction* half : {&layer.f, &layer.g})
      parameters.insert(parameters.end(), half->parameters.begin(), half->parameters.end());
  const Tensor x = Normal({70, 32}, 3).requires_grad_(true), g = Normal({70, 32}, 4);
  const Tensor got = RunReversible(x, layers), want = RunReversibleReference(x, layers);
  EXPECT_TRUE(got.equal(want));
  const auto mine = Gradients(got, g, x, parameters), stored = Gradients(want, g, x, parameters);
  for (size_t i = 0; i < mine.size(); ++i) {
    const double bound = 4 * count * 4 * kEps * stored[i].abs().max().item<double>();
    EXPECT_LE((mine[i] - stored[i]).abs().max().item<double>(), bound) << i;
    EXPECT_GT(stored[i].abs().max().item<double>(), 0) << i;
  }
}

// The oracle itself, by central differences. F and G see floats, so a step must be large: 2⁻⁷, with an error of its
// square times the third derivative.
TEST(ReversibleTest, OracleAgreesWithDifferences) {
  const std::vector<ReversibleLayer> layers = MakeLayers(3, 8);
  const Tensor x = Normal({5, 8}, 3).requires_grad_(true), g = Normal({5, 8}, 4);
  const auto value = [&] { return (RunReversibleReference(x, layers) * g).sum().item<double>(); };
  const Tensor gradient = Gradients(RunReversibleReference(x, layers), g, x, {})[0];
  const torch::NoGradGuard no_grad;
  for (const int64_t k : {0, 7, 13, 26, 39}) {
    Tensor flat = x.view({-1});
    const float kept = flat[k].item<float>(), step = 0x1p-7f;
    flat[k] = kept + step;
    const double up = value();
    flat[k] = kept - step;
    const double down = value();
    flat[k] = kept;
    EXPECT_NEAR(gradient.view({-1})[k].item<double>(), (up - down) / (2 * step), 2e-3) << k;
  }
}

TEST(ReversibleTest, OneBackwardAForward) {
  const std::vector<ReversibleLayer> layers = MakeLayers(2, 8);
  const Tensor x = Normal({5, 8}, 3).requires_grad_(true);
  const Tensor y = RunReversible(x, layers).sum();
  y.backward({}, /*retain_graph=*/true);
  EXPECT_THAT(ErrorOf([&] { y.backward(); }), HasSubstr("a second backward needs a forward of its own"));
  EXPECT_THAT(ErrorOf([&] { RunReversible(x.to(torch::kFloat64), layers); }), HasSubstr("expected float32"));
}

TEST(ReversibleTest, GivesOnlyTheGradientsAskedFor) {
  const std::vector<ReversibleLayer> layers = MakeLayers(2, 8);
  const Tensor x = Normal({5, 8}, 3).requires_grad_(true);
  RunReversible(x, layers).sum().backward({}, c10::nullopt, false, std::vector<Tensor>{x});
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(layers[0].f.parameters[0].grad().defined());
}

TEST(ReversibleTest, VisitsTheMeanBehindEveryLayer) {
  const std::vector<ReversibleLayer> layers = MakeLayers(3, 8);
  const Tensor x = Normal({5, 8}, 3);
  std::vector<Tensor> seen;
  const Tensor y = RunReversible(x, layers, [&](const Tensor& mean) { seen.push_back(mean); });
  ASSERT_EQ(seen.size(), 3u);
  for (size_t count = 1; count <= 3; ++count) {
    const std::vector<ReversibleLayer> some(layers.begin(), layers.begin() + count);
    EXPECT_TRUE(seen[count - 1].equal(RunReversible(x, some)));
    EXPECT_FALSE(seen[count - 1].requires_grad());
  }
  EXPECT_TRUE(seen.back().equal(y));
}

TEST(TensorMemoryTest, CountsWhatIsAlive) {
  const Tensor before = torch::empty({1000});
  Tensor outlives;
  {
    const TensorMemory memory;
    EXPECT_EQ(memory.bytes(), 0);
    {
      const Tensor large = torch::empty({1 << 20});
      EXPECT_EQ(memory.bytes(), 4 << 20);
    }
    outlives = torch::empty({256});
    EXPECT_EQ(memory.bytes(), 1024);
    EXPECT_EQ(memory.peak(), 4 << 20);
    EXPECT_THAT(ErrorOf([] { TensorMemory second; }), HasSubstr("already"));
  }
  const TensorMemory memory;
  outlives = Tensor();  // counted by the one before, not by this one
  EXPECT_EQ(memory.bytes(), 0);
  EXPECT_EQ(memory.peak(), 0);
}

// Activations of reversible layers: what 2 layers take, 24 take.
TEST(ReversibleTest, MemoryDoesNotGrowWithDepth) {
  const auto peak = [](int count) {
    const std::vector<ReversibleLayer> layers = MakeLayers(count, 16);
    const Tensor x = Normal({4096, 16}, 3).requires_grad_(true);
    const TensorMemory memory;
    RunReversible(x, layers).sum().backward({}, c10::nullopt, false, std::vector<Tensor>{x});
    return memory.peak();
  };
  const int64_t two = peak(2);
  EXPECT_LE(peak(24), two + 4096);
  EXPECT_LE(two, 16 * 4096 * 16 * 4);
}

}  // namespace
}  // namespace lshformer
