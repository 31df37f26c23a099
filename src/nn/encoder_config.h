// What encoder layers are made of. The defaults are BERT base's.
#pragma once
#include <cstdint>
#include <vector>

#include "attention/spec.h"
#include "base/option_table.h"
#include "nn/activation.h"

namespace lshformer {

struct EncoderConfig {
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t inner_group_num = 1;          // layers that each of them is made of (ALBERT); others have no such key
  bool reversible = false;              // two-stream layers that the backward rebuilds (nn/reversible_layer.h)
  bool attention_residual = true;       // false: a layer hands on what attention gives, not LayerNorm(input + that)
  int64_t chunk_size_feed_forward = 0;  // tokens that go through the feed-forward at a time; 0: all
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  Activation hidden_act = Activation::kGelu;
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  double layer_norm_eps = 1e-12;
  std::vector<AttentionSpec> attention{AttentionSpec{}};  // one for all layers, or one per layer

  int64_t visits() const { return num_hidden_layers * inner_group_num; }  // layers that a token goes through
  int64_t head_dim() const { return hidden_size / num_attention_heads; }
  const AttentionSpec& layer_attention(int64_t layer) const {
    return attention[attention.size() == 1 ? 0 : static_cast<size_t>(layer)];
  }
};

// The keys of config.json that stand for members, but "hidden_size", which models without such layers have too.
const OptionTable<EncoderConfig>& EncoderTable();

}  // namespace lshformer
