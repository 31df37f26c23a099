#include "models/distilbert/config.h"

#include <utility>

namespace lshformer {
namespace {

using D = DistilBertConfig;

double ParameterCount(const ModelConfig& config) {
  const double hidden = static_cast<double>(config.hidden_size), inner = static_cast<double>(config.intermediate_size);
  return static_cast<double>(config.vocab_size + config.max_position_embeddings + config.num_labels) * hidden +
         static_cast<double>(config.num_hidden_layers) * (4 * hidden * hidden + 2 * hidden * inner) + hidden * hidden;
}

}  // namespace

std::vector<Option<ModelConfig>> DistilBertOptions() {
  constexpr NumberRange kProbability{.low = 0, .high = 1, .high_open = true};
  std::vector<Option<ModelConfig>> options{
      OwnOption(Number("qa_dropout", &D::qa_dropout, kProbability, "before the map of answers")),
      OwnOption(Number("seq_classif_dropout", &D::seq_classif_dropout, kProbability,
                       "before the classifier, and before the scores of options"))};
  for (Option<ModelConfig>& option : TokenOptions())
    if (option.name != "type_vocab_size") options.push_back(std::move(option));
  return options;
}

void SetDistilBertDefaults(ModelConfig& config) { config.num_hidden_layers = 6; }

// A second text has types as BERT's; there is no table that they would be looked up in.
void CompleteDistilBertConfig(ModelConfig& config, std::string_view) {
  config.type_vocab_size = 2;
  config.shape.attention_output_dropout = 0;
}

void CheckDistilBertConfig(const ModelConfig& config, std::string_view where) {
  RefuseOtherVariants(config.other, where);
  CheckParameterCount(ParameterCount(config), where);
}

}  // namespace lshformer
