#include "nn/encoder.h"

#include <memory>
#include <unordered_map>
#include <utility>

namespace lshformer {
namespace {

bool HasNormBehind(const EncoderConfig& config) { return config.reversible || config.shape.norm == NormPlace::kBefore; }

// The angles by which each layer turns, one object for those that turn alike.
class RotaryTables {
 public:
  std::shared_ptr<const RotaryTable> Of(const EncoderConfig& config, int64_t layer) {
    const Rotary* rotary = config.layer_rotary(layer);
    if (rotary == nullptr) return nullptr;
    for (const auto& table : tables_)
      if (table->rotary() == *rotary) return table;
    return tables_.emplace_back(std::make_shared<const RotaryTable>(*rotary, static_cast<int>(config.head_dim())));
  }

 private:
  std::vector<std::shared_ptr<const RotaryTable>> tables_;
};

}  // namespace

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
  if (HasNormBehind(config))
    AppendLayerNorm(specs, names.norm, config.hidden_size, names.norm_block, "hidden_size",
                    config.shape.norm_biases ? Bias::kOne : Bias::kNone);
  LayerAttention::AppendSpecs(specs, config, config.visits(),
                              [&](int64_t visit) { return visit / config.inner_group_num; });
}

Encoder::Encoder(const ParameterMap& parameters, const EncoderNames& names, const EncoderConfig& config)
    : inner_(static_cast<size_t>(config.inner_group_num)) {
  RotaryTables tables;
  for (size_t visit = 0; visit < names.layers.size(); ++visit) {
    const auto layer = static_cast<int64_t>(visit / inner_);
    const EncoderLayerPlace place{static_cast<uint32_t>(visit), layer, tables.Of(config, layer)};
    if (config.reversible)
      reversible_layers_.emplace_back(parameters, names.layers[visit], config, place);
    else
      layers_.emplace_back(parameters, names.layers[visit], config, place);
  }
  if (HasNormBehind(config)) norm_.emplace(parameters, names.norm, config.layer_norm_eps);
}

torch::Tensor Encoder::operator()(const torch::Tensor& embeddings, const ForwardContext& context,
                                  std::vector<torch::Tensor>* hidden_states, const std::vector<int64_t>& tokens) const {
  const torch::Tensor rows = tokens.empty() ? torch::Tensor() : torch::tensor(tokens, torch::kInt64);
  if (hidden_states != nullptr) hidden_states->push_back(embeddings);
  if (!reversible_layers_.empty()) {
    const torch::Tensor hidden = RunReversibly(embeddings, context, hidden_states);
    return rows.defined() ? hidden.index_select(0, rows) : hidden;
  }
  const ForwardContext replay = context.Replay();
  torch::Tensor hidden = embeddings;  // [T, H]
  for (size_t visit = 0; visit < layers_.size(); ++visit) {
    const bool last = visit + 1 == layers_.size();
    hidden = layers_[visit](hidden, context, replay, last ? rows : torch::Tensor());  // [T, H], at last [R, H]
    if (last && norm_) hidden = (*norm_)(hidden, {}, {});
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
