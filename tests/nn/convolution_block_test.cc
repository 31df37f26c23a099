// QANet's block against its formula in double, written with torch alone: values and gradients, with dropout and
// stochastic depth; reversible blocks against the graph that keeps everything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/philox.h"
#include "nn/convolution_encoder.h"
#include "ops/depthwise_convolution.h"

namespace lshformer {
namespace {

using torch::Tensor;

EncoderConfig Config(const char* attention = "dense", bool reversible = false, double dropout = 0.2) {
  EncoderConfig config;
  config.hidden_size = 12, config.num_attention_heads = 3, config.num_hidden_layers = 2;
  config.hidden_dropout_prob = dropout, config.attention_probs_dropout_prob = 0, config.layer_norm_eps = 1e-6;
  config.reversible = reversible;
  AttentionSpec spec = ParseAttentionSpec(attention, "test");
  if (Is<ReformerAttention>(spec)) spec.kind = ReformerAttention{.rounds = 2, .chunk = 16};
  config.attention = {spec};
  return config;
}

constexpr ConvolutionEncoder::Shape kShape{.blocks = 2,
                                           .block = {.convolutions = 2, .kernel_size = 5, .layer_dropout = 0.4}};
constexpr ConvolutionEncoder::Place kPlace{.blocks = 3, .sublayers = 11};

struct Layer {
  explicit Layer(const EncoderConfig& config) {
    ConvolutionEncoder::AppendSpecs(specs, "encoder", config, kShape, 1);
    torch::manual_seed(3);
    for (const ParameterSpec& spec : specs) {
      const bool norm = spec.name.find("norm.weight") != std::string::npos;
      const Tensor numbers = torch::randn(spec.shape) * 0.4 + (norm ? 1 : 0);
      parameters[spec.name] = numbers.clone().requires_grad_(spec.role.trained);
      exact[spec.name] = numbers.to(torch::kFloat64).requires_grad_(spec.role.trained);
    }
  }
  std::vector<ParameterSpec> specs;
  ParameterMap parameters;
  std::map<std::string, Tensor> exact;
};

TokenStream Stream() {
  TokenStream stream;
  for (const int length : {40, 1, 17}) AppendSequence(stream, std::vector<int32_t>(length, 0));
  return stream;
}
const std::vector<uint64_t> kIds{7, 8, 3};

ForwardContext Training(const TokenStream& stream, uint64_t step) {
  ForwardContext context(stream, kIds);
  context.train = true, context.step = context.dropout_step = step;
  return context;
}

// The ordinary stack once more.
struct Exact {
  const Layer& layer;
  const EncoderConfig& config;
  const ForwardContext& context;

  Tensor Get(const std::string& name) const { return layer.exact.at(name); }
  Tensor Map(const Tensor& x, const std::string& prefix) const {
    const Tensor y = x.matmul(Get(prefix + ".weight").t());
    return layer.exact.count(prefix + ".bias") == 0 ? y : y + Get(prefix + ".bias");
  }
  Tensor Drop(const Tensor& x, DropoutSite site, uint32_t number, double probability) const {
    const DropoutSpec spec = context.DropoutAt(site, number, probability, context.rows);
    return spec.probability == 0 ? x : x * DropoutFactorsReference(spec, x.size(1)).to(torch::kFloat64);
  }
  Tensor Attend(const Tensor& x, const std::string& at) const {
    std::vector<Tensor> parts;
    for (const char* part : {".query", ".key", ".value"}) parts.push_back(Map(x, at + part));
    AttentionOptions options;
    options.heads = static_cast<int>(config.num_attention_heads);
    options.sequences = context.sequences;
    return SelfAttentionReference(torch::cat(parts, 1), options);
  }
  Tensor operator()(Tensor x) const {
    Tensor signal = torch::zeros({x.size(0), 12}, torch::kFloat64);
    for (int64_t row = 0; row < x.size(0); ++row) {
      for (int64_t i = 0; i < 6; ++i) {
        const double angle = context.rows->positions[row] / std::pow(1e4, static_cast<double>(i) / 5);
        signal[row][i] = std::sin(angle), signal[row][6 + i] = std::cos(angle);
      }
    }
    for (uint32_t l = 0; l < 8; ++l) {
      const std::string block = l < 4 ? "encoder.0" : "encoder.1";
      const std::string at = block + (l % 4 < 2    ? fmt::format(".convolutions.{}", l % 4)
                                      : l % 4 == 2 ? ".attention"
                                                   : ".feed_forward");
      if (l % 4 == 0) x = x + signal;
      const double left_out = 0.4 * (l + 1) / 8;
      const uint64_t key = StreamKey(42, context.dropout_step, 11 + l, 10, Purpose::kHiddenDropout);
      if (context.train && PhiloxStream(key).Uniform() < left_out) continue;
      Tensor y = DropoutAddLayerNormReference(x, {}, Get(at + ".norm.weight"), Get(at + ".norm.bias"), 1e-6, {});
      if (l % 4 != 1) y = Drop(y, DropoutSite::kSublayerInput, 11 + l, config.hidden_dropout_prob);
      if (l % 4 < 2)
        y = Map(DepthwiseConvolutionReference(y, Get(at + ".depthwise.weight"), context.sequences->cu_seqlens),
                at + ".pointwise")
                .relu();
      else
        y = l % 4 == 2 ? Attend(y, at) : Map(Map(y, at + ".inner").relu(), at + ".outer");
      x = x + Drop(y, DropoutSite::kSublayerOutput, 11 + l, left_out);
    }
    return x;
  }
};

// |got − want| ≤ 1e-5 of the largest |want|, float32 through eight layers; a wrong mask is off by a tenth and more.
void ExpectNear(const Tensor& got, const Tensor& want, const std::string& what) {
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  const double bound = 1e-5 * std::max(want.abs().max().item<double>(), 1e-3);
  EXPECT_LE((got.to(torch::kFloat64) - want.to(torch::kFloat64)).abs().max().item<double>(), bound) << what;
}

TEST(ConvolutionEncoderTest, IsItsFormula) {
  const TokenStream stream = Stream();
  const Tensor start = torch::randn({58, 12}), weights = torch::randn({58, 12});
  for (const uint64_t step : {0, 1, 2, 3}) {
    SCOPED_TRACE(step);
    const EncoderConfig config = Config();
    Layer layer(config);
    ForwardContext context = Training(stream, step);
    context.train = step > 0;
    const Tensor x = start.clone().requires_grad_(true), y = start.to(torch::kFloat64).requires_grad_(true);
    const ConvolutionEncoder encoder(layer.parameters, "encoder", config, kShape, kPlace);
    const Tensor got = encoder(x, PositionSignal(stream.positions, 12), context, nullptr);
    const Tensor want = Exact{layer, config, context}(y);
    ExpectNear(got, want, "value");
    (got * weights).sum().backward();
    (want * weights).sum().backward();
    ExpectNear(x.grad(), y.grad(), "x");
    for (const ParameterSpec& spec : layer.specs) {
      const Tensor single = layer.parameters.Get(spec.name).grad(), exact = layer.exact.at(spec.name).grad();
      ASSERT_EQ(single.defined(), exact.defined()) << spec.name;
      if (exact.defined()) ExpectNear(single, exact, spec.name);
    }
  }
}

// The formula's own gradient against differences.
TEST(ConvolutionEncoderTest, TheFormulasGradientIsItsSlope) {
  const TokenStream stream = Stream();
  const EncoderConfig config = Config();
  Layer layer(config);
  const ForwardContext context = Training(stream, 2);
  const Exact exact{layer, config, context};
  const Tensor x = torch::randn({58, 12}, torch::kFloat64).requires_grad_(true);
  const Tensor weights = torch::randn({58, 12}, torch::kFloat64), direction = torch::randn({58, 12}, torch::kFloat64);
  const auto value = [&](double step) { return (exact(x.detach() + step * direction) * weights).sum().item<double>(); };
  (exact(x) * weights).sum().backward();
  const double slope = (x.grad() * direction).sum().item<double>(), h = 1e-6;
  EXPECT_NEAR((value(h) - value(-h)) / (2 * h), slope, 1e-6 * std::abs(slope));
}

// Dropout, stochastic depth, and hashing once and again.
TEST(ConvolutionEncoderTest, ReversibleAgreesWithTheGraphThatKeepsEverything) {
  const TokenStream stream = Stream();
  const Tensor start = torch::randn({58, 12}), weights = torch::randn({58, 12});
  const Tensor signal = PositionSignal(stream.positions, 12);
  for (const char* kind : {"dense", "simhash", "reformer"}) {
    for (const uint64_t step : {1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << kind << ", step " << step);
      EncoderConfig config = Config(kind, /*reversible=*/true);
      config.attention_probs_dropout_prob = 0.1;
      Layer kept(config), rebuilt(config);
      const ForwardContext context = Training(stream, step);
      const Tensor x = start.clone().requires_grad_(true), y = start.clone().requires_grad_(true);
      const Tensor got =
          ConvolutionEncoder(rebuilt.parameters, "encoder", config, kShape, kPlace)(x, signal, context, nullptr);
      std::vector<ReversibleLayer> pairs;
      for (int64_t i = 0; i < 2; ++i) {
        const ConvolutionBlock block(kept.parameters, fmt::format("encoder.{}", i), config, kShape.block,
                                     {i, static_cast<uint32_t>(3 + i), static_cast<uint32_t>(11 + 4 * i), 4 * i, 8});
        for (ReversibleLayer& pair : block.Pairs(signal, context, context)) pairs.push_back(std::move(pair));
      }
      ASSERT_EQ(pairs.size(), 4u);
      const Tensor want = RunReversibleReference(y, pairs);
      EXPECT_TRUE(torch::equal(got, want));
      (got * weights).sum().backward();
      (want * weights).sum().backward();
      ExpectNear(x.grad(), y.grad(), "x");
      for (const ParameterSpec& spec : kept.specs) {
        const Tensor own = rebuilt.parameters.Get(spec.name).grad(), other = kept.parameters.Get(spec.name).grad();
        ASSERT_EQ(own.defined(), other.defined()) << spec.name;
        if (own.defined()) ExpectNear(own, other, spec.name);
      }
    }
  }
}

// Where the signal acts in two streams: as if both had it added where each block begins.
TEST(ConvolutionEncoderTest, BothStreamsOfAReversibleBlockGetTheSignal) {
  const TokenStream stream = Stream();
  const EncoderConfig config = Config("dense", /*reversible=*/true, /*dropout=*/0);
  Layer layer(config);
  const ForwardContext context(stream, kIds);
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({58, 12}), signal = PositionSignal(stream.positions, 12);
  ConvolutionEncoder::Shape one = kShape;
  one.blocks = 1;
  const ConvolutionEncoder encoder(layer.parameters, "encoder", config, one, kPlace);
  const Tensor with = encoder(x, signal, context, nullptr);
  const Tensor added = encoder(x + signal, torch::zeros_like(signal), context, nullptr);
  ExpectNear(with, added, "value");
}

TEST(PositionSignalTest, HasTheRangesOfItsTimescales) {
  const Tensor signal = PositionSignal({0, 1, 3000}, 7);
  ASSERT_EQ(signal.sizes(), (std::vector<int64_t>{3, 7}));
  EXPECT_EQ(signal[0].slice(0, 0, 3).abs().max().item<float>(), 0) << "sin 0";
  EXPECT_EQ(signal[0].slice(0, 3, 6).min().item<float>(), 1) << "cos 0";
  EXPECT_FLOAT_EQ(signal[1][0].item<float>(), std::sin(1.0F));
  EXPECT_FLOAT_EQ(signal[2][2].item<float>(), std::sin(0.3F)) << "the last timescale is 10000";
  EXPECT_FLOAT_EQ(signal[2][4].item<float>(), std::cos(30.0F)) << "the middle one 100";
  EXPECT_EQ(signal.select(1, 6).abs().max().item<float>(), 0) << "what is left of an odd width";
}

}  // namespace
}  // namespace lshformer
