// The keys of config.json that are DistilBERT's own.
#pragma once
#include <vector>

#include "models/config.h"

namespace lshformer {

struct DistilBertConfig {
  double qa_dropout = 0.1;           // before the map of answers
  double seq_classif_dropout = 0.2;  // before the classifier
};

std::vector<Option<ModelConfig>> DistilBertOptions();
void SetDistilBertDefaults(ModelConfig& config);
void CompleteDistilBertConfig(ModelConfig& config, std::string_view where);
void CheckDistilBertConfig(const ModelConfig& config, std::string_view where);

inline constexpr EncoderKeys kDistilBertKeys{.hidden_size = "dim",
                                             .num_hidden_layers = "n_layers",
                                             .num_attention_heads = "n_heads",
                                             .intermediate_size = "hidden_dim",
                                             .reversible = "",
                                             .attention_residual = "",
                                             .hidden_act = "activation",
                                             .hidden_dropout_prob = "dropout",
                                             .attention_probs_dropout_prob = "attention_dropout",
                                             .layer_norm_eps = ""};

}  // namespace lshformer
