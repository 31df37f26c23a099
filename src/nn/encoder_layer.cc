#include "nn/encoder_layer.h"

#include <span>
#include <utility>

#include "ops/gated.h"
#include "ops/recompute.h"

namespace lshformer {
namespace {

Bias BiasIf(bool there) { return there ? Bias::kOne : Bias::kNone; }

}  // namespace

void EncoderAttention::AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names,
                                   const EncoderConfig& config) {
  const int64_t hidden = config.hidden_size;
  const std::string square = fmt::format("hidden_size {}", hidden);
  const auto append = [&](const std::string& name, int64_t outputs) {
    AppendLinear(specs, name, outputs, hidden, names.attention_block, square, BiasIf(config.shape.attention_biases));
  };
  if (names.query_key_value.empty()) {
    for (const std::string* name : {&names.query, &names.key, &names.value}) append(*name, hidden);
  } else {
    append(names.query_key_value, 3 * hidden);
  }
  append(names.attention_output, hidden);
}

namespace {

// What attention takes, side by side. With shared keys the key map is left out: it gets no gradient and stays as it is.
Linear QueryKeyValue(const ParameterMap& parameters, const EncoderLayerNames& names, const AttentionSpec& spec) {
  if (!names.query_key_value.empty()) return parameters.LinearOf(names.query_key_value);
  if (SlicesOf(spec) == 2) return parameters.LinearOf({names.query, names.value});
  return parameters.LinearOf({names.query, names.key, names.value});
}

}  // namespace

EncoderAttention::EncoderAttention(const ParameterMap& parameters, const EncoderLayerNames& names,
                                   const EncoderConfig& config, const EncoderLayerPlace& place)
    : attention_(parameters, config, {place.visit, place.layer, names.attention_output, place.rotary}),
      drops_keys_(!names.query_key_value.empty() && SlicesOf(config.layer_attention(place.layer)) == 2),
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

std::shared_ptr<const RowIdentities> PieceOf(const std::shared_ptr<const RowIdentities>& all, int64_t begin,
                                             int64_t rows) {
  if (rows == static_cast<int64_t>(all->positions.size())) return all;
  auto piece = std::make_shared<RowIdentities>();
  piece->positions.assign(all->positions.begin() + begin, all->positions.begin() + begin + rows);
  piece->sequence_ids.assign(all->sequence_ids.begin() + begin, all->sequence_ids.begin() + begin + rows);
  return piece;
}

torch::Tensor EncoderAttention::Slices(const torch::Tensor& hidden, const ForwardContext& context) const {
  const torch::Tensor all = query_key_value_(hidden, context.precision, attention_.InputType(context), context.split);
  if (!drops_keys_) return all;
  const int64_t width = all.size(1) / 3;
  return torch::cat({all.slice(1, 0, width), all.slice(1, 2 * width)}, 1);
}

torch::Tensor EncoderAttention::Attended(torch::Tensor hidden, const ForwardContext& context) const {
  const TokenSplitPtr& split = context.split;
  const int slices = attention_.slices();
  torch::Tensor qkv;  // [all tokens, slices · own heads · head_dim]
  if (!SharesTokens(split)) {
    qkv = Slices(hidden, context);
  } else if (torch::GradMode::is_enabled()) {
    qkv = HeadsOfTokens(Slices(hidden, context), split, slices);
  } else {
    const auto rows = [&](int64_t begin, int64_t end) { return Slices(hidden.narrow(0, begin, end - begin), context); };
    qkv = HeadsOfTokens(rows, slices * hidden.size(1), split, slices);
  }
  hidden.reset();  // large, where the text is long
  if (!SharesTokens(split)) return attention_(std::move(qkv), context, RowType(context.precision));
  return TokensOfHeads(attention_(std::move(qkv), context), split, /*slices=*/1);
}

torch::Tensor EncoderAttention::operator()(torch::Tensor hidden, const ForwardContext& context,
                                           const torch::Tensor& rows) const {
  const Precision precision = context.precision;
  return attention_output_(RowsOf(Attended(std::move(hidden), context), rows), precision, torch::kFloat32,
                           SplitOfRows(context.split, rows));
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

// W_1, of a gated one a and b side by side.
Linear InnerMap(const ParameterMap& parameters, const EncoderLayerNames& names) {
  return names.gate.empty() ? parameters.LinearOf(names.inner) : parameters.LinearOf({names.gate, names.inner});
}

}  // namespace

void EncoderFeedForward::AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names,
                                     const EncoderConfig& config) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const std::string sizes = fmt::format("intermediate_size {}, hidden_size {}", inner, hidden);
  const Bias bias = BiasIf(config.shape.feed_forward_biases);
  const int64_t first = config.shape.gated && names.gate.empty() ? 2 * inner : inner;
  if (!names.gate.empty()) AppendLinear(specs, names.gate, inner, hidden, names.feed_forward_block, sizes, bias);
  AppendLinear(specs, names.inner, first, hidden, names.feed_forward_block, sizes, bias);
  AppendLinear(specs, names.outer, hidden, inner, names.feed_forward_block, sizes, bias);
}

EncoderFeedForward::EncoderFeedForward(const ParameterMap& parameters, const EncoderLayerNames& names,
                                       const EncoderConfig& config)
    : function_(Function(config.hidden_act)),
      gated_(config.shape.gated),
      inner_(InnerMap(parameters, names)),
      outer_(parameters.LinearOf(names.outer)),
      parameters_(FeedForwardParameters(parameters, names, config)) {}

torch::Tensor EncoderFeedForward::operator()(const torch::Tensor& x, Precision precision,
                                             const DropoutSpec& inner_dropout, const TokenSplitPtr& split) const {
  if (inner_dropout.probability > 0) {
    const torch::Tensor wide = gated_ ? GatedProduct(function_, inner_(x, precision, torch::kFloat32, split))  // [n, I]
                                      : inner_.Then(function_, x, precision, split);
    return outer_(Dropout(wide, inner_dropout), precision, torch::kFloat32, split);
  }
  if (gated_) return inner_.ThenGated(function_, outer_, x, precision, split);
  return inner_.Then(function_, outer_, x, precision, split);  // [n, H] → [n, I] → [n, H]
}

void EncoderLayer::AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names,
                               const EncoderConfig& config) {
  const auto norm = [&](const std::string& name, const std::string& block) {
    if (!name.empty())
      AppendLayerNorm(specs, name, config.hidden_size, block, "hidden_size", BiasIf(config.shape.norm_biases));
  };
  const bool before = config.shape.norm == NormPlace::kBefore;
  if (before) norm(names.attention_norm, names.attention_block);
  EncoderAttention::AppendSpecs(specs, names, config);
  if (!before) norm(names.attention_norm, names.attention_block);
  if (before) norm(names.feed_forward_norm, names.feed_forward_block);
  EncoderFeedForward::AppendSpecs(specs, names, config);
  if (!before) norm(names.feed_forward_norm, names.feed_forward_block);
}

namespace {

std::optional<LayerNorm> NormOf(const ParameterMap& parameters, const std::string& name, double eps) {
  if (name.empty()) return std::nullopt;
  return LayerNorm(parameters, name, eps);
}

}  // namespace

EncoderLayer::EncoderLayer(const ParameterMap& parameters, const EncoderLayerNames& names, const EncoderConfig& config,
                           const EncoderLayerPlace& place)
    : layer_(place.visit),
      chunk_(config.chunk_size_feed_forward),
      attention_residual_(config.attention_residual),
      norm_place_(config.shape.norm),
      attention_dropout_(config.attention_output_dropout()),
      inner_dropout_(config.shape.inner_dropout),
      hidden_dropout_(config.hidden_dropout_prob),
      attention_(parameters, names, config, place),
      feed_forward_(parameters, names, config),
      attention_norm_(NormOf(parameters, names.attention_norm, config.layer_norm_eps)),
      feed_forward_norm_(parameters, names.feed_forward_norm, config.layer_norm_eps),
      parameters_(LayerParameters(parameters, names, config)) {}

torch::Tensor EncoderLayer::FeedForward(const torch::Tensor& x, const ForwardContext& context,
                                        const std::shared_ptr<const RowIdentities>& identities,
                                        const TokenSplitPtr& split) const {
  const DropoutSpec dropout = context.DropoutAt(DropoutSite::kFeedForwardInner, layer_, inner_dropout_, identities);
  if (chunk_ == 0 || x.size(0) <= chunk_) return feed_forward_(x, context.precision, dropout, split);
  const auto run = [feed_forward = feed_forward_, precision = context.precision, dropout](const torch::Tensor& piece,
                                                                                          const RowCall& call) {
    DropoutSpec of_piece = dropout;
    if (dropout.probability > 0) of_piece.rows = PieceOf(dropout.rows, call.begin, piece.size(0));
    return feed_forward(piece, precision, of_piece);
  };
  return Recomputed({run, feed_forward_.parameters(), chunk_}, x);
}

torch::Tensor EncoderLayer::NormsAfter(const torch::Tensor& hidden, const ForwardContext& context,
                                       const torch::Tensor& rows) const {
  const std::shared_ptr<const RowIdentities> identities = RowsOf(context.rows, rows);
  const TokenSplitPtr split = SplitOfRows(context.split, rows);
  const DropoutSpec of_attention =
      context.DropoutAt(DropoutSite::kAttentionOutput, layer_, attention_dropout_, identities);
  torch::Tensor attended = attention_(hidden, context, rows);  // [T, H]
  attended = attention_residual_ ? (*attention_norm_)(std::move(attended), RowsOf(hidden, rows), of_attention, split)
                                 : Dropout(attended, of_attention);
  return feed_forward_norm_(FeedForward(attended, context, identities, split), attended,
                            context.DropoutAt(DropoutSite::kFeedForwardOutput, layer_, hidden_dropout_, identities),
                            split);
}

namespace {

// residual + dropout(x); without gradients in x's own memory.
torch::Tensor Added(const torch::Tensor& residual, torch::Tensor x, const DropoutSpec& dropout) {
  if (torch::GradMode::is_enabled()) return residual + Dropout(x, dropout);
  return dropout.probability > 0 ? Dropout(x, dropout).add_(residual) : x.add_(residual);
}

}  // namespace

torch::Tensor EncoderLayer::NormsBefore(const torch::Tensor& hidden, const ForwardContext& context,
                                        const torch::Tensor& rows) const {
  const std::shared_ptr<const RowIdentities> identities = RowsOf(context.rows, rows);
  const TokenSplitPtr split = SplitOfRows(context.split, rows);
  torch::Tensor x = attention_norm_ ? (*attention_norm_)(hidden, {}, {}, context.split) : hidden;
  const torch::Tensor sum =
      Added(RowsOf(hidden, rows), attention_(std::move(x), context, rows),
            context.DropoutAt(DropoutSite::kAttentionOutput, layer_, attention_dropout_, identities));  // [T, H]
  return Added(sum, FeedForward(feed_forward_norm_(sum, {}, {}, split), context, identities, split),
               context.DropoutAt(DropoutSite::kFeedForwardOutput, layer_, hidden_dropout_, identities));
}

torch::Tensor EncoderLayer::Run(const torch::Tensor& hidden, const ForwardContext& context,
                                const torch::Tensor& rows) const {
  return norm_place_ == NormPlace::kAfter ? NormsAfter(hidden, context, rows) : NormsBefore(hidden, context, rows);
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
