#include "nn/encoder.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/error.h"

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
    : in_pieces_(config.chunk_size_feed_forward > 0) {
  RotaryTables tables;
  for (size_t visit = 0; visit < names.layers.size(); ++visit) {
    const int64_t layer = static_cast<int64_t>(visit) / config.inner_group_num;
    const EncoderLayerPlace place{static_cast<uint32_t>(visit), layer, tables.Of(config, layer)};
    if (config.reversible)
      reversible_layers_.emplace_back(parameters, names.layers[visit], config, place);
    else
      layers_.emplace_back(parameters, names.layers[visit], config, place);
  }
  if (HasNormBehind(config)) norm_.emplace(parameters, names.norm, config.layer_norm_eps);
}

torch::Tensor Encoder::operator()(torch::Tensor embeddings, const ForwardContext& context,
                                  std::vector<torch::Tensor>* hidden_states, const std::vector<int64_t>& tokens) const {
  const TokenSplitPtr& split = context.split;
  if (split != nullptr && in_pieces_ && torch::GradMode::is_enabled())
    Fail(
        "the config's \"chunk_size_feed_forward\" sums gradients up over pieces of its own: expected 0 where tokens "
        "are shared");
  const auto rows_of = [](const std::vector<int64_t>& rows) { return torch::tensor(rows, torch::kInt64); };
  if (split == nullptr || split->others == nullptr)
    return Run(std::move(embeddings), context, hidden_states, tokens.empty() ? torch::Tensor() : rows_of(tokens));
  if (hidden_states != nullptr) Fail("the states behind each layer are not there where processes share the tokens");
  std::vector<int64_t> counts, own;  // of the rows of each process, and those of this one
  for (int rank = 0; rank < split->processes(); ++rank) {
    const int64_t begin = split->FirstToken(rank), end = split->FirstToken(rank + 1);
    counts.push_back(end - begin);
    if (tokens.empty()) continue;
    const auto first = std::ranges::lower_bound(tokens, begin), last = std::ranges::lower_bound(tokens, end);
    counts.back() = last - first;
    if (rank == split->rank())
      std::transform(first, last, std::back_inserter(own), [begin](int64_t token) { return token - begin; });
  }
  const ForwardContext of_own = context.OfOwnTokens();
  if (!context.OwnEmbeddingsAlone()) embeddings = OwnTokens(embeddings, split);
  const torch::Tensor hidden =
      Run(std::move(embeddings), of_own, nullptr, tokens.empty() ? torch::Tensor() : rows_of(own));
  return AllTokens(hidden, split, std::move(counts));
}

torch::Tensor Encoder::Run(torch::Tensor hidden, const ForwardContext& context,
                           std::vector<torch::Tensor>* hidden_states, const torch::Tensor& rows) const {
  if (hidden_states != nullptr) hidden_states->push_back(hidden);
  if (!reversible_layers_.empty()) {
    const torch::Tensor last = RunReversibly(hidden, context, hidden_states);
    return rows.defined() ? last.index_select(0, rows) : last;
  }
  const ForwardContext replay = context.Replay();
  for (size_t visit = 0; visit < layers_.size(); ++visit) {
    const bool last = visit + 1 == layers_.size();
    hidden = layers_[visit](hidden, context, replay, last ? rows : torch::Tensor());  // [T, H], at last [R, H]
    if (last && norm_) hidden = (*norm_)(std::move(hidden), {}, {}, SplitOfRows(context.split, rows));
    if (hidden_states != nullptr) hidden_states->push_back(hidden);
  }
  return hidden;
}

torch::Tensor Encoder::RunReversibly(const torch::Tensor& embeddings, const ForwardContext& context,
                                     std::vector<torch::Tensor>* hidden_states) const {
  const ForwardContext replay = context.Replay();
  std::vector<ReversibleLayer> layers;
  for (const ReversibleEncoderLayer& layer : reversible_layers_) layers.push_back(layer(context, replay));
  if (hidden_states == nullptr) return (*norm_)(RunReversible(embeddings, layers), {}, {}, context.split);
  const auto keep = [&](const torch::Tensor& mean) { hidden_states->push_back(mean); };
  return (*norm_)(RunReversible(embeddings, layers, keep), {}, {}, context.split);
}

}  // namespace lshformer
