#include "models/bert/family.h"

#include <fmt/format.h>

#include "models/bert/bert.h"
#include "models/bert/config.h"

namespace lshformer {
namespace {

constexpr Head kHeads[] = {{Task::kEncoder, "BertModel"},
                           {Task::kMaskedLm, "BertForMaskedLM"},
                           {Task::kPretraining, "BertForPreTraining"},
                           {Task::kSequenceClassification, "BertForSequenceClassification"},
                           {Task::kMultipleChoice, "BertForMultipleChoice"},
                           {Task::kQuestionAnswering, "BertForQuestionAnswering"}};
constexpr std::string_view kStreams[] = {"tokens"};
constexpr std::string_view kParts[] = {"embeddings.", "encoder.", "pooler."};
constexpr WeightAlias kAliases[] = {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
                                    {"cls.predictions.decoder.bias", "cls.predictions.bias"}};

std::string ExplainMissing(const std::map<std::string, std::string>& by_name, const ModelConfig& config) {
  const auto own = by_name.lower_bound("bert.");
  if (own == by_name.end() || !own->first.starts_with("bert."))
    return ": the file has no tensor of a BERT model; is \"model_type\" another?";
  // Reversible layers have other names than ordinary ones.
  const bool reversible = by_name.contains("bert.encoder.LayerNorm.weight");
  if (reversible == config.reversible) return "";
  return reversible ? ": the weights are those of a reversible model, which config.json does not say"
                    : ": config.json says \"reversible\", the weights are those of an ordinary model";
}

}  // namespace

constexpr Family kBertFamily{.model_type = "bert",
                             .options = BertOptions,
                             .encoder_layers = true,
                             .check = CheckBertConfig,
                             .heads = kHeads,
                             .sentence_pairs = {.logits = "seq_relationship_logits", .label = "next_sentence_label"},
                             .streams = kStreams,
                             .weight_names = {.prefix = "bert.",
                                              .bare_architecture = "BertModel",
                                              .parts = kParts,
                                              .aliases = kAliases,
                                              .buffer = "embeddings.position_ids"},
                             .layer_prefix = "bert.encoder.layer.",
                             .layers = [](const ModelConfig& config) { return config.num_hidden_layers; },
                             .first_parameter = "bert.embeddings.LayerNorm.weight",
                             .parameters = EncoderParameters<BertForm>,
                             .build = BuildEncoder<BertForm>,
                             .explain_missing = ExplainMissing};

}  // namespace lshformer
