// The encoder layer of a reversible BERT ("reversible": true), in the two streams of ops/reversible.h:
//
//   F(x) = dropout(W_o · attention(LayerNorm(x)) + b_o),   G(x) = dropout(W_2 · f(W_1 · LayerNorm(x) + b_1) + b_2)
//
// The LayerNorms stand before the maps, not behind the sums, so they have other names than BERT's: a reversible model's
// weights cannot be taken for an ordinary one's, here or elsewhere.
#pragma once
#include <string>
#include <vector>

#include "nn/bert_blocks.h"
#include "ops/reversible.h"

namespace lshformer {

class ReversibleBertLayer {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix, const std::string& block,
                          const ModelConfig& config);
  ReversibleBertLayer(const ParameterMap& parameters, const std::string& prefix, const ModelConfig& config,
                      int64_t layer);
  // F and G in one pass. `pass` must live until the forward is done; `replay`, ReplayPass(pass), is copied.
  ReversibleLayer operator()(const Pass& pass, const Pass& replay) const;

 private:
  torch::Tensor Attention(const torch::Tensor& x, const Pass& pass) const;
  torch::Tensor FeedForward(const torch::Tensor& x, int64_t begin, const Pass& pass) const;
  uint32_t layer_;
  int64_t chunk_;
  double hidden_dropout_;
  LayerNorm attention_norm_, feed_forward_norm_;
  BertAttention attention_;
  BertFeedForward feed_forward_;
  std::vector<torch::Tensor> attention_parameters_, feed_forward_parameters_;
};

}  // namespace lshformer
