#include "nn/reversible_blocks.h"

namespace lshformer {
namespace {

void AppendAttention(std::vector<ParameterSpec>& specs, const std::string& prefix, const std::string& block,
                     const ModelConfig& config) {
  AppendLayerNorm(specs, prefix + ".attention.LayerNorm", config.hidden_size, block);
  BertAttention::AppendSpecs(specs, prefix, block, config);
}

void AppendFeedForward(std::vector<ParameterSpec>& specs, const std::string& prefix, const std::string& block,
                       const ModelConfig& config) {
  AppendLayerNorm(specs, prefix + ".intermediate.LayerNorm", config.hidden_size, block);
  BertFeedForward::AppendInner(specs, prefix, block, config);
  BertFeedForward::AppendOuter(specs, prefix, block, config);
}

using Append = void(std::vector<ParameterSpec>&, const std::string&, const std::string&, const ModelConfig&);

std::vector<torch::Tensor> ParametersOf(Append* append, const ParameterMap& parameters, const std::string& prefix,
                                        const ModelConfig& config) {
  std::vector<ParameterSpec> specs;
  append(specs, prefix, "", config);
  return GetParameters(parameters, specs);
}

// Dropout is drawn by who a row is, so a piece of the rows needs its part of the identities.
std::shared_ptr<const RowIdentities> Piece(const std::shared_ptr<const RowIdentities>& all, int64_t begin,
                                           int64_t rows) {
  if (rows == static_cast<int64_t>(all->positions.size())) return all;
  auto piece = std::make_shared<RowIdentities>();
  piece->positions.assign(all->positions.begin() + begin, all->positions.begin() + begin + rows);
  piece->sequence_ids.assign(all->sequence_ids.begin() + begin, all->sequence_ids.begin() + begin + rows);
  return piece;
}

}  // namespace

void ReversibleBertLayer::AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix,
                                      const std::string& block, const ModelConfig& config) {
  AppendAttention(specs, prefix, block, config);
  AppendFeedForward(specs, prefix, block, config);
}

ReversibleBertLayer::ReversibleBertLayer(const ParameterMap& parameters, const std::string& prefix,
                                         const ModelConfig& config, int64_t layer)
    : layer_(static_cast<uint32_t>(layer)),
      chunk_(config.chunk_size_feed_forward),
      hidden_dropout_(config.hidden_dropout_prob),
      attention_norm_(parameters, prefix + ".attention.LayerNorm", config.layer_norm_eps),
      feed_forward_norm_(parameters, prefix + ".intermediate.LayerNorm", config.layer_norm_eps),
      attention_(parameters, prefix, config, layer),
      feed_forward_(parameters, prefix, config),
      attention_parameters_(ParametersOf(AppendAttention, parameters, prefix, config)),
      feed_forward_parameters_(ParametersOf(AppendFeedForward, parameters, prefix, config)) {}

torch::Tensor ReversibleBertLayer::Attention(const torch::Tensor& x, const Pass& pass) const {
  const torch::Tensor context = attention_(attention_norm_(x, {}, {}), pass);  // [T, H]
  return Dropout(context, PassDropout(pass, hidden_dropout_, layer_, DropoutSite::kAttentionOutput, pass.tokens));
}

torch::Tensor ReversibleBertLayer::FeedForward(const torch::Tensor& x, int64_t begin, const Pass& pass) const {
  const torch::Tensor out = feed_forward_(feed_forward_norm_(x, {}, {}), pass.precision);  // [n, H]
  return Dropout(out, PassDropout(pass, hidden_dropout_, layer_, DropoutSite::kFeedForwardOutput,
                                  Piece(pass.tokens, begin, x.size(0))));
}

ReversibleLayer ReversibleBertLayer::operator()(const Pass& pass, const Pass& replay) const {
  const auto f = [layer = *this, first = &pass, replay](const torch::Tensor& x, const RowCall& call) {
    return layer.Attention(x, call.again ? replay : *first);
  };
  const auto g = [layer = *this, replay](const torch::Tensor& x, const RowCall& call) {
    return layer.FeedForward(x, call.begin, replay);
  };
  return {{f, attention_parameters_, /*chunk=*/0}, {g, feed_forward_parameters_, chunk_}};
}

}  // namespace lshformer
