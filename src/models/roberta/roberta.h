// RoBERTa (arXiv:1907.11692) and XLM-R (arXiv:1911.02116): BERT's layers, positions that begin behind the padding
// word's number, and other heads. Formulas and names: HF's modeling_roberta and modeling_xlm_roberta.
#pragma once
#include "models/encoder_model.h"

namespace lshformer {

EncoderModelForm RobertaForm(const ModelConfig& config, Task task);

inline constexpr std::string_view kRobertaStreams[] = {"tokens"};
inline constexpr std::string_view kRobertaParts[] = {"embeddings.", "encoder.", "pooler."};
inline constexpr WeightAlias kRobertaAliases[] = {
    {"lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"}, {"lm_head.decoder.bias", "lm_head.bias"}};
std::string ExplainMissingRoberta(const std::map<std::string, std::string>& by_name, const ModelConfig& config);

}  // namespace lshformer
