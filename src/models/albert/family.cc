#include "models/albert/family.h"

#include "models/albert/albert.h"
#include "models/albert/config.h"

namespace lshformer {
namespace {

constexpr Head kHeads[] = {{Task::kEncoder, "AlbertModel"},
                           {Task::kMaskedLm, "AlbertForMaskedLM"},
                           {Task::kPretraining, "AlbertForPreTraining"},
                           {Task::kSequenceClassification, "AlbertForSequenceClassification"},
                           {Task::kMultipleChoice, "AlbertForMultipleChoice"},
                           {Task::kQuestionAnswering, "AlbertForQuestionAnswering"}};
constexpr std::string_view kStreams[] = {"tokens"};
constexpr std::string_view kParts[] = {"embeddings.", "encoder.", "pooler."};
constexpr WeightAlias kAliases[] = {{"predictions.decoder.weight", "albert.embeddings.word_embeddings.weight"},
                                    {"predictions.decoder.bias", "predictions.bias"}};
constexpr const char* kFirstMap = "albert.encoder.embedding_hidden_mapping_in.weight";

std::string ExplainMissing(const std::map<std::string, std::string>& by_name, const ModelConfig& config) {
  const auto own = by_name.lower_bound("albert.");
  if (own == by_name.end() || !own->first.starts_with("albert."))
    return ": the file has no tensor of an ALBERT model; is \"model_type\" another?";
  const bool reversible = by_name.contains("albert.encoder.LayerNorm.weight");
  if (reversible != config.reversible)
    return reversible ? ": the weights are those of a reversible model, which config.json does not say"
                      : ": config.json says \"reversible\", the weights are those of an ordinary model";
  if (HasEmbeddingMap(config) && config.embedding_size == config.hidden_size && !by_name.contains(kFirstMap))
    return ": the file has no map from embeddings to layers, say \"embedding_hidden_mapping\": false";
  return "";
}

}  // namespace

constexpr Family kAlbertFamily{
    .model_type = "albert",
    .options = AlbertOptions,
    .encoder_layers = true,
    .set_defaults = SetAlbertDefaults,
    .check = CheckAlbertConfig,
    .heads = kHeads,
    .sentence_pairs = {.kind = PairKind::kSentenceOrder, .logits = "sop_logits", .label = "sentence_order_label"},
    .streams = kStreams,
    .weight_names = {.prefix = "albert.",
                     .bare_architecture = "AlbertModel",
                     .parts = kParts,
                     .aliases = kAliases,
                     .buffer = "embeddings.position_ids"},
    .layer_prefix = "albert.encoder.albert_layer_groups.",
    .layers = GroupCount,
    .layers_key = "num_hidden_groups",
    .first_parameter = "albert.embeddings.LayerNorm.weight",
    .parameters = EncoderParameters<AlbertForm>,
    .build = BuildEncoder<AlbertForm>,
    .explain_missing = ExplainMissing};

}  // namespace lshformer
