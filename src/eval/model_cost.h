// What a model costs: floating-point operations and bytes, counted from its config. A multiply-add is two. Of
// attention: kernels/cost.h.
#pragma once
#include <cstdint>

#include "models/config.h"

namespace lshformer {

struct ModelCost {
  double attention_flops = 0;   // all layers
  double linear_flops = 0;      // all matrix products of the encoder
  double head_flops = 0;        // masked-LM head on `labelled` positions; 0 without
  double activation_bytes = 0;  // forward only, float32: what is alive at the widest place
  double training_bytes = 0;  // forward and backward of the encoder, float32: activations and their gradients alive at
                              // once, without weights, their gradients and the head
  double attention_work_bytes = 0;  // plan and work memory of a forward and backward call (AttentionWorkBytes)
  double total_flops() const { return attention_flops + linear_flops + head_flops; }
};
ModelCost CostOfForward(const ModelConfig& config, int64_t length, double labelled = 0);
// attention_flops and linear_flops of the same, without the plans that bytes take.
double EncoderFlops(const ModelConfig& config, int64_t length);

// Whether the model is made of BERT's layers, whose costs these are.
bool HasCosts(const ModelConfig& config);

}  // namespace lshformer
