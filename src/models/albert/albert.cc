#include "models/albert/albert.h"

#include <fmt/format.h>

#include "models/albert/config.h"
#include "models/token_batch.h"

namespace lshformer {
namespace {

constexpr const char* kEmbeddings = "albert.embeddings";
constexpr const char* kEmbeddingMap = "albert.encoder.embedding_hidden_mapping_in";

// A reversible layer's LayerNorms stand before its maps, and have other names than an ordinary one's.
EncoderLayerNames LayerNames(const ModelConfig& config, const AlbertGroups& groups, int64_t inner) {
  const auto place = [&](int64_t group) {
    return fmt::format("albert.encoder.albert_layer_groups.{}.albert_layers.{}.", group, inner);
  };
  const auto block = [&](int64_t group) {
    return config.inner_group_num == 1 ? fmt::format("encoder.group.{}", group)
                                       : fmt::format("encoder.group.{}.layer.{}", group, inner);
  };
  const std::string attention = place(groups.attention), feed_forward = place(groups.feed_forward);
  return {.query = attention + "attention.query",
          .key = attention + "attention.key",
          .value = attention + "attention.value",
          .attention_output = attention + "attention.dense",
          .attention_norm = attention + (config.reversible ? "attention.input_layer_norm" : "attention.LayerNorm"),
          .inner = feed_forward + "ffn",
          .outer = feed_forward + "ffn_output",
          .feed_forward_norm = feed_forward + (config.reversible ? "ffn_input_layer_norm" : "full_layer_layer_norm"),
          .attention_block = block(groups.attention),
          .feed_forward_block = block(groups.feed_forward)};
}

EncoderNames LayersOf(const ModelConfig& config) {
  EncoderNames names{.layers = {}, .norm = "albert.encoder.LayerNorm", .norm_block = "encoder.LayerNorm"};
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    for (int64_t inner = 0; inner < config.inner_group_num; ++inner)
      names.layers.push_back(LayerNames(config, GroupsOf(config, layer), inner));
  return names;
}

HeadNames HeadsOf(const ModelConfig& config) {
  return {.pooler = "albert.pooler",
          .masked_lm = {.transform = "predictions.dense",
                        .transform_norm = "predictions.LayerNorm",
                        .decoder_bias = "predictions.bias"},
          .sentence_pairs = "sop_classifier.classifier",
          .conditional_answers = config.own<AlbertConfig>().question_answering_head == AnswerHead::kConditional};
}

HeadDropout DropoutOf(const ModelConfig& config) {
  const double own = config.own<AlbertConfig>().classifier_dropout_prob;
  return {.sentence_pairs = own, .classifier = own};
}

std::optional<Linear> EmbeddingMap(const ModelConfig& config, const ParameterMap& parameters) {
  if (!HasEmbeddingMap(config)) return std::nullopt;
  return parameters.LinearOf(kEmbeddingMap);
}

}  // namespace

std::vector<ParameterSpec> AlbertParameters(const ModelConfig& config, Task task) {
  const int64_t width = config.embedding_size;
  std::vector<ParameterSpec> specs;
  Embeddings::AppendSpecs(
      specs, kEmbeddings,
      {config.vocab_size, config.max_position_embeddings, config.type_vocab_size, width, "embedding_size"});
  if (HasEmbeddingMap(config))
    AppendLinear(specs, kEmbeddingMap, config.hidden_size, width, "encoder.embedding_hidden_mapping_in",
                 fmt::format("hidden_size {}, embedding_size {}", config.hidden_size, width));
  Encoder::AppendSpecs(specs, LayersOf(config), config);
  EncoderHeads::AppendSpecs(specs, HeadsOf(config), config, task);
  return specs;
}

AlbertModel::AlbertModel(ModelConfig config, Task task, const ParameterMap& parameters)
    : Model(std::move(config), task),
      named_(parameters.Named(AlbertParameters(config_, task))),
      embeddings_(parameters, kEmbeddings, config_.layer_norm_eps, config_.hidden_dropout_prob, config_.pad_token_id),
      embedding_map_(EmbeddingMap(config_, parameters)),
      encoder_(parameters, LayersOf(config_), config_),
      heads_(parameters, HeadsOf(config_), config_, task, DropoutOf(config_), embeddings_.words()) {}

ModelOutput AlbertModel::Run(const PackedBatch& batch, const ForwardOptions& options) {
  CheckTokens(batch, config_);
  ModelOutput output;
  const ForwardContext context = ContextOf(batch, options, output);
  const std::vector<int64_t> read = heads_.TokensRead(batch, options);
  torch::Tensor hidden = embeddings_(batch.tokens, context);                                  // [T, E]
  if (embedding_map_) hidden = (*embedding_map_)(hidden, context.precision);                  // [T, H]
  output.last_hidden_state = encoder_(hidden, context, HiddenStates(options, output), read);  // [T, H], [read, H]
  heads_({output.last_hidden_state, read}, batch, options, context, output);
  return output;
}

}  // namespace lshformer
