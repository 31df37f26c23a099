// The post-LayerNorm encoder layer of BERT and its kin, with whatever names its parameters have.
#pragma once
#include <string>
#include <vector>

#include "nn/encoder_config.h"
#include "nn/forward_context.h"
#include "nn/layer_norm.h"
#include "nn/parameters.h"
#include "nn/self_attention.h"

namespace lshformer {

// Where the parameters of a layer are: prefixes of ".weight" and ".bias", in full, and the blocks that they count to.
struct EncoderLayerNames {
  std::string query, key, value, attention_output, attention_norm;
  std::string inner, outer, feed_forward_norm;  // W_1, W_2 and their LayerNorm
  std::string attention_block, feed_forward_block;
};

// Which layer of an encoder it is: `visit` tells its dropout and its hashing from those of the others, `layer` is the
// one of the config whose attention it has.
struct EncoderLayerPlace {
  uint32_t visit;
  int64_t layer;
};

// W_o · attention(x) + b_o.
class EncoderAttention {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names,
                          const EncoderConfig& config);
  EncoderAttention(const ParameterMap& parameters, const EncoderLayerNames& names, const EncoderConfig& config,
                   const EncoderLayerPlace& place);
  // [T, H] → [T, H], or of `rows` alone where they are defined, [R] → [R, H]: every token is attended to all the same.
  torch::Tensor operator()(const torch::Tensor& hidden, const ForwardContext& context,
                           const torch::Tensor& rows = {}) const;

 private:
  LayerAttention attention_;
  Linear query_key_value_, attention_output_;
};

// W_2 · f(W_1 · x + b_1) + b_2. A row looks at no other.
class EncoderFeedForward {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names,
                          const EncoderConfig& config);
  EncoderFeedForward(const ParameterMap& parameters, const EncoderLayerNames& names, const EncoderConfig& config);
  torch::Tensor operator()(const torch::Tensor& x, Precision precision) const;  // [n, H] → [n, H]
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }

 private:
  UnaryFunction function_;
  Linear inner_, outer_;
  std::vector<torch::Tensor> parameters_;
};

//   a = LayerNorm(x + dropout(W_o · attention(x) + b_o)),   y = LayerNorm(a + dropout(W_2 · f(W_1 · a + b_1) + b_2))
//
// Without EncoderConfig::attention_residual a = dropout(W_o · attention(x) + b_o); that LayerNorm's parameters stay as
// they are.
class EncoderLayer {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names,
                          const EncoderConfig& config);
  EncoderLayer(const ParameterMap& parameters, const EncoderLayerNames& names, const EncoderConfig& config,
               const EncoderLayerPlace& place);
  // [T, H] → [T, H], or of `rows` alone where they are defined, [R] → [R, H], each what it is among all. `replay` is
  // context.Replay() where context.recompute_layers, else not looked at.
  torch::Tensor operator()(const torch::Tensor& hidden, const ForwardContext& context, const ForwardContext& replay,
                           const torch::Tensor& rows) const;

 private:
  torch::Tensor Run(const torch::Tensor& hidden, const ForwardContext& context, const torch::Tensor& rows) const;
  torch::Tensor FeedForward(const torch::Tensor& attended, Precision precision) const;  // in pieces of chunk_ tokens
  uint32_t layer_;
  int64_t chunk_;
  bool attention_residual_;
  double hidden_dropout_;
  EncoderAttention attention_;
  EncoderFeedForward feed_forward_;
  LayerNorm attention_norm_, feed_forward_norm_;
  std::vector<torch::Tensor> parameters_;
};

}  // namespace lshformer
