#include "models/encoder_model.h"

#include <fmt/format.h>

#include "models/token_batch.h"

namespace lshformer {

EmbeddingForm TokenEmbeddings(const std::string& prefix, const ModelConfig& config) {
  EmbeddingForm form = EmbeddingForm::Of(prefix);
  form.word_rows = config.vocab_size;
  form.position_rows = config.max_position_embeddings;
  form.type_rows = config.type_vocab_size;
  form.width = config.embedding_width();
  form.width_key = config.embedding_size == 0 ? FamilyOf(config).encoder_keys.hidden_size : "embedding_size";
  form.eps = config.layer_norm_eps;
  form.dropout = config.hidden_dropout_prob;
  form.padding_word = config.pad_token_id;
  return form;
}

std::vector<ParameterSpec> ParametersOf(const EncoderModelForm& form, const ModelConfig& config, Task task) {
  std::vector<ParameterSpec> specs;
  Embeddings::AppendSpecs(specs, form.embeddings);
  if (!form.embedding_map.empty())
    AppendLinear(specs, form.embedding_map, config.hidden_size, form.embeddings.width,
                 "encoder.embedding_hidden_mapping_in",
                 fmt::format("hidden_size {}, embedding_size {}", config.hidden_size, form.embeddings.width));
  Encoder::AppendSpecs(specs, form.encoder, config);
  EncoderHeads::AppendSpecs(specs, form.heads, config, task);
  return specs;
}

namespace {

std::optional<Linear> EmbeddingMap(const EncoderModelForm& form, const ParameterMap& parameters) {
  if (form.embedding_map.empty()) return std::nullopt;
  return parameters.LinearOf(form.embedding_map);
}

}  // namespace

EncoderModel::EncoderModel(ModelConfig config, Task task, const EncoderModelForm& form, const ParameterMap& parameters)
    : Model(std::move(config), task),
      named_(parameters.Named(ParametersOf(form, config_, task))),
      embeddings_(parameters, form.embeddings),
      embedding_map_(EmbeddingMap(form, parameters)),
      encoder_(parameters, form.encoder, config_),
      heads_(parameters, form.heads, config_, task, embeddings_.words()) {}

ModelOutput EncoderModel::Run(const PackedBatch& batch, const ForwardOptions& options) {
  CheckTokens(batch, config_);
  ModelOutput output;
  const ForwardContext context = ContextOf(batch, options, output);
  const std::vector<int64_t> read = heads_.TokensRead(batch, options);
  torch::Tensor hidden = embeddings_(batch.tokens, context);                  // [T, width]
  if (embedding_map_) hidden = (*embedding_map_)(hidden, context.precision);  // [T, H]
  output.last_hidden_state =
      encoder_(std::move(hidden), context, HiddenStates(options, output), read);  // [T, H], [read, H]
  heads_({output.last_hidden_state, read}, batch, options, context, output);
  return output;
}

}  // namespace lshformer
