// HF config.json, both ways. Unknown keys are kept and written back; wrong types and impossible sizes are refused.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/attention_spec.h"
#include "base/json.h"

namespace lshformer {

enum class Activation {
  kGelu,
  kGeluNew,
  kRelu,
  kTanh,
  kSilu
};  // "gelu" (erf), "gelu_new"/"gelu_pytorch_tanh", "relu", "tanh", "silu"/"swish"
Activation ParseActivation(const std::string& name, std::string_view where);
const char* Name(Activation activation);

struct ModelConfig {
  std::string model_type = "bert";
  std::vector<std::string> architectures;  // "BertForMaskedLM", …
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  bool reversible = false;              // two-stream layers that the backward rebuilds (nn/reversible_blocks.h)
  int64_t chunk_size_feed_forward = 0;  // tokens that go through the feed-forward at a time; 0: all
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  Activation hidden_act = Activation::kGelu;
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  double classifier_dropout = -1;  // < 0: null, that is hidden_dropout_prob
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  int64_t pad_token_id = 0;
  int64_t num_labels = 2;                                 // from id2label, label2id or num_labels
  std::vector<std::string> labels;                        // id2label in order of id; empty: LABEL_0 …
  std::string problem_type;                               // "", "regression", "single_label_classification"
  std::vector<AttentionSpec> attention{AttentionSpec{}};  // one for all layers, or one per layer
  Json other = Json::object();                            // every key of the file that is not above, kept in order

  int64_t head_dim() const { return hidden_size / num_attention_heads; }
  const AttentionSpec& layer_attention(int64_t layer) const {
    return attention[attention.size() == 1 ? 0 : static_cast<size_t>(layer)];
  }
  std::string label_name(int64_t id) const;
  // HF's rule: as problem_type says, else one output is a regression.
  bool regression() const { return problem_type.empty() ? num_labels == 1 : problem_type == "regression"; }
};

ModelConfig ParseModelConfig(const Json& json, std::string_view where);  // also applies ValidateModelConfig
ModelConfig ReadModelConfig(const std::string& path);                    // config.json itself
Json ReadModelConfigJson(const std::string& path);                       // as it stands there
void ValidateModelConfig(const ModelConfig& config,
                         std::string_view where);  // heads divide hidden, sizes positive and sane …
Json ToJson(const ModelConfig& config);            // HF layout; torch_dtype float32; "attention" in full
// The keys and values of --config_overrides, split at the commas outside brackets and quotes.
std::vector<std::pair<std::string, std::string>> SplitOverrides(std::string_view overrides, std::string_view where);
// --config_overrides "hidden_size=128,num_hidden_layers=2"; an unknown key suggests the nearest.
void ApplyOverrides(ModelConfig& config, std::string_view overrides, std::string_view where);

}  // namespace lshformer
