#include "models/roberta/config.h"

#include <utility>

namespace lshformer {
namespace {

using R = RobertaConfig;

double ParameterCount(const ModelConfig& config) {
  const double hidden = static_cast<double>(config.hidden_size), inner = static_cast<double>(config.intermediate_size);
  const double rows =
      static_cast<double>(config.vocab_size + config.own<R>().max_position_embeddings + config.type_vocab_size);
  return rows * hidden + static_cast<double>(config.num_hidden_layers) * (4 * hidden * hidden + 2 * hidden * inner) +
         2 * hidden * hidden + static_cast<double>(config.num_labels) * hidden;
}

}  // namespace

std::vector<Option<ModelConfig>> RobertaOptions() {
  std::vector<Option<ModelConfig>> options{
      ClassifierDropout(&R::classifier_dropout),
      PositionsOption(&R::max_position_embeddings,
                      "rows of the table of positions; the longest sequence has `pad_token_id` + 1 tokens less")};
  for (Option<ModelConfig>& option : TokenOptions())
    if (option.name != "max_position_embeddings") options.push_back(std::move(option));
  return options;
}

void SetRobertaDefaults(ModelConfig& config) {
  config.vocab_size = 50265;
  config.pad_token_id = 1;
}

void SetXlmRobertaDefaults(ModelConfig& config) { config.pad_token_id = 1; }

void CompleteRobertaConfig(ModelConfig& config, std::string_view) {
  config.max_position_embeddings = config.own<R>().max_position_embeddings - config.pad_token_id - 1;
}

void CheckRobertaConfig(const ModelConfig& config, std::string_view where) {
  RefuseOtherVariants(config.other, where);
  RefuseOtherPositions(config.other, where);
  if (config.max_position_embeddings < 1)
    Fail(
        "{}: \"max_position_embeddings\": expected at least {} (\"pad_token_id\" {}: positions begin behind it), got "
        "{}",
        where, config.pad_token_id + 2, config.pad_token_id, config.own<R>().max_position_embeddings);
  CheckParameterCount(ParameterCount(config), where);
}

}  // namespace lshformer
