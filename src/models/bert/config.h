// The keys of config.json that are BERT's own.
#pragma once
#include "models/config.h"

namespace lshformer {

struct BertConfig {
  double classifier_dropout = -1;  // < 0: null, that is hidden_dropout_prob
};

inline constexpr const char* kBertKeys[] = {"classifier_dropout", "max_position_embeddings", "type_vocab_size"};
void ParseBertConfig(const Json& json, std::string_view where, ModelConfig& config);
void ValidateBertConfig(const ModelConfig& config, std::string_view where);
void WriteBertConfig(const ModelConfig& config, Json& json);

}  // namespace lshformer
