#include "nn/reversible_layer.h"

namespace lshformer {
namespace {

void AppendAttention(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names, const EncoderConfig& config) {
  AppendLayerNorm(specs, names.attention_norm, config.hidden_size, names.attention_block);
  EncoderAttention::AppendSpecs(specs, names, config);
}

void AppendFeedForward(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names, const EncoderConfig& config) {
  AppendLayerNorm(specs, names.feed_forward_norm, config.hidden_size, names.feed_forward_block);
  EncoderFeedForward::AppendSpecs(specs, names, config);
}

using Append = void(std::vector<ParameterSpec>&, const EncoderLayerNames&, const EncoderConfig&);

std::vector<torch::Tensor> ParametersOf(Append* append, const ParameterMap& parameters, const EncoderLayerNames& names,
                                        const EncoderConfig& config) {
  std::vector<ParameterSpec> specs;
  append(specs, names, config);
  return parameters.Get(specs);
}

}  // namespace

void ReversibleEncoderLayer::AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names,
                                         const EncoderConfig& config) {
  AppendAttention(specs, names, config);
  AppendFeedForward(specs, names, config);
}

ReversibleEncoderLayer::ReversibleEncoderLayer(const ParameterMap& parameters, const EncoderLayerNames& names,
                                               const EncoderConfig& config, const EncoderLayerPlace& place)
    : layer_(place.visit),
      chunk_(config.chunk_size_feed_forward),
      hidden_dropout_(config.hidden_dropout_prob),
      attention_norm_(parameters, names.attention_norm, config.layer_norm_eps),
      feed_forward_norm_(parameters, names.feed_forward_norm, config.layer_norm_eps),
      attention_(parameters, names, config, place),
      feed_forward_(parameters, names, config),
      attention_parameters_(ParametersOf(AppendAttention, parameters, names, config)),
      feed_forward_parameters_(ParametersOf(AppendFeedForward, parameters, names, config)) {}

torch::Tensor ReversibleEncoderLayer::Attention(const torch::Tensor& x, const ForwardContext& context) const {
  const torch::Tensor attended = attention_(attention_norm_(x, {}, {}, context.split), context);  // [T, H]
  return Dropout(attended, context.DropoutAt(DropoutSite::kAttentionOutput, layer_, hidden_dropout_, context.rows));
}

torch::Tensor ReversibleEncoderLayer::FeedForward(const torch::Tensor& x, int64_t begin,
                                                  const ForwardContext& context) const {
  const torch::Tensor normal = feed_forward_norm_(x, {}, {}, context.split);
  const torch::Tensor out = feed_forward_(normal, context.precision, {}, context.split);  // [n, H]
  return Dropout(out, context.DropoutAt(DropoutSite::kFeedForwardOutput, layer_, hidden_dropout_,
                                        PieceOf(context.rows, begin, x.size(0))));
}

ReversibleLayer ReversibleEncoderLayer::operator()(const ForwardContext& context, const ForwardContext& replay) const {
  const auto f = [layer = *this, first = &context, replay](const torch::Tensor& x, const RowCall& call) {
    return layer.Attention(x, call.again ? replay : *first);
  };
  const auto g = [layer = *this, replay](const torch::Tensor& x, const RowCall& call) {
    return layer.FeedForward(x, call.begin, replay);
  };
  return {{f, attention_parameters_, /*chunk=*/0}, {g, feed_forward_parameters_, chunk_}};
}

}  // namespace lshformer
