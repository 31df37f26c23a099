#include "models/bert/bert.h"

#include <fmt/format.h>

#include "models/bert/config.h"
#include "models/token_batch.h"

namespace lshformer {

EncoderLayerNames BertLayerNames(int64_t layer, bool reversible) {
  const std::string block = fmt::format("encoder.layer.{}", layer);
  const auto name = [prefix = "bert." + block](const char* part) { return prefix + part; };
  return {.query = name(".attention.self.query"),
          .key = name(".attention.self.key"),
          .value = name(".attention.self.value"),
          .attention_output = name(".attention.output.dense"),
          .attention_norm = name(reversible ? ".attention.LayerNorm" : ".attention.output.LayerNorm"),
          .inner = name(".intermediate.dense"),
          .outer = name(".output.dense"),
          .feed_forward_norm = name(reversible ? ".intermediate.LayerNorm" : ".output.LayerNorm"),
          .attention_block = block,
          .feed_forward_block = block};
}

namespace {

EncoderNames LayersOf(const ModelConfig& config) {
  EncoderNames names{.layers = {}, .norm = "bert.encoder.LayerNorm", .norm_block = "encoder.LayerNorm"};
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    names.layers.push_back(BertLayerNames(layer, config.reversible));
  return names;
}

HeadNames HeadsOf() {
  return {.pooler = "bert.pooler.dense",
          .masked_lm = {.transform = "cls.predictions.transform.dense",
                        .transform_norm = "cls.predictions.transform.LayerNorm",
                        .decoder_bias = "cls.predictions.bias"},
          .sentence_pairs = "cls.seq_relationship"};
}

HeadDropout DropoutOf(const ModelConfig& config) {
  const double own = config.own<BertConfig>().classifier_dropout;
  return {.sentence_pairs = 0, .classifier = own < 0 ? config.hidden_dropout_prob : own};
}

}  // namespace

std::vector<ParameterSpec> BertParameters(const ModelConfig& config, Task task) {
  std::vector<ParameterSpec> specs;
  Embeddings::AppendSpecs(
      specs, "bert.embeddings",
      {config.vocab_size, config.max_position_embeddings, config.type_vocab_size, config.hidden_size});
  Encoder::AppendSpecs(specs, LayersOf(config), config);
  EncoderHeads::AppendSpecs(specs, HeadsOf(), config, task);
  return specs;
}

BertModel::BertModel(ModelConfig config, Task task, const ParameterMap& parameters)
    : Model(std::move(config), task),
      named_(parameters.Named(BertParameters(config_, task))),
      embeddings_(parameters, "bert.embeddings", config_.layer_norm_eps, config_.hidden_dropout_prob,
                  config_.pad_token_id),
      encoder_(parameters, LayersOf(config_), config_),
      heads_(parameters, HeadsOf(), config_, task, DropoutOf(config_), embeddings_.words()) {}

ModelOutput BertModel::Run(const PackedBatch& batch, const ForwardOptions& options) {
  CheckTokens(batch, config_);
  ModelOutput output;
  const ForwardContext context = ContextOf(batch, options, output);
  const std::vector<int64_t> read = heads_.TokensRead(batch, options);
  const torch::Tensor embeddings = embeddings_(batch.tokens, context);                            // [T, H]
  output.last_hidden_state = encoder_(embeddings, context, HiddenStates(options, output), read);  // [T, H], [read, H]
  heads_({output.last_hidden_state, read}, batch, options, context, output);
  return output;
}

}  // namespace lshformer
