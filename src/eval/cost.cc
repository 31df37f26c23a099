#include "eval/cost.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace lshformer {
namespace {

constexpr double kSoftmaxFlops = 5;  // a pair: scale, maximum, subtract-and-exp, sum, divide
constexpr double kFloat = sizeof(float);

}  // namespace

double CollisionProbability(double theta, int bands, int table_size, int hashes) {
  const double same = std::pow(1 - theta / std::numbers::pi, bands);
  const double one = same + (1 - same) / table_size;
  return 1 - std::pow(1 - one, hashes);
}

double AttentionCost::paper_flops() const { return hash_flops > 0 ? hash_flops : score_flops; }

AttentionCost CostOfAttention(const AttentionSpec& spec, int heads, int head_dim, int64_t length, double share) {
  const double n = static_cast<double>(length), all = heads * n * n;
  const bool hashed = UsesHash(spec, static_cast<int>(length));
  AttentionCost cost;
  cost.pairs_total = all;
  cost.pairs = all;
  cost.dot_products = all;
  if (hashed) {
    cost.hash_flops = 1000 * PaperHashKflops(spec.bands, head_dim, length, spec.hashes, heads);
    if (share < 0) share = CollisionProbability(std::numbers::pi / 2, spec.bands, spec.table_size, spec.hashes);
    cost.pairs = share * all;
    // The authors compute one product for (i, j) and its mirror image.
    cost.dot_products = spec.pairs == Pairs::kReference ? share * heads * n * (n + 1) / 2 : cost.pairs;
  }
  cost.score_flops = 2.0 * head_dim * cost.dot_products;
  cost.value_flops = (2.0 * head_dim + kSoftmaxFlops) * cost.pairs;
  if (hashed && spec.fill != Fill::kNone) {
    // Σ v of all keys once and, per query, the share of those it did not see; the mean key's score where that fills.
    cost.value_flops += 3.0 * head_dim * heads * n;
    if (spec.fill == Fill::kMean) cost.score_flops += 3.0 * head_dim * heads * n;
  }
  return cost;
}

double PaperHashKflops(int bands, int head_dim, int64_t length, int hashes, int heads) {
  return 2.0 * bands * head_dim * 2.0 * static_cast<double>(length) * hashes * heads / 1000;
}

double PaperDenseKflops(int head_dim, int64_t length, int heads) {
  const double n = static_cast<double>(length);
  return 2.0 * n * n * head_dim * heads / 1000;
}

ModelCost CostOfForward(const ModelConfig& config, int64_t length, double labelled) {
  const double n = static_cast<double>(length), hidden = static_cast<double>(config.hidden_size);
  const double inner = static_cast<double>(config.intermediate_size),
               layers = static_cast<double>(config.num_hidden_layers);
  const int heads = static_cast<int>(config.num_attention_heads), head_dim = static_cast<int>(config.head_dim());
  ModelCost cost;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const AttentionSpec& spec = config.layer_attention(layer);
    cost.attention_flops += CostOfAttention(spec, heads, head_dim, length).full_flops();
    double work = kFloat * heads * n;  // lse
    // Buckets and sorted order of queries and keys, 4 bytes each, and the planes.
    if (UsesHash(spec, static_cast<int>(length))) {
      work += 4.0 * spec.hashes * heads * (4 * n + static_cast<double>(spec.bands) * (head_dim + 1));
    }
    cost.attention_work_bytes = std::max(cost.attention_work_bytes, work);
  }
  cost.linear_flops = layers * 2 * n * (4 * hidden * hidden + 2 * hidden * inner);
  cost.head_flops = labelled * 2 * hidden * (hidden + static_cast<double>(config.vocab_size));
  // Residual stream beside q, k, v and context, or beside the feed-forward's inner and outer rows.
  const double widest = hidden + std::max(4 * hidden, inner + hidden);
  cost.activation_bytes = kFloat * (n * widest + labelled * static_cast<double>(config.vocab_size));
  return cost;
}

double TrainingBytes(const ModelConfig& config, int64_t parameters, int64_t tokens, double labelled) {
  const double hidden = static_cast<double>(config.hidden_size), inner = static_cast<double>(config.intermediate_size);
  // Kept for the backward, per token and layer: input, q, k, v, context, its projection, two LayerNorm inputs, the
  // inner rows before and after the activation.
  const double kept = static_cast<double>(config.num_hidden_layers) * (8 * hidden + 2 * inner);
  const double logits = 2 * labelled * static_cast<double>(config.vocab_size);  // and their gradient
  return kFloat * (4.0 * static_cast<double>(parameters) + static_cast<double>(tokens) * kept + logits);
}

std::vector<std::pair<std::string, int64_t>> CountParameters(const ModelConfig& config, const std::string& head) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const int64_t norm = 2 * hidden, square = hidden * hidden + hidden;
  std::vector<std::pair<std::string, int64_t>> blocks;
  blocks.emplace_back("embeddings",
                      (config.vocab_size + config.max_position_embeddings + config.type_vocab_size) * hidden + norm);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    blocks.emplace_back("encoder.layer." + std::to_string(layer),
                        4 * square + norm + (hidden * inner + inner) + (inner * hidden + hidden) + norm);
  }
  if (head == "masked_lm") {
    blocks.emplace_back("head", square + norm + config.vocab_size);  // the decoder is the word table
  } else if (head == "classification") {
    blocks.emplace_back("pooler", square);
    blocks.emplace_back("head", config.num_labels * hidden + config.num_labels);
  } else if (head.empty()) {
    blocks.emplace_back("pooler", square);
  } else {
    Fail("no head \"{}\", expected masked_lm, classification or none", head);
  }
  return blocks;
}

}  // namespace lshformer
