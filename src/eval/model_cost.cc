#include "eval/model_cost.h"

#include <algorithm>

#include "kernels/cost.h"
#include "models/family.h"
#include "ops/attention.h"

namespace lshformer {
namespace {

constexpr double kFloat = sizeof(float);

// Part of the tokens that is in the feed-forward at a time.
double FeedForwardShare(const ModelConfig& config, double tokens) {
  const double chunk = static_cast<double>(config.chunk_size_feed_forward);
  return chunk > 0 && chunk < tokens ? chunk / tokens : 1;
}

// Floats a token at the widest place of a forward: the residual stream (reversible: two of doubles, and one as floats)
// beside q, k, v and context, or beside the feed-forward's inner rows (gated: both halves and their product) and outer
// ones.
double ForwardFloats(const ModelConfig& config, double tokens) {
  const double hidden = static_cast<double>(config.hidden_size),
               inner = static_cast<double>(config.intermediate_size) * (config.shape.gated ? 3 : 1);
  const double stream = (config.reversible ? 5 : 1) * hidden;
  return stream + std::max(4 * hidden, FeedForwardShare(config, tokens) * inner + hidden);
}

// Floats a token of the backward, following what ops/ store. An ordinary layer stores its input, q, k, v and the
// context with its lse, both sums before and results behind LayerNorm, and the feed-forward's rows before and behind
// its function. A reversible model stores nothing a layer; it has the streams, two gradients and one half of a layer.
double TrainingFloats(const ModelConfig& config, double tokens) {
  const double hidden = static_cast<double>(config.hidden_size);
  // Gated: rows twice as wide before the function as behind it.
  const double inner = static_cast<double>(config.intermediate_size) * (config.shape.gated ? 1.5 : 1);
  const double share = FeedForwardShare(config, tokens);
  const bool pieces = share < 1;
  double stored = 0, attention = 0;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const double slices = SlicesOf(config.layer_attention(layer)),
                 inner_layers = static_cast<double>(config.inner_group_num);
    stored += inner_layers *
              ((5 + slices) * hidden + static_cast<double>(config.num_attention_heads) + (pieces ? 0 : 2 * inner));
    attention = std::max(attention, (5 + 2 * slices) * hidden);
  }
  const double embeddings = 2 * static_cast<double>(config.embedding_width());
  if (!config.reversible) return stored + embeddings + (pieces ? 4 * hidden + share * 3 * inner : 2 * hidden + inner);
  const double streams = 4 * hidden, gradients = 3 * hidden;
  const double feed_forward = share * (4 * hidden + 3 * inner) + (pieces ? 2 * hidden : 0);
  return embeddings + streams + gradients + hidden + std::max(attention, feed_forward);
}

double AttentionFlops(const ModelConfig& config, int64_t length) {
  double flops = 0;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    flops += static_cast<double>(config.inner_group_num) * CostOfAttention(config.layer_attention(layer),
                                                                           static_cast<int>(config.num_attention_heads),
                                                                           static_cast<int>(config.head_dim()), length)
                                                               .full_flops();
  return flops;
}

double LinearFlops(const ModelConfig& config, int64_t length) {
  const double n = static_cast<double>(length), hidden = static_cast<double>(config.hidden_size);
  const double inner = static_cast<double>(config.intermediate_size), layers = static_cast<double>(config.visits());
  double flops = layers * 2 * n * (4 * hidden * hidden + (config.shape.gated ? 3 : 2) * hidden * inner);
  if (config.embedding_size != 0)  // the map from embeddings to layers
    flops += 2 * n * static_cast<double>(config.embedding_width()) * hidden;
  return flops;
}

}  // namespace

bool HasCosts(const ModelConfig& config) {
  const Family& family = FamilyOf(config);
  return family.encoder_layers && family.word_table.empty();
}

double EncoderFlops(const ModelConfig& config, int64_t length) {
  return AttentionFlops(config, length) + LinearFlops(config, length);
}

ModelCost CostOfForward(const ModelConfig& config, int64_t length, double labelled) {
  const double n = static_cast<double>(length), hidden = static_cast<double>(config.hidden_size);
  const double width = static_cast<double>(config.embedding_width());
  const int heads = static_cast<int>(config.num_attention_heads), head_dim = static_cast<int>(config.head_dim());
  ModelCost cost;
  cost.attention_flops = AttentionFlops(config, length);
  cost.linear_flops = LinearFlops(config, length);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const AttentionSpec& spec = config.layer_attention(layer);
    if (layer > 0 && spec == config.layer_attention(layer - 1)) continue;
    cost.attention_work_bytes = std::max(cost.attention_work_bytes, AttentionWorkBytes(spec, heads, head_dim, length));
  }
  cost.head_flops = labelled * 2 * width * (hidden + static_cast<double>(config.vocab_size));
  cost.activation_bytes = kFloat * (n * ForwardFloats(config, n) + labelled * static_cast<double>(config.vocab_size));
  cost.training_bytes = kFloat * n * TrainingFloats(config, n);
  return cost;
}

}  // namespace lshformer
