// The keys of config.json that are RoBERTa's own, and XLM-R's.
#pragma once
#include <vector>

#include "models/config.h"

namespace lshformer {

struct RobertaConfig {
  double classifier_dropout = -1;         // < 0: null, that is hidden_dropout_prob
  int64_t max_position_embeddings = 512;  // rows of the table of positions, of which pad_token_id + 1 are no token's
};

std::vector<Option<ModelConfig>> RobertaOptions();
void SetRobertaDefaults(ModelConfig& config);
void SetXlmRobertaDefaults(ModelConfig& config);
void CompleteRobertaConfig(ModelConfig& config, std::string_view where);
void CheckRobertaConfig(const ModelConfig& config, std::string_view where);

inline constexpr EncoderKeys kRobertaKeys{.reversible = "", .attention_residual = ""};

}  // namespace lshformer
