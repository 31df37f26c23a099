// The keys of config.json that are BERT's own.
#pragma once
#include <vector>

#include "models/config.h"

namespace lshformer {

struct BertConfig {
  double classifier_dropout = -1;  // < 0: null, that is hidden_dropout_prob
};

std::vector<Option<ModelConfig>> BertOptions();
void CheckBertConfig(const ModelConfig& config, std::string_view where);

}  // namespace lshformer
