// The keys of config.json that are Nomic BERT's own, and those of the files of its first code (nomic-bert-2048).
#pragma once
#include <vector>

#include "kernels/rotary.h"
#include "models/config.h"

namespace lshformer {

struct NomicBertConfig {
  double classifier_dropout = -1;  // < 0: null, that is hidden_dropout_prob
  Rotary rotary{.theta = 1000};
  int64_t max_position_embeddings = 2048;  // of the file; where positions grow, up to there they do not
  int64_t n_positions = 0;                 // tokens of the longest sequence where positions grow; 0: as the factor says
};

std::vector<Option<ModelConfig>> NomicBertOptions();
void SetNomicBertDefaults(ModelConfig& config);
void CompleteNomicBertConfig(ModelConfig& config, std::string_view where);
Json NomicBertInTodaysKeys(const Json& config, std::string_view where);
void ExtendNomicBert(ModelConfig& config, int64_t positions, std::string_view where);
void CheckNomicBertConfig(const ModelConfig& config, std::string_view where);

inline constexpr EncoderKeys kNomicBertKeys{.reversible = "", .attention_residual = ""};

}  // namespace lshformer
