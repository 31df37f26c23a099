// The keys of config.json that are ModernBERT's own.
#pragma once
#include <string>
#include <vector>

#include "kernels/rotary.h"
#include "models/config.h"
#include "nn/activation.h"

namespace lshformer {

struct ModernBertConfig {
  int64_t max_position_embeddings = 8192;  // of the file; where positions grow, up to there they do not
  bool norm_bias = false, attention_bias = false, mlp_bias = false, decoder_bias = true, classifier_bias = false;
  double embedding_dropout = 0, mlp_dropout = 0, classifier_dropout = 0;
  bool mean_pooling = false;  // of the classifier; else the first token's state
  Activation classifier_activation = Activation::kGelu;
  int64_t local_attention = 128;           // keys that a local layer's query sees, half of them on each side
  int64_t global_attn_every_n_layers = 3;  // where layer_types says nothing: layer i is local unless n divides i
  double initializer_cutoff_factor = 2;    // new weights lie within so many deviations
  std::vector<bool> local_layers;          // layer_types; empty: as above
  Rotary global_rotary{.theta = 160000}, local_rotary{.theta = 10000};
};

std::vector<Option<ModelConfig>> ModernBertOptions();
void SetModernBertDefaults(ModelConfig& config);
void CompleteModernBertConfig(ModelConfig& config, std::string_view where);
void ExtendModernBert(ModelConfig& config, int64_t positions, std::string_view where);
void CheckModernBertConfig(const ModelConfig& config, std::string_view where);

inline constexpr EncoderKeys kModernBertKeys{.reversible = "",
                                             .attention_residual = "",
                                             .hidden_act = "hidden_activation",
                                             .hidden_dropout_prob = "",
                                             .attention_probs_dropout_prob = "attention_dropout",
                                             .layer_norm_eps = "norm_eps"};

}  // namespace lshformer
