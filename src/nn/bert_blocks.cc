#include "nn/bert_blocks.h"

#include "base/error.h"
#include "base/philox.h"
#include "ops/recompute.h"

namespace lshformer {

UnaryFunction Function(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return UnaryFunction::kGelu;
    case Activation::kGeluNew:
      return UnaryFunction::kGeluNew;
    case Activation::kRelu:
      return UnaryFunction::kRelu;
    case Activation::kTanh:
      return UnaryFunction::kTanh;
    case Activation::kSilu:
      return UnaryFunction::kSilu;
  }
  Fail("unknown activation {}", static_cast<int>(activation));
}

LayerNorm::LayerNorm(const ParameterMap& parameters, const std::string& prefix, double norm_eps)
    : gamma(GetParameter(parameters, prefix + ".weight")),
      beta(GetParameter(parameters, prefix + ".bias")),
      eps(norm_eps) {}

torch::Tensor LayerNorm::operator()(const torch::Tensor& x, const torch::Tensor& residual,
                                    const DropoutSpec& dropout) const {
  return DropoutAddLayerNorm(x, residual, gamma, beta, eps, dropout);
}

Linear MakeLinear(const ParameterMap& parameters, const std::string& prefix) {
  return Linear({GetParameter(parameters, prefix + ".weight")}, {GetParameter(parameters, prefix + ".bias")});
}

void BertEmbeddings::AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix,
                                 const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  const auto table = [&](const char* name, int64_t rows, const char* key, Initial initial) {
    specs.push_back({fmt::format("{}.{}_embeddings.weight", prefix, name),
                     {rows, hidden},
                     initial,
                     "embeddings",
                     fmt::format("{} {}, hidden_size {}", key, rows, hidden)});
  };
  table("word", config.vocab_size, "vocab_size", Initial::kNormalPaddingRow);
  table("position", config.max_position_embeddings, "max_position_embeddings", Initial::kNormal);
  table("token_type", config.type_vocab_size, "type_vocab_size", Initial::kNormal);
  AppendLayerNorm(specs, prefix + ".LayerNorm", hidden, "embeddings");
}

BertEmbeddings::BertEmbeddings(const ParameterMap& parameters, const std::string& prefix, const ModelConfig& config)
    : words_(GetParameter(parameters, prefix + ".word_embeddings.weight")),
      positions_(GetParameter(parameters, prefix + ".position_embeddings.weight")),
      types_(GetParameter(parameters, prefix + ".token_type_embeddings.weight")),
      norm_(parameters, prefix + ".LayerNorm", config.layer_norm_eps),
      dropout_(config.hidden_dropout_prob),
      padding_word_(static_cast<int32_t>(config.pad_token_id)) {}

torch::Tensor BertEmbeddings::operator()(const Pass& pass) const {
  auto indices = std::make_shared<EmbeddingIndices>();
  indices->words = pass.batch->ids;
  indices->positions = pass.batch->positions;
  indices->types = pass.batch->type_ids;
  indices->padding_word = padding_word_;
  const torch::Tensor sum = EmbeddingSum(words_, positions_, types_, std::move(indices));  // [T, H]
  const torch::Tensor normal = norm_(sum, {}, {});
  return Dropout(normal, PassDropout(pass, dropout_, 0, DropoutSite::kEmbeddings, pass.tokens));
}

void BertAttention::AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix, const std::string& block,
                                const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  const std::string square = fmt::format("hidden_size {}", hidden);
  for (const char* part : {"query", "key", "value"})
    AppendLinear(specs, fmt::format("{}.attention.self.{}", prefix, part), hidden, hidden, block, square);
  AppendLinear(specs, prefix + ".attention.output.dense", hidden, hidden, block, square);
}

namespace {

// What attention takes, side by side. With shared keys the key map is left out: it gets no gradient and stays as it is.
Linear QueryKeyValue(const ParameterMap& parameters, const std::string& prefix, const AttentionSpec& spec) {
  std::vector<std::string> parts{"query", "key", "value"};
  if (PartsOf(spec) == 2) parts = {"query", "value"};
  std::vector<torch::Tensor> weights, biases;
  for (const std::string& part : parts) {
    weights.push_back(GetParameter(parameters, fmt::format("{}.attention.self.{}.weight", prefix, part)));
    biases.push_back(GetParameter(parameters, fmt::format("{}.attention.self.{}.bias", prefix, part)));
  }
  return Linear(std::move(weights), std::move(biases));
}

}  // namespace

BertAttention::BertAttention(const ParameterMap& parameters, const std::string& prefix, const ModelConfig& config,
                             int64_t layer)
    : layer_(static_cast<uint32_t>(layer)),
      heads_(static_cast<int>(config.num_attention_heads)),
      attention_(config.layer_attention(layer)),
      attention_dropout_(config.attention_probs_dropout_prob),
      query_key_value_(QueryKeyValue(parameters, prefix, attention_)),
      attention_output_(MakeLinear(parameters, prefix + ".attention.output.dense")) {}

torch::Tensor BertAttention::Attend(const torch::Tensor& hidden, const Pass& pass) const {
  auto options = std::make_shared<AttentionOptions>();
  options->spec = attention_;
  options->heads = heads_;
  options->layer = layer_;
  options->planes_step = pass.train && attention_.resample == Resample::kCall ? pass.step : 0;
  options->operands = OperandsOf(pass.precision);
  options->cu_seqlens = pass.batch->cu_seqlens;
  options->counts = pass.counts;
  options->drawn = drawn_;
  if (pass.train && attention_dropout_ > 0) {
    options->dropout = attention_dropout_;
    options->dropout_key = StreamKey(pass.seed, pass.dropout_step, layer_, 0, Purpose::kAttentionDropout);
    for (int sequence = 0; sequence < pass.batch->sequences(); ++sequence)
      options->sequence_ids.push_back(pass.batch->sequence_ids.empty() ? sequence : pass.batch->sequence_ids[sequence]);
  }
  const torch::Tensor qkv = query_key_value_(hidden, pass.precision);  // [T, 3·H], Reformer [T, 2·H]
  if (pass.attentions != nullptr) pass.attentions->push_back(AttentionProbabilities(qkv.detach(), *options));
  return SelfAttention(qkv, std::move(options));
}

torch::Tensor BertAttention::operator()(const torch::Tensor& hidden, const Pass& pass) const {
  return attention_output_(Attend(hidden, pass), pass.precision);
}

namespace {

std::string InnerSizes(const ModelConfig& config) {
  return fmt::format("intermediate_size {}, hidden_size {}", config.intermediate_size, config.hidden_size);
}

std::vector<torch::Tensor> FeedForwardParameters(const ParameterMap& parameters, const std::string& prefix,
                                                 const ModelConfig& config) {
  std::vector<ParameterSpec> specs;
  BertFeedForward::AppendInner(specs, prefix, "", config);
  BertFeedForward::AppendOuter(specs, prefix, "", config);
  return GetParameters(parameters, specs);
}

std::vector<torch::Tensor> LayerParameters(const ParameterMap& parameters, const std::string& prefix,
                                           const ModelConfig& config) {
  std::vector<ParameterSpec> specs;
  BertLayer::AppendSpecs(specs, prefix, "", config);
  return GetParameters(parameters, specs);
}

}  // namespace

void BertFeedForward::AppendInner(std::vector<ParameterSpec>& specs, const std::string& prefix,
                                  const std::string& block, const ModelConfig& config) {
  AppendLinear(specs, prefix + ".intermediate.dense", config.intermediate_size, config.hidden_size, block,
               InnerSizes(config));
}

void BertFeedForward::AppendOuter(std::vector<ParameterSpec>& specs, const std::string& prefix,
                                  const std::string& block, const ModelConfig& config) {
  AppendLinear(specs, prefix + ".output.dense", config.hidden_size, config.intermediate_size, block,
               InnerSizes(config));
}

BertFeedForward::BertFeedForward(const ParameterMap& parameters, const std::string& prefix, const ModelConfig& config)
    : function_(Function(config.hidden_act)),
      intermediate_(MakeLinear(parameters, prefix + ".intermediate.dense")),
      output_(MakeLinear(parameters, prefix + ".output.dense")),
      parameters_(FeedForwardParameters(parameters, prefix, config)) {}

torch::Tensor BertFeedForward::operator()(const torch::Tensor& x, Precision precision) const {
  return intermediate_.Then(function_, output_, x, precision);  // [n, H] → [n, I] → [n, H]
}

void BertLayer::AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix, const std::string& block,
                            const ModelConfig& config) {
  BertAttention::AppendSpecs(specs, prefix, block, config);
  AppendLayerNorm(specs, prefix + ".attention.output.LayerNorm", config.hidden_size, block);
  BertFeedForward::AppendInner(specs, prefix, block, config);
  BertFeedForward::AppendOuter(specs, prefix, block, config);
  AppendLayerNorm(specs, prefix + ".output.LayerNorm", config.hidden_size, block);
}

BertLayer::BertLayer(const ParameterMap& parameters, const std::string& prefix, const ModelConfig& config,
                     int64_t layer)
    : layer_(static_cast<uint32_t>(layer)),
      chunk_(config.chunk_size_feed_forward),
      hidden_dropout_(config.hidden_dropout_prob),
      attention_(parameters, prefix, config, layer),
      feed_forward_(parameters, prefix, config),
      attention_norm_(parameters, prefix + ".attention.output.LayerNorm", config.layer_norm_eps),
      output_norm_(parameters, prefix + ".output.LayerNorm", config.layer_norm_eps),
      parameters_(LayerParameters(parameters, prefix, config)) {}

torch::Tensor BertLayer::FeedForward(const torch::Tensor& attended, Precision precision) const {
  if (chunk_ == 0 || attended.size(0) <= chunk_) return feed_forward_(attended, precision);
  const auto run = [feed_forward = feed_forward_, precision](const torch::Tensor& x, const RowCall&) {
    return feed_forward(x, precision);
  };
  return Recomputed({run, feed_forward_.parameters(), chunk_}, attended);
}

torch::Tensor BertLayer::Run(const torch::Tensor& hidden, const Pass& pass) const {
  const torch::Tensor context = attention_(hidden, pass);  // [T, H]
  const torch::Tensor attended = attention_norm_(
      context, hidden, PassDropout(pass, hidden_dropout_, layer_, DropoutSite::kAttentionOutput, pass.tokens));
  return output_norm_(
      FeedForward(attended, pass.precision), attended,
      PassDropout(pass, hidden_dropout_, layer_, DropoutSite::kFeedForwardOutput, pass.tokens));  // [T, H]
}

torch::Tensor BertLayer::operator()(const torch::Tensor& hidden, const Pass& pass, const Pass& replay) const {
  if (!pass.recompute_layers) return Run(hidden, pass);
  const auto run = [layer = *this, first = &pass, replay](const torch::Tensor& x, const RowCall& call) {
    return layer.Run(x, call.again ? replay : *first);
  };
  return Recomputed({run, parameters_, /*chunk=*/0}, hidden);
}

}  // namespace lshformer
