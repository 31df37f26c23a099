// The maps around attention and attention itself: what they hand each other, and that no bit depends on it.
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/parallel.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "nn/encoder_layer.h"
#include "ops/threads.h"

namespace lshformer {
namespace {

using torch::Tensor;

// Tensors in bfloat16 that `run` makes.
int TensorsInBFloat16(const std::function<void()>& run) {
  static int count;
  count = 0;
  const auto count_one = [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
    if (std::string_view(call.name()) != "aten::empty") return nullptr;
    const c10::IValue& type = call.inputs()[1];
    if (type.isInt() && type.toScalarType() == torch::kBFloat16) ++count;
    return nullptr;
  };
  const at::CallbackHandle handle = at::addThreadLocalCallback(at::RecordFunctionCallback(count_one).needsInputs(true));
  run();
  at::removeCallback(handle);
  return count;
}

EncoderLayerNames Names() {
  EncoderLayerNames names;
  names.query = "query", names.key = "key", names.value = "value", names.attention_output = "output";
  return names;
}

EncoderConfig ConfigOf(AttentionSpec spec, int min_length) {
  EncoderConfig config;
  config.hidden_size = 40, config.num_attention_heads = 2;
  spec.min_length = min_length;
  config.attention = {spec};
  return config;
}

class EncoderAttentionTest : public ::testing::Test {
 protected:
  EncoderAttentionTest() {
    for (const int length : {3, 70, 1, 130}) AppendSequence(stream_, std::vector<int32_t>(length, 0));
    torch::manual_seed(5);
    hidden_ = torch::randn({204, 40});
    for (const char* name : {"query", "key", "value", "output"}) {
      parameters_[std::string(name) + ".weight"] = torch::randn({40, 40}) / 3;
      parameters_[std::string(name) + ".bias"] = torch::randn({40});
    }
  }
  void SetUp() override { UseAmxModel(true); }
  void TearDown() override {
    UseAmxModel(false);
    SetAllThreads(HardwareThreads());
  }
  ForwardContext Context() const {
    ForwardContext context(stream_, ids_);
    context.precision = Precision::kBFloat16;
    return context;
  }
  // By way of float32.
  Tensor ByHand(const EncoderConfig& config) const {
    const AttentionSpec& spec = config.layer_attention(0);
    const std::vector<std::string> parts{"query", "key", "value"}, shared{"query", "value"};
    const Linear before = parameters_.LinearOf(SlicesOf(spec) == 2 ? shared : parts);
    const LayerAttention attention(parameters_, config, {0, 0, "output"});
    const Tensor attended = attention(before(hidden_, Precision::kBFloat16), Context());
    EXPECT_EQ(attended.scalar_type(), torch::kFloat32);
    return parameters_.LinearOf("output")(attended, Precision::kBFloat16);
  }
  EncoderAttention Layer(const EncoderConfig& config) const { return {parameters_, Names(), config, {0, 0}}; }

  const torch::NoGradGuard no_grad_;
  TokenStream stream_;
  const std::vector<uint64_t> ids_{7, 8, 3, 4};
  Tensor hidden_;
  ParameterMap parameters_;
};

struct Kind {
  const char* name;
  AttentionSpec spec;
  int tensors_hashed, tensors_exact;  // in bfloat16: of the output, and of queries, keys and values
};

std::vector<Kind> Kinds() {
  return {{"dense", {}, 2, 2},
          {"simhash", {.kind = SimHashAttention{.hashes = 2, .pairs = Pairs::kFull}}, 1, 2},
          {"sorted", {.kind = SimHashAttention{.hashes = 2, .pairs = Pairs::kSorted}}, 1, 2},
          {"reformer", {.kind = ReformerAttention{.rounds = 2, .chunk = 16}}, 1, 1},
          {"clustered", {.kind = ClusteredAttention{.cluster = {8}, .open = {2}, .groups = 4}}, 1, 2}};
}

TEST_F(EncoderAttentionTest, RowsInBFloat16ChangeNoBit) {
  for (const Kind& kind : Kinds()) {
    for (const int min_length : {0, 1000}) {
      SCOPED_TRACE(fmt::format("{}, min_length {}", kind.name, min_length));
      const EncoderConfig config = ConfigOf(kind.spec, min_length);
      const Tensor want = ByHand(config);
      const EncoderAttention layer = Layer(config);
      for (const int threads : {1, 3}) {
        SetAllThreads(threads);
        Tensor got;
        EXPECT_EQ(TensorsInBFloat16([&] { got = layer(hidden_, Context()); }),
                  min_length == 0 ? kind.tensors_hashed : kind.tensors_exact);
        EXPECT_EQ(got.scalar_type(), torch::kFloat32);
        EXPECT_TRUE(torch::equal(got, want)) << threads << " threads";
      }
    }
  }
}

// Whoever looks at queries, keys and values sees them in float32.
TEST_F(EncoderAttentionTest, IsSeenInFloat32) {
  const EncoderConfig config = ConfigOf({}, 0);
  const Tensor want = ByHand(config);
  const EncoderAttention layer = Layer(config);
  ForwardContext context = Context();
  std::vector<std::vector<Tensor>> maps;
  context.attentions = &maps;
  Tensor got;
  EXPECT_EQ(TensorsInBFloat16([&] { got = layer(hidden_, context); }), 1);
  EXPECT_TRUE(torch::equal(got, want));
  ASSERT_EQ(maps.size(), 1u);
  EXPECT_EQ(maps[0][1].scalar_type(), torch::kFloat32);

  context.attentions = nullptr;
  for (const bool answers : {false, true}) {
    const AttentionHook hook = [answers](const AttentionSite& site) {
      EXPECT_EQ(site.qkv.scalar_type(), torch::kFloat32);
      return answers ? SelfAttention(site.qkv, std::make_shared<AttentionOptions>(site.options)) : Tensor();
    };
    context.attention_hook = &hook;
    EXPECT_EQ(TensorsInBFloat16([&] { got = layer(hidden_, context); }), answers ? 0 : 1);
    EXPECT_TRUE(torch::equal(got, want));
  }
}

// Under int8 attention rounds its inputs, and the map behind it takes float32.
TEST_F(EncoderAttentionTest, OtherPrecisionsRoundWhatAttentionRounds) {
  const EncoderAttention layer = Layer(ConfigOf({}, 0));
  ForwardContext context = Context();
  for (const auto& [precision, tensors] : {std::pair(Precision::kFloat32, 0), {Precision::kInt8, 1}}) {
    context.precision = precision;
    EXPECT_EQ(TensorsInBFloat16([&] { layer(hidden_, context); }), tensors) << Name(precision);
  }
}

TEST_F(EncoderAttentionTest, GradientsAreThoseOfFloat32Rows) {
  const torch::AutoGradMode gradients(true);
  const EncoderConfig config = ConfigOf({}, 0);
  const LayerAttention attention(parameters_, config, {0, 0, "output"});
  EXPECT_EQ(attention.InputType(Context()), torch::kFloat32);
  const Tensor x = hidden_.clone().requires_grad_(true);
  const Tensor y = Layer(config)(x, Context());
  EXPECT_TRUE(torch::equal(y, ByHand(config)));
  y.sum().backward();
  EXPECT_TRUE(torch::isfinite(x.grad()).all().item<bool>());
}

}  // namespace
}  // namespace lshformer
