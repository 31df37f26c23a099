#include "models/nomic_bert/family.h"

#include <fmt/format.h>

#include "models/encoder_model.h"
#include "models/nomic_bert/config.h"

namespace lshformer {
namespace {

EncoderLayerNames LayerNames(int64_t layer) {
  const std::string block = fmt::format("encoder.layer.{}", layer);
  const auto name = [&](const char* part) { return fmt::format("nomic_bert.layers.{}.{}", layer, part); };
  return {.query = name("self_attn.q_proj"),
          .key = name("self_attn.k_proj"),
          .value = name("self_attn.v_proj"),
          .attention_output = name("self_attn.o_proj"),
          .attention_norm = name("post_attention_layernorm"),
          .gate = name("mlp.gate_proj"),
          .inner = name("mlp.up_proj"),
          .outer = name("mlp.down_proj"),
          .feed_forward_norm = name("post_mlp_layernorm"),
          .attention_block = block,
          .feed_forward_block = block};
}

EncoderModelForm Form(const ModelConfig& config, Task task) {
  EncoderModelForm form{.embeddings = TokenEmbeddings("nomic_bert.embeddings", config)};
  form.embeddings.positions = "";
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) form.encoder.layers.push_back(LayerNames(layer));
  form.heads.masked_lm = {.transform = {.map = "cls.predictions.transform.dense",
                                        .norm = "cls.predictions.transform.layer_norm",
                                        .function = config.hidden_act},
                          .decoder_bias = "cls.predictions.bias"};
  if (task == Task::kSequenceClassification)
    form.heads.pooler = PoolerForm{.transform = {.map = "nomic_bert.pooler.dense"}};
  const double own = config.own<NomicBertConfig>().classifier_dropout;
  form.heads.classifier_dropout = own < 0 ? config.hidden_dropout_prob : own;
  return form;
}

constexpr Head kHeads[] = {{Task::kEncoder, "NomicBertModel"},
                           {Task::kMaskedLm, "NomicBertForMaskedLM"},
                           {Task::kSequenceClassification, "NomicBertForSequenceClassification"},
                           {Task::kMaskedLm, "NomicBertForPreTraining"}};  // the first code's name
constexpr std::string_view kStreams[] = {"tokens"};
constexpr std::string_view kParts[] = {"embeddings.", "layers.", "pooler."};
constexpr WeightAlias kAliases[] = {{"cls.predictions.decoder.weight", "nomic_bert.embeddings.word_embeddings.weight"},
                                    {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
// Of the first code. fc12 is what goes through the activation.
constexpr WeightSpelling kSpellings[] = {{"encoder.layers.", "layers."},
                                         {"emb_ln.", "embeddings.LayerNorm."},
                                         {".attn.out_proj.", ".self_attn.o_proj."},
                                         {".mlp.fc11.", ".mlp.up_proj."},
                                         {".mlp.fc12.", ".mlp.gate_proj."},
                                         {".mlp.fc2.", ".mlp.down_proj."},
                                         {".norm1.", ".post_attention_layernorm."},
                                         {".norm2.", ".post_mlp_layernorm."}};
constexpr JoinedWeight kJoined[] = {{".self_attn.q_proj.weight", ".attn.Wqkv.weight", 0, 3},
                                    {".self_attn.k_proj.weight", ".attn.Wqkv.weight", 1, 3},
                                    {".self_attn.v_proj.weight", ".attn.Wqkv.weight", 2, 3}};

std::string ExplainMissing(const std::map<std::string, std::string>& by_name, const ModelConfig&) {
  const auto own = by_name.lower_bound("nomic_bert.");
  const bool none = own == by_name.end() || !own->first.starts_with("nomic_bert.");
  return none ? ": the file has no tensor of a Nomic BERT model; is \"model_type\" another?" : "";
}

}  // namespace

constexpr Family kNomicBertFamily{.model_type = "nomic_bert",
                                  .options = NomicBertOptions,
                                  .encoder_layers = true,
                                  .encoder_keys = kNomicBertKeys,
                                  .set_defaults = SetNomicBertDefaults,
                                  .complete = CompleteNomicBertConfig,
                                  .extend_rotary = ExtendNomicBert,
                                  .in_todays_keys = NomicBertInTodaysKeys,
                                  .check = CheckNomicBertConfig,
                                  .heads = kHeads,
                                  .streams = kStreams,
                                  .weight_names = {.prefix = "nomic_bert.",
                                                   .bare_architecture = "NomicBertModel",
                                                   .parts = kParts,
                                                   .aliases = kAliases,
                                                   .buffer = "embeddings.position_ids",
                                                   .old_prefix = "bert.",
                                                   .spellings = kSpellings,
                                                   .joined = kJoined},
                                  .layer_prefix = "nomic_bert.layers.",
                                  .layers = [](const ModelConfig& config) { return config.num_hidden_layers; },
                                  .first_parameter = "nomic_bert.embeddings.LayerNorm.weight",
                                  .parameters = EncoderParameters<Form>,
                                  .build = BuildEncoder<Form>,
                                  .explain_missing = ExplainMissing};

}  // namespace lshformer
