#include "models/modernbert/family.h"

#include <fmt/format.h>

#include <cmath>

#include "models/encoder_model.h"
#include "models/modernbert/config.h"

namespace lshformer {
namespace {

EncoderLayerNames LayerNames(int64_t layer) {
  const std::string block = fmt::format("encoder.layer.{}", layer);
  const auto name = [&](const char* part) { return fmt::format("model.layers.{}.{}", layer, part); };
  return {.query_key_value = name("attn.Wqkv"),
          .attention_output = name("attn.Wo"),
          .attention_norm = layer == 0 ? "" : name("attn_norm"),  // the embeddings' stands right before
          .inner = name("mlp.Wi"),
          .outer = name("mlp.Wo"),
          .feed_forward_norm = name("mlp_norm"),
          .attention_block = block,
          .feed_forward_block = block};
}

Bias BiasIf(bool there) { return there ? Bias::kOne : Bias::kNone; }

HeadForm HeadsOf(const ModernBertConfig& own, Task task) {
  const HeadTransformForm transform{.map = "head.dense",
                                    .norm = "head.norm",
                                    .function = own.classifier_activation,
                                    .bias = BiasIf(own.classifier_bias),
                                    .norm_bias = BiasIf(own.norm_bias)};
  HeadForm form{.masked_lm = {.transform = transform, .decoder_bias = own.decoder_bias ? "decoder.bias" : ""},
                .answers = "classifier",
                .classifier_dropout = own.classifier_dropout,
                .answer_dropout = own.classifier_dropout};
  if (task == Task::kQuestionAnswering) form.answer_transform = transform;
  if (task == Task::kSequenceClassification || task == Task::kMultipleChoice)
    form.pooler = PoolerForm{
        .transform = transform, .pooling = own.mean_pooling ? Pooling::kMean : Pooling::kCls, .block = "head"};
  return form;
}

EncoderModelForm Form(const ModelConfig& config, Task task) {
  const ModernBertConfig& own = config.own<ModernBertConfig>();
  EncoderModelForm form{.embeddings = TokenEmbeddings("model.embeddings", config)};
  form.embeddings.words = "model.embeddings.tok_embeddings.weight";
  form.embeddings.positions = form.embeddings.types = "";
  form.embeddings.norm = "model.embeddings.norm";
  form.embeddings.norm_bias = BiasIf(own.norm_bias);
  form.embeddings.dropout = own.embedding_dropout;
  form.encoder.norm = "model.final_norm";
  form.encoder.norm_block = "encoder.final_norm";
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) form.encoder.layers.push_back(LayerNames(layer));
  form.heads = HeadsOf(own, task);
  return form;
}

// New weights as HF draws them: normal, cut, and the narrower the deeper the model where a map adds to the states.
std::vector<ParameterSpec> Parameters(const ModelConfig& config, Task task) {
  const double in = config.initializer_range;
  const double out = in / std::sqrt(2.0 * static_cast<double>(config.num_hidden_layers));
  const double final_out = 1 / std::sqrt(static_cast<double>(config.hidden_size));
  std::vector<ParameterSpec> specs = EncoderParameters<Form>(config, task);
  for (ParameterSpec& spec : specs) {
    const bool drawn = spec.initial == Initial::kNormal || spec.initial == Initial::kNormalPaddingRow;
    if (!drawn || !spec.role.trained) continue;
    const std::string_view name = spec.name;
    const bool adds =
        name.ends_with("attn.Wo.weight") || name.ends_with("mlp.Wo.weight") || name == "head.dense.weight";
    spec.deviation = name == "classifier.weight" ? final_out : adds ? out : in;
    spec.bound = config.own<ModernBertConfig>().initializer_cutoff_factor * spec.deviation;
    spec.initial = Initial::kCutNormal;
  }
  return specs;
}

constexpr Head kHeads[] = {{Task::kEncoder, "ModernBertModel"},
                           {Task::kMaskedLm, "ModernBertForMaskedLM"},
                           {Task::kSequenceClassification, "ModernBertForSequenceClassification"},
                           {Task::kMultipleChoice, "ModernBertForMultipleChoice"},
                           {Task::kQuestionAnswering, "ModernBertForQuestionAnswering"}};
constexpr std::string_view kStreams[] = {"tokens"};
constexpr std::string_view kParts[] = {"embeddings.", "layers.", "final_norm."};
constexpr WeightAlias kAliases[] = {{"decoder.weight", "model.embeddings.tok_embeddings.weight"}};

std::string ExplainMissing(const std::map<std::string, std::string>& by_name, const ModelConfig&) {
  const bool none = !by_name.contains("model.embeddings.tok_embeddings.weight");
  return none ? ": the file has no tensor of a ModernBERT model; is \"model_type\" another?" : "";
}

}  // namespace

constexpr Family kModernBertFamily{
    .model_type = "modernbert",
    .options = ModernBertOptions,
    .encoder_layers = true,
    .encoder_keys = kModernBertKeys,
    .set_defaults = SetModernBertDefaults,
    .complete = CompleteModernBertConfig,
    .extend_rotary = ExtendModernBert,
    .check = CheckModernBertConfig,
    .heads = kHeads,
    .streams = kStreams,
    .weight_names = {.prefix = "model.", .bare_architecture = "ModernBertModel", .parts = kParts, .aliases = kAliases},
    .layer_prefix = "model.layers.",
    .layers = [](const ModelConfig& config) { return config.num_hidden_layers; },
    .first_parameter = "model.embeddings.norm.weight",
    .parameters = Parameters,
    .build = BuildEncoder<Form>,
    .explain_missing = ExplainMissing};

}  // namespace lshformer
