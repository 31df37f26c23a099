#include "nn/encoder.h"

#include <unordered_map>
#include <utility>

namespace lshformer {

void Encoder::AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderNames& names, const EncoderConfig& config) {
  const auto append = config.reversible ? ReversibleEncoderLayer::AppendSpecs : EncoderLayer::AppendSpecs;
  std::unordered_map<std::string, size_t> places;
  for (const EncoderLayerNames& layer : names.layers) {
    std::vector<ParameterSpec> own;
    append(own, layer, config);
    for (ParameterSpec& spec : own) {
      spec.role.layer_map = spec.shape.size() == 2;
      const auto [found, fresh] = places.try_emplace(spec.name, specs.size());
      if (fresh)
        specs.push_back(std::move(spec));
      else
        ++specs[found->second].role.uses;
    }
  }
  if (config.reversible) AppendLayerNorm(specs, names.norm, config.hidden_size, names.norm_block);
  LayerAttention::AppendSpecs(specs, config, config.visits(),
                              [&](int64_t visit) { return visit / config.inner_group_num; });
}

Encoder::Encoder(const ParameterMap& parameters, const EncoderNames& names, const EncoderConfig& config)
    : inner_(static_cast<size_t>(config.inner_group_num)) {
  for (size_t visit = 0; visit < names.layers.size(); ++visit) {
    const EncoderLayerPlace place{static_cast<uint32_t>(visit), static_cast<int64_t>(visit / inner_)};
    if (config.reversible)
      reversible_layers_.emplace_back(parameters, names.layers[visit], config, place);
    else
      layers_.emplace_back(parameters, names.layers[visit], config, place);
  }
  if (config.reversible) norm_.emplace(parameters, names.norm, config.layer_norm_eps);
}

torch::Tensor Encoder::operator()(const torch::Tensor& embeddings, const ForwardContext& context,
                                  std::vector<torch::Tensor>* hidden_states, const std::vector<int64_t>& tokens) const {
  const torch::Tensor rows = tokens.empty() ? torch::Tensor() : torch::tensor(tokens, torch::kInt64);
  if (hidden_states != nullptr) hidden_states->push_back(embeddings);
  if (norm_) {
    const torch::Tensor hidden = RunReversibly(embeddings, context, hidden_states);
    return rows.defined() ? hidden.index_select(0, rows) : hidden;
  }
  const ForwardContext replay = context.Replay();
  torch::Tensor hidden = embeddings;  // [T, H]
  for (size_t visit = 0; visit < layers_.size(); ++visit) {
    const bool last = visit + 1 == layers_.size();
    hidden = layers_[visit](hidden, context, replay, last ? rows : torch::Tensor());  // [T, H], at last [R, H]
    if (hidden_states != nullptr && (visit + 1) % inner_ == 0) hidden_states->push_back(hidden);
  }
  return hidden;
}

torch::Tensor Encoder::RunReversibly(const torch::Tensor& embeddings, const ForwardContext& context,
                                     std::vector<torch::Tensor>* hidden_states) const {
  const ForwardContext replay = context.Replay();
  std::vector<ReversibleLayer> layers;
  for (const ReversibleEncoderLayer& layer : reversible_layers_) layers.push_back(layer(context, replay));
  if (hidden_states == nullptr) return (*norm_)(RunReversible(embeddings, layers), {}, {});
  size_t visit = 0;
  const auto keep = [&](const torch::Tensor& mean) {
    if (++visit % inner_ == 0) hidden_states->push_back(mean);
  };
  return (*norm_)(RunReversible(embeddings, layers, keep), {}, {});
}

}  // namespace lshformer
