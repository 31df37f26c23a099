#include "models/bert/config.h"

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

}  // namespace

void ParseBertConfig(const Json& json, std::string_view where, ModelConfig& config) {
  if (json.contains("max_position_embeddings"))
    config.max_position_embeddings = GetInt(json, "max_position_embeddings", where);
  if (json.contains("type_vocab_size")) config.type_vocab_size = GetInt(json, "type_vocab_size", where);
  if (HasValue(json, "classifier_dropout")) {
    const double probability = GetNumber(json, "classifier_dropout", where);
    CheckProbability("classifier_dropout", probability, where);  // below 0 means null from here on
    config.own<BertConfig>().classifier_dropout = probability;
  }
  RefuseOtherVariants(json, where);
}

void ValidateBertConfig(const ModelConfig& config, std::string_view where) {
  CheckRange("max_position_embeddings", config.max_position_embeddings, 1, kMostPositions, where);
  CheckRange("type_vocab_size", config.type_vocab_size, 1, kMostTypes, where);
  const double dropout = config.own<BertConfig>().classifier_dropout;
  if (!(dropout < 1)) Fail("{}: \"classifier_dropout\": expected below 1, got {}", where, dropout);
  CheckParameterCount(ParameterCount(config), where);
}

void WriteBertConfig(const ModelConfig& config, Json& json) {
  const double dropout = config.own<BertConfig>().classifier_dropout;
  json["classifier_dropout"] = dropout < 0 ? Json(nullptr) : Json(dropout);
  json["max_position_embeddings"] = config.max_position_embeddings;
  json["type_vocab_size"] = config.type_vocab_size;
}

}  // namespace lshformer
