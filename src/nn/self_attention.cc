#include "nn/self_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "ops/linear.h"

namespace lshformer {

std::string DirectionsName(int64_t visit, const char* part) {
  return fmt::format("{}{}.{}_directions", kDirectionsPrefix, visit, part);
}

void LayerAttention::AppendDirections(std::vector<ParameterSpec>& specs, const EncoderConfig& config, int64_t visit,
                                      int64_t layer) {
  if (!StoresDirections(config.layer_attention(layer))) return;
  const auto append = [&](const char* part, int64_t depth) {
    specs.push_back({DirectionsName(visit, part),
                     {config.num_attention_heads, config.head_dim(), std::min(depth, config.head_dim())},
                     Initial::kNormal,
                     /*block=*/"",
                     "the attention's \"directions\" are \"stored\", which convert makes",
                     {.decays = false, .trained = false}});
  };
  append("key", kStoredKeyDirections);
  append("query", kStoredQueryDirections);
}

LayerAttention::LayerAttention(const ParameterMap& parameters, const EncoderConfig& config, AttentionPlace place)
    : place_(std::move(place)),
      heads_(static_cast<int>(config.num_attention_heads)),
      spec_(std::make_shared<const AttentionSpec>(config.layer_attention(place_.layer))),
      dropout_(config.attention_probs_dropout_prob) {
  if (StoresDirections(*spec_))
    directions_ = {parameters.Get(DirectionsName(place_.visit, "key")),
                   parameters.Get(DirectionsName(place_.visit, "query"))};
  if (!place_.output_map.empty()) output_map_ = parameters.Get(place_.output_map + ".weight");
}

std::shared_ptr<AttentionOptions> LayerAttention::OptionsOf(const TokenSplit* split) const {
  auto options = std::make_shared<AttentionOptions>();
  options->spec = spec_;
  options->heads = heads_;
  options->layer = place_.visit;
  options->drawn = drawn_;
  options->directions = directions_;
  if (split == nullptr) return options;
  *options = OfHeads(*options, split->FirstHead(split->rank()), split->own_heads());
  options->drawn = drawn_;  // which is of these heads alone
  return options;
}

torch::ScalarType LayerAttention::OperandType(const ForwardContext& context) const {
  if (SharesTokens(context.split)) return torch::kFloat32;  // as messages have it
  const bool only_multiplies = context.attentions == nullptr && context.attention_hook == nullptr &&
                               OnlyMultiplies(*spec_, {.cu_seqlens = context.sequences->cu_seqlens});
  if (!only_multiplies) return torch::kFloat32;
  // What turns does so where it lies: a second tensor in bfloat16 takes memory, and pays in tiles alone.
  return place_.rotary ? RowType(context.precision) : lshformer::OperandType(OperandsOf(context.precision));
}

torch::ScalarType LayerAttention::InputType(const ForwardContext& context) const {
  return place_.rotary ? torch::kFloat32 : OperandType(context);  // what turns is rounded behind that
}

torch::Tensor LayerAttention::operator()(torch::Tensor qkv, const ForwardContext& context,
                                         torch::ScalarType type) const {
  const bool shares = SharesTokens(context.split);
  // A forward that several processes share is finished by all of them.
  if (context.stop != nullptr && !shares) (*context.stop)();
  if (shares && (context.attentions != nullptr || context.attention_hook != nullptr))
    Fail("what several processes compute of a sequence cannot be looked at");
  const auto options = OptionsOf(shares ? context.split.get() : nullptr);
  if (place_.rotary)
    qkv = Rotated(std::move(qkv), {place_.rotary, context.sequences, options->heads, /*turned=*/SlicesOf(*spec_) - 1},
                  OperandType(context));
  options->planes_step = context.train && spec_->resample == Resample::kCall ? context.step : 0;
  options->operands = OperandsOf(context.precision);
  options->sequences = context.sequences;
  options->counts = context.counts;
  if (context.train && dropout_ > 0) {
    options->dropout = dropout_;
    options->dropout_key = StreamKey(context.seed, context.dropout_step, place_.visit, 0, Purpose::kAttentionDropout);
  }
  if (context.attentions != nullptr) context.attentions->push_back(AttentionProbabilities(qkv.detach(), *options));
  if (context.attention_hook != nullptr) {
    const torch::Tensor result =
        (*context.attention_hook)({place_.visit, place_.layer, qkv, *options, output_map_});  // [T, H]
    if (result.defined()) return result;
  }
  options->out_type = type;
  return SelfAttention(qkv, options);
}

}  // namespace lshformer
