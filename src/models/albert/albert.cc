#include "models/albert/albert.h"

#include <fmt/format.h>

#include "models/albert/config.h"

namespace lshformer {
namespace {

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

HeadForm HeadsOf(const ModelConfig& config, Task task) {
  const AlbertConfig& own = config.own<AlbertConfig>();
  HeadForm form{.masked_lm = {.transform = {.map = "predictions.dense",
                                            .norm = "predictions.LayerNorm",
                                            .function = config.hidden_act},
                              .decoder_bias = "predictions.bias"},
                .sentence_pairs = "sop_classifier.classifier",
                .conditional_answers = own.question_answering_head == AnswerHead::kConditional,
                .sentence_pair_dropout = own.classifier_dropout_prob,
                .classifier_dropout = own.classifier_dropout_prob};
  if (task != Task::kMaskedLm && task != Task::kQuestionAnswering)
    form.pooler = PoolerForm{.transform = {.map = "albert.pooler"}};
  return form;
}

}  // namespace

EncoderModelForm AlbertForm(const ModelConfig& config, Task task) {
  return {.embeddings = TokenEmbeddings("albert.embeddings", config),
          .embedding_map = HasEmbeddingMap(config) ? "albert.encoder.embedding_hidden_mapping_in" : "",
          .encoder = LayersOf(config),
          .heads = HeadsOf(config, task)};
}

}  // namespace lshformer
