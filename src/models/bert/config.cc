#include "models/bert/config.h"

#include <utility>

namespace lshformer {
namespace {

double ParameterCount(const ModelConfig& config) {
  const double hidden = static_cast<double>(config.hidden_size), inner = static_cast<double>(config.intermediate_size);
  const double rows = static_cast<double>(config.vocab_size + config.max_position_embeddings + config.type_vocab_size);
  return rows * hidden + static_cast<double>(config.num_hidden_layers) * (4 * hidden * hidden + 2 * hidden * inner) +
         2 * hidden * hidden + static_cast<double>(config.num_labels) * hidden;
}

}  // namespace

std::vector<Option<ModelConfig>> BertOptions() {
  std::vector<Option<ModelConfig>> options{ClassifierDropout(&BertConfig::classifier_dropout)};
  for (Option<ModelConfig>& option : TokenOptions()) options.push_back(std::move(option));
  return options;
}

void CheckBertConfig(const ModelConfig& config, std::string_view where) {
  RefuseOtherVariants(config.other, where);
  RefuseOtherPositions(config.other, where);
  CheckParameterCount(ParameterCount(config), where);
}

}  // namespace lshformer
