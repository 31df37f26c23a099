// RoBERTa (arXiv:1907.11692) and XLM-R (arXiv:1911.02116): BERT's layers, positions that begin behind the padding
// word's number, and other heads. Formulas and names: HF's modeling_roberta and modeling_xlm_roberta.
#pragma once
#include <map>
#include <span>
#include <string>

#include "models/encoder_model.h"
#include "models/family.h"
#include "models/roberta/config.h"

namespace lshformer {

EncoderModelForm RobertaForm(const ModelConfig& config, Task task);

inline constexpr std::string_view kRobertaStreams[] = {"tokens"};
inline constexpr std::string_view kRobertaParts[] = {"embeddings.", "encoder.", "pooler."};
inline constexpr WeightAlias kRobertaAliases[] = {
    {"lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"}, {"lm_head.decoder.bias", "lm_head.bias"}};
std::string ExplainMissingRoberta(const std::map<std::string, std::string>& by_name, const ModelConfig& config);

// The row of either: they differ in names and defaults. The first head is the bare encoder.
constexpr Family RobertaFamily(const char* model_type, std::span<const Head> heads,
                               void (*set_defaults)(ModelConfig&)) {
  return {.model_type = model_type,
          .options = RobertaOptions,
          .encoder_layers = true,
          .encoder_keys = kRobertaKeys,
          .set_defaults = set_defaults,
          .complete = CompleteRobertaConfig,
          .check = CheckRobertaConfig,
          .heads = heads,
          .streams = kRobertaStreams,
          .weight_names = {.prefix = "roberta.",
                           .bare_architecture = heads[0].architecture,
                           .parts = kRobertaParts,
                           .aliases = kRobertaAliases,
                           .buffer = "embeddings.position_ids"},
          .layer_prefix = "roberta.encoder.layer.",
          .layers = [](const ModelConfig& config) { return config.num_hidden_layers; },
          .first_parameter = "roberta.embeddings.LayerNorm.weight",
          .parameters = EncoderParameters<RobertaForm>,
          .build = BuildEncoder<RobertaForm>,
          .explain_missing = ExplainMissingRoberta};
}

}  // namespace lshformer
