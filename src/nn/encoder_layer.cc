#include "nn/encoder_layer.h"

#include <span>

#include "ops/recompute.h"

namespace lshformer {

void EncoderAttention::AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names,
                                   const EncoderConfig& config) {
  const int64_t hidden = config.hidden_size;
  const std::string square = fmt::format("hidden_size {}", hidden);
  for (const std::string* name : {&names.query, &names.key, &names.value, &names.attention_output})
    AppendLinear(specs, *name, hidden, hidden, names.attention_block, square);
}

namespace {

// What attention takes, side by side. With shared keys the key map is left out: it gets no gradient and stays as it is.
Linear QueryKeyValue(const ParameterMap& parameters, const EncoderLayerNames& names, const AttentionSpec& spec) {
  if (SlicesOf(spec) == 2) return parameters.LinearOf({names.query, names.value});
  return parameters.LinearOf({names.query, names.key, names.value});
}

}  // namespace

EncoderAttention::EncoderAttention(const ParameterMap& parameters, const EncoderLayerNames& names,
                                   const EncoderConfig& config, const EncoderLayerPlace& place)
    : attention_(parameters, config, {place.visit, place.layer, names.attention_output}),
      query_key_value_(QueryKeyValue(parameters, names, config.layer_attention(place.layer))),
      attention_output_(parameters.LinearOf(names.attention_output)) {}

namespace {

// All of them where `rows` is undefined.
torch::Tensor RowsOf(const torch::Tensor& x, const torch::Tensor& rows) {
  return rows.defined() ? x.index_select(0, rows) : x;
}

std::shared_ptr<const RowIdentities> RowsOf(std::shared_ptr<const RowIdentities> all, const torch::Tensor& rows) {
  if (!rows.defined()) return all;
  auto some = std::make_shared<RowIdentities>();
  for (const int64_t row : std::span(rows.data_ptr<int64_t>(), static_cast<size_t>(rows.numel()))) {
    some->sequence_ids.push_back(all->sequence_ids[static_cast<size_t>(row)]);
    some->positions.push_back(all->positions[static_cast<size_t>(row)]);
  }
  return some;
}

}  // namespace

torch::Tensor EncoderAttention::operator()(const torch::Tensor& hidden, const ForwardContext& context,
                                           const torch::Tensor& rows) const {
  const Precision precision = context.precision;
  const torch::Tensor qkv = query_key_value_(hidden, precision, attention_.InputType(context));  // [T, parts · H]
  return attention_output_(RowsOf(attention_(qkv, context, RowType(precision)), rows), precision);
}

namespace {

std::vector<torch::Tensor> FeedForwardParameters(const ParameterMap& parameters, const EncoderLayerNames& names,
                                                 const EncoderConfig& config) {
  std::vector<ParameterSpec> specs;
  EncoderFeedForward::AppendSpecs(specs, names, config);
  return parameters.Get(specs);
}

std::vector<torch::Tensor> LayerParameters(const ParameterMap& parameters, const EncoderLayerNames& names,
                                           const EncoderConfig& config) {
  std::vector<ParameterSpec> specs;
  EncoderLayer::AppendSpecs(specs, names, config);
  return parameters.Get(specs);
}

}  // namespace

void EncoderFeedForward::AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names,
                                     const EncoderConfig& config) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const std::string sizes = fmt::format("intermediate_size {}, hidden_size {}", inner, hidden);
  AppendLinear(specs, names.inner, inner, hidden, names.feed_forward_block, sizes);
  AppendLinear(specs, names.outer, hidden, inner, names.feed_forward_block, sizes);
}

EncoderFeedForward::EncoderFeedForward(const ParameterMap& parameters, const EncoderLayerNames& names,
                                       const EncoderConfig& config)
    : function_(Function(config.hidden_act)),
      inner_(parameters.LinearOf(names.inner)),
      outer_(parameters.LinearOf(names.outer)),
      parameters_(FeedForwardParameters(parameters, names, config)) {}

torch::Tensor EncoderFeedForward::operator()(const torch::Tensor& x, Precision precision) const {
  return inner_.Then(function_, outer_, x, precision);  // [n, H] → [n, I] → [n, H]
}

void EncoderLayer::AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names,
                               const EncoderConfig& config) {
  EncoderAttention::AppendSpecs(specs, names, config);
  AppendLayerNorm(specs, names.attention_norm, config.hidden_size, names.attention_block);
  EncoderFeedForward::AppendSpecs(specs, names, config);
  AppendLayerNorm(specs, names.feed_forward_norm, config.hidden_size, names.feed_forward_block);
}

EncoderLayer::EncoderLayer(const ParameterMap& parameters, const EncoderLayerNames& names, const EncoderConfig& config,
                           const EncoderLayerPlace& place)
    : layer_(place.visit),
      chunk_(config.chunk_size_feed_forward),
      attention_residual_(config.attention_residual),
      hidden_dropout_(config.hidden_dropout_prob),
      attention_(parameters, names, config, place),
      feed_forward_(parameters, names, config),
      attention_norm_(parameters, names.attention_norm, config.layer_norm_eps),
      feed_forward_norm_(parameters, names.feed_forward_norm, config.layer_norm_eps),
      parameters_(LayerParameters(parameters, names, config)) {}

torch::Tensor EncoderLayer::FeedForward(const torch::Tensor& attended, Precision precision) const {
  if (chunk_ == 0 || attended.size(0) <= chunk_) return feed_forward_(attended, precision);
  const auto run = [feed_forward = feed_forward_, precision](const torch::Tensor& x, const RowCall&) {
    return feed_forward(x, precision);
  };
  return Recomputed({run, feed_forward_.parameters(), chunk_}, attended);
}

torch::Tensor EncoderLayer::Run(const torch::Tensor& hidden, const ForwardContext& context,
                                const torch::Tensor& rows) const {
  const std::shared_ptr<const RowIdentities> identities = RowsOf(context.rows, rows);
  const auto dropout = [&](DropoutSite site) { return context.DropoutAt(site, layer_, hidden_dropout_, identities); };
  torch::Tensor attended = attention_(hidden, context, rows);  // [T, H]
  attended = attention_residual_
                 ? attention_norm_(attended, RowsOf(hidden, rows), dropout(DropoutSite::kAttentionOutput))
                 : Dropout(attended, dropout(DropoutSite::kAttentionOutput));
  return feed_forward_norm_(FeedForward(attended, context.precision), attended,
                            dropout(DropoutSite::kFeedForwardOutput));
}

torch::Tensor EncoderLayer::operator()(const torch::Tensor& hidden, const ForwardContext& context,
                                       const ForwardContext& replay, const torch::Tensor& rows) const {
  if (!context.recompute_layers) return Run(hidden, context, rows);
  const auto run = [layer = *this, first = &context, replay, rows](const torch::Tensor& x, const RowCall& call) {
    return layer.Run(x, call.again ? replay : *first, rows);
  };
  return Recomputed({run, parameters_, /*chunk=*/0}, hidden);
}

}  // namespace lshformer
