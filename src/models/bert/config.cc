#include "models/bert/config.h"

#include <utility>

namespace lshformer {
namespace {

constexpr int64_t kMostPositions = int64_t{1} << 24, kMostTypes = int64_t{1} << 16;

// Variants of BERT that change the result and that the model does not compute.
void RefuseOtherVariants(const Json& json, std::string_view where) {
  const std::string positions =
      HasValue(json, "position_embedding_type") ? GetString(json, "position_embedding_type", where) : "absolute";
  if (positions != "absolute")
    Fail("{}: \"position_embedding_type\": expected \"absolute\", got \"{}\"", where, Shown(positions));
  for (const char* key : {"is_decoder", "add_cross_attention"})
    if (HasValue(json, key) && GetBool(json, key, where))
      Fail("{}: \"{}\": expected false (encoders only), got true", where, key);
  if (HasValue(json, "tie_word_embeddings") && !GetBool(json, "tie_word_embeddings", where))
    Fail("{}: \"tie_word_embeddings\": expected true, got false", where);
}

double ParameterCount(const ModelConfig& config) {
  const double hidden = static_cast<double>(config.hidden_size), inner = static_cast<double>(config.intermediate_size);
  const double rows = static_cast<double>(config.vocab_size + config.max_position_embeddings + config.type_vocab_size);
  return rows * hidden + static_cast<double>(config.num_hidden_layers) * (4 * hidden * hidden + 2 * hidden * inner) +
         2 * hidden * hidden + static_cast<double>(config.num_labels) * hidden;
}

Option<BertConfig> ClassifierDropout() {
  constexpr NumberRange kProbability{.low = 0, .high = 1, .high_open = true};
  Option<BertConfig> option = Number("classifier_dropout", &BertConfig::classifier_dropout, kProbability,
                                     "before the classifier; null: `hidden_dropout_prob`");
  option.read = [read = std::move(option.read)](const Json& object, std::string_view where, BertConfig& into) {
    if (object.at("classifier_dropout").is_null())
      into = {};
    else
      read(object, where, into);
  };
  option.write = [](const BertConfig& from) {
    return from.classifier_dropout < 0 ? Json() : Json(from.classifier_dropout);
  };
  return std::move(option).NullIsValue();
}

}  // namespace

std::vector<Option<ModelConfig>> BertOptions() {
  using M = ModelConfig;
  return {OwnOption(ClassifierDropout()),
          Integer("max_position_embeddings", &M::max_position_embeddings, 1, kMostPositions,
                  "rows of the table of positions: tokens of the longest sequence"),
          Integer("type_vocab_size", &M::type_vocab_size, 1, kMostTypes, "kinds of segments")};
}

void CheckBertConfig(const ModelConfig& config, std::string_view where) {
  RefuseOtherVariants(config.other, where);
  CheckParameterCount(ParameterCount(config), where);
}

}  // namespace lshformer
