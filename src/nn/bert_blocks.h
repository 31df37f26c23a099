// The parts of BERT: embeddings and the post-LayerNorm encoder layer.
#pragma once
#include <string>

#include "io/model_config.h"
#include "nn/parameters.h"
#include "nn/pass.h"
#include "ops/linear.h"

namespace lshformer {

UnaryFunction Function(Activation activation);

// γ, β and the way in: LayerNorm(residual + dropout(x)).
struct LayerNorm {
  LayerNorm(const ParameterMap& parameters, const std::string& prefix, double eps);
  torch::Tensor operator()(const torch::Tensor& x, const torch::Tensor& residual, const DropoutSpec& dropout) const;
  torch::Tensor gamma, beta;
  double eps;
};

Linear MakeLinear(const ParameterMap& parameters, const std::string& prefix);

// dropout(LayerNorm(word + position + token type)).
class BertEmbeddings {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix, const ModelConfig& config);
  BertEmbeddings(const ParameterMap& parameters, const std::string& prefix, const ModelConfig& config);
  torch::Tensor operator()(const Pass& pass) const;  // [T, H]
  const torch::Tensor& words() const { return words_; }

 private:
  torch::Tensor words_, positions_, types_;
  LayerNorm norm_;
  double dropout_;
  int32_t padding_word_;
};

// W_o · attention(x) + b_o: HF's "attention.self" and "attention.output.dense".
class BertAttention {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix, const std::string& block,
                          const ModelConfig& config);
  BertAttention(const ParameterMap& parameters, const std::string& prefix, const ModelConfig& config, int64_t layer);
  torch::Tensor operator()(const torch::Tensor& hidden, const Pass& pass) const;  // [T, H] → [T, H]

 private:
  torch::Tensor Attend(const torch::Tensor& hidden, const Pass& pass) const;  // [T, H] → [T, H], before W_o
  uint32_t layer_;
  int heads_;
  AttentionSpec attention_;
  double attention_dropout_;
  std::shared_ptr<DrawnNumbers> drawn_ = std::make_shared<DrawnNumbers>();  // shared by copies of the layer
  Linear query_key_value_, attention_output_;
};

// W_2 · f(W_1 · x + b_1) + b_2: HF's "intermediate.dense" and "output.dense". A row looks at no other.
class BertFeedForward {
 public:
  static void AppendInner(std::vector<ParameterSpec>& specs, const std::string& prefix, const std::string& block,
                          const ModelConfig& config);  // W_1 and b_1
  static void AppendOuter(std::vector<ParameterSpec>& specs, const std::string& prefix, const std::string& block,
                          const ModelConfig& config);  // W_2 and b_2
  BertFeedForward(const ParameterMap& parameters, const std::string& prefix, const ModelConfig& config);
  torch::Tensor operator()(const torch::Tensor& x, Precision precision) const;  // [n, H] → [n, H]
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }

 private:
  UnaryFunction function_;
  Linear intermediate_, output_;
  std::vector<torch::Tensor> parameters_;
};

//   a = LayerNorm(x + dropout(W_o · attention(x) + b_o)),   y = LayerNorm(a + dropout(W_2 · f(W_1 · a + b_1) + b_2))
class BertLayer {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix, const std::string& block,
                          const ModelConfig& config);
  BertLayer(const ParameterMap& parameters, const std::string& prefix, const ModelConfig& config, int64_t layer);
  // [T, H] → [T, H]; `replay` is ReplayPass(pass) where pass.recompute_layers, else not looked at.
  torch::Tensor operator()(const torch::Tensor& hidden, const Pass& pass, const Pass& replay) const;

 private:
  torch::Tensor Run(const torch::Tensor& hidden, const Pass& pass) const;
  torch::Tensor FeedForward(const torch::Tensor& attended, Precision precision) const;  // in pieces of chunk_ tokens
  uint32_t layer_;
  int64_t chunk_;
  double hidden_dropout_;
  BertAttention attention_;
  BertFeedForward feed_forward_;
  LayerNorm attention_norm_, output_norm_;
  std::vector<torch::Tensor> parameters_;
};

}  // namespace lshformer
