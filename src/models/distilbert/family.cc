#include "models/distilbert/family.h"

#include <fmt/format.h>

#include "models/distilbert/config.h"
#include "models/encoder_model.h"

namespace lshformer {
namespace {

EncoderLayerNames LayerNames(int64_t layer) {
  const std::string block = fmt::format("encoder.layer.{}", layer);
  const auto name = [&](const char* part) { return fmt::format("distilbert.transformer.layer.{}.{}", layer, part); };
  return {.query = name("attention.q_lin"),
          .key = name("attention.k_lin"),
          .value = name("attention.v_lin"),
          .attention_output = name("attention.out_lin"),
          .attention_norm = name("sa_layer_norm"),
          .inner = name("ffn.lin1"),
          .outer = name("ffn.lin2"),
          .feed_forward_norm = name("output_layer_norm"),
          .attention_block = block,
          .feed_forward_block = block};
}

EncoderModelForm Form(const ModelConfig& config, Task task) {
  EncoderModelForm form{.embeddings = TokenEmbeddings("distilbert.embeddings", config)};
  form.embeddings.types = "";
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) form.encoder.layers.push_back(LayerNames(layer));
  const DistilBertConfig& own = config.own<DistilBertConfig>();
  form.heads = {
      .masked_lm = {.transform = {.map = "vocab_transform", .norm = "vocab_layer_norm", .function = config.hidden_act},
                    .decoder_bias = "vocab_projector.bias"},
      .classifier_dropout = own.seq_classif_dropout,
      .answer_dropout = own.qa_dropout};
  if (task == Task::kSequenceClassification || task == Task::kMultipleChoice)
    form.heads.pooler =
        PoolerForm{.transform = {.map = "pre_classifier", .function = Activation::kRelu}, .block = "head"};
  return form;
}

constexpr Head kHeads[] = {{Task::kEncoder, "DistilBertModel"},
                           {Task::kMaskedLm, "DistilBertForMaskedLM"},
                           {Task::kSequenceClassification, "DistilBertForSequenceClassification"},
                           {Task::kMultipleChoice, "DistilBertForMultipleChoice"},
                           {Task::kQuestionAnswering, "DistilBertForQuestionAnswering"}};
constexpr std::string_view kStreams[] = {"tokens"};
constexpr std::string_view kParts[] = {"embeddings.", "transformer."};
constexpr WeightAlias kAliases[] = {{"vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"}};

std::string ExplainMissing(const std::map<std::string, std::string>& by_name, const ModelConfig&) {
  const auto own = by_name.lower_bound("distilbert.");
  const bool none = own == by_name.end() || !own->first.starts_with("distilbert.");
  return none ? ": the file has no tensor of a DistilBERT model; is \"model_type\" another?" : "";
}

}  // namespace

constexpr Family kDistilBertFamily{.model_type = "distilbert",
                                   .options = DistilBertOptions,
                                   .encoder_layers = true,
                                   .encoder_keys = kDistilBertKeys,
                                   .set_defaults = SetDistilBertDefaults,
                                   .complete = CompleteDistilBertConfig,
                                   .check = CheckDistilBertConfig,
                                   .heads = kHeads,
                                   .streams = kStreams,
                                   .weight_names = {.prefix = "distilbert.",
                                                    .bare_architecture = "DistilBertModel",
                                                    .parts = kParts,
                                                    .aliases = kAliases,
                                                    .buffer = "embeddings.position_ids"},
                                   .layer_prefix = "distilbert.transformer.layer.",
                                   .layers = [](const ModelConfig& config) { return config.num_hidden_layers; },
                                   .layers_key = "n_layers",
                                   .first_parameter = "distilbert.embeddings.LayerNorm.weight",
                                   .parameters = EncoderParameters<Form>,
                                   .build = BuildEncoder<Form>,
                                   .explain_missing = ExplainMissing};

}  // namespace lshformer
