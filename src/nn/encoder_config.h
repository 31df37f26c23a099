// What encoder layers are made of. The defaults are BERT base's.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "attention/spec.h"
#include "base/option_table.h"
#include "kernels/rotary.h"
#include "nn/activation.h"

namespace lshformer {

// Where a layer's LayerNorms stand: behind the sums, as in BERT, or before what is added, with one more behind the last
// layer.
enum class NormPlace { kAfter, kBefore };

// How an encoder's layers are made, beyond their sizes: a family's own (models/family.h), not a key. BERT's.
struct EncoderLayerShape {
  NormPlace norm = NormPlace::kAfter;
  bool norm_biases = true;  // LayerNorms have β
  bool attention_biases = true, feed_forward_biases = true;
  bool gated = false;            // feed-forward W_2 · (f(a) · b), [a b] = W_1 · x: with GELU GeGLU, with SiLU SwiGLU
  std::vector<Rotary> rotary{};  // positions of queries and keys: none, one for all layers, or one per layer
  std::vector<int> windows{};    // of layers whose attention is local, one per layer, -1: of others; or none are
  std::optional<double> attention_output_dropout{};  // hidden_dropout_prob
  double inner_dropout = 0;                          // of what W_2 reads
};

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
  EncoderLayerShape shape;

  int64_t visits() const { return num_hidden_layers * inner_group_num; }  // layers that a token goes through
  int64_t head_dim() const { return hidden_size / num_attention_heads; }
  const AttentionSpec& layer_attention(int64_t layer) const {
    return attention[attention.size() == 1 ? 0 : static_cast<size_t>(layer)];
  }
  // nullptr: the layer turns nothing.
  const Rotary* layer_rotary(int64_t layer) const {
    if (shape.rotary.empty()) return nullptr;
    return &shape.rotary[shape.rotary.size() == 1 ? 0 : static_cast<size_t>(layer)];
  }
  double attention_output_dropout() const { return shape.attention_output_dropout.value_or(hidden_dropout_prob); }
};

// What a family calls the keys of config.json that stand for these members; "": it has no such key.
struct EncoderKeys {
  const char* hidden_size = "hidden_size";
  const char* num_hidden_layers = "num_hidden_layers";
  const char* num_attention_heads = "num_attention_heads";
  const char* intermediate_size = "intermediate_size";
  const char* reversible = "reversible";
  const char* chunk_size_feed_forward = "chunk_size_feed_forward";
  const char* attention_residual = "attention_residual";
  const char* hidden_act = "hidden_act";
  const char* hidden_dropout_prob = "hidden_dropout_prob";
  const char* attention_probs_dropout_prob = "attention_probs_dropout_prob";
  const char* layer_norm_eps = "layer_norm_eps";
  const char* attention = "attention";
};

// A row for each of these keys, but "hidden_size", which models without such layers have too.
std::vector<Option<EncoderConfig>> EncoderOptions(const EncoderKeys& keys = {});
// "attention" as layers with windows have it: one object in it is for all others, and where it is a list, local ones
// have the windows of the shape. Error otherwise. Changes nothing that it has done before.
void PlaceWindows(EncoderConfig& config, std::string_view where);
// What must hold between several of them. Throws `WHERE: …`.
void CheckEncoder(const EncoderConfig& config, const EncoderKeys& keys, std::string_view where);

}  // namespace lshformer
