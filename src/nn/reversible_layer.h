// The encoder layer of a reversible model ("reversible": true), in the two streams of ops/reversible.h:
//
//   F(x) = dropout(W_o · attention(LayerNorm(x)) + b_o),   G(x) = dropout(W_2 · f(W_1 · LayerNorm(x) + b_1) + b_2)
//
// The LayerNorms stand before the maps, not behind the sums. Families give them other names than an ordinary layer's:
// a reversible model's weights cannot then be taken for an ordinary one's, here or elsewhere.
#pragma once
#include <string>
#include <vector>

#include "nn/encoder_layer.h"
#include "ops/reversible.h"

namespace lshformer {

class ReversibleEncoderLayer {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names,
                          const EncoderConfig& config);
  ReversibleEncoderLayer(const ParameterMap& parameters, const EncoderLayerNames& names, const EncoderConfig& config,
                         const EncoderLayerPlace& place);
  // F and G in one forward. `context` must live until the forward is done; `replay`, context.Replay(), is copied.
  ReversibleLayer operator()(const ForwardContext& context, const ForwardContext& replay) const;

 private:
  torch::Tensor Attention(const torch::Tensor& x, const ForwardContext& context) const;
  torch::Tensor FeedForward(const torch::Tensor& x, int64_t begin, const ForwardContext& context) const;
  uint32_t layer_;
  int64_t chunk_;
  double hidden_dropout_;
  LayerNorm attention_norm_, feed_forward_norm_;
  EncoderAttention attention_;
  EncoderFeedForward feed_forward_;
  std::vector<torch::Tensor> attention_parameters_, feed_forward_parameters_;
};

}  // namespace lshformer
