#include "models/bert/bert.h"

#include <fmt/format.h>

#include "models/bert/config.h"

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

bool HasPooler(Task task) { return task != Task::kMaskedLm && task != Task::kQuestionAnswering; }

HeadForm HeadsOf(const ModelConfig& config, Task task) {
  HeadForm form{.masked_lm = {.transform = {.map = "cls.predictions.transform.dense",
                                            .norm = "cls.predictions.transform.LayerNorm",
                                            .function = config.hidden_act},
                              .decoder_bias = "cls.predictions.bias"},
                .sentence_pairs = "cls.seq_relationship"};
  if (HasPooler(task)) form.pooler = PoolerForm{.transform = {.map = "bert.pooler.dense"}};
  const double own = config.own<BertConfig>().classifier_dropout;
  form.classifier_dropout = own < 0 ? config.hidden_dropout_prob : own;
  return form;
}

}  // namespace

EncoderModelForm BertForm(const ModelConfig& config, Task task) {
  return {.embeddings = TokenEmbeddings("bert.embeddings", config),
          .encoder = LayersOf(config),
          .heads = HeadsOf(config, task)};
}

}  // namespace lshformer
