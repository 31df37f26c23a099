#include "models/roberta/roberta.h"

#include <fmt/format.h>

#include "models/roberta/config.h"

namespace lshformer {
namespace {

EncoderLayerNames LayerNames(int64_t layer) {
  const std::string block = fmt::format("encoder.layer.{}", layer);
  const auto name = [&](const char* part) { return fmt::format("roberta.{}.{}", block, part); };
  return {.query = name("attention.self.query"),
          .key = name("attention.self.key"),
          .value = name("attention.self.value"),
          .attention_output = name("attention.output.dense"),
          .attention_norm = name("attention.output.LayerNorm"),
          .inner = name("intermediate.dense"),
          .outer = name("output.dense"),
          .feed_forward_norm = name("output.LayerNorm"),
          .attention_block = block,
          .feed_forward_block = block};
}

// Classification has a pooler of its own in its head, multiple choice BERT's.
HeadForm HeadsOf(const ModelConfig& config, Task task) {
  HeadForm form{
      .masked_lm = {.transform = {.map = "lm_head.dense", .norm = "lm_head.layer_norm", .function = Activation::kGelu},
                    .decoder_bias = "lm_head.bias"}};
  if (task == Task::kEncoder || task == Task::kMultipleChoice)
    form.pooler = PoolerForm{.transform = {.map = "roberta.pooler.dense"}};
  form.classifier_dropout = config.hidden_dropout_prob;
  if (task != Task::kSequenceClassification) return form;
  if (const double own = config.own<RobertaConfig>().classifier_dropout; own >= 0) form.classifier_dropout = own;
  form.pooler =
      PoolerForm{.transform = {.map = "classifier.dense"}, .dropout = form.classifier_dropout, .block = "head"};
  form.classifier = "classifier.out_proj";
  return form;
}

}  // namespace

EncoderModelForm RobertaForm(const ModelConfig& config, Task task) {
  EncoderModelForm form{.embeddings = TokenEmbeddings("roberta.embeddings", config)};
  form.embeddings.position_rows = config.own<RobertaConfig>().max_position_embeddings;
  form.embeddings.rows = PositionRows::kBehindPadding;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) form.encoder.layers.push_back(LayerNames(layer));
  form.heads = HeadsOf(config, task);
  return form;
}

std::string ExplainMissingRoberta(const std::map<std::string, std::string>& by_name, const ModelConfig&) {
  const auto own = by_name.lower_bound("roberta.");
  const bool none = own == by_name.end() || !own->first.starts_with("roberta.");
  return none ? ": the file has no tensor of a RoBERTa model; is \"model_type\" another?" : "";
}

}  // namespace lshformer
