// Attention of one layer: from its queries, keys and values to what it makes of them, with the layer's own hash planes
// and dropout. The maps around it are the layer's.
#pragma once
#include <memory>

#include "nn/encoder_config.h"
#include "nn/forward_context.h"

namespace lshformer {

class LayerAttention {
 public:
  // `layer` tells its hashing and dropout from those of the others.
  LayerAttention(const EncoderConfig& config, const AttentionSpec& attention, uint32_t layer);
  // [T, parts · H] → [T, H]; the parts side by side are query, key and value, or query and value (PartsOf). Recorded
  // and counted as `context` says.
  torch::Tensor operator()(const torch::Tensor& qkv, const ForwardContext& context) const;
  const AttentionSpec& spec() const { return spec_; }

 private:
  uint32_t layer_;
  int heads_;
  AttentionSpec spec_;
  double dropout_;
  std::shared_ptr<DrawnProjections> drawn_ = std::make_shared<DrawnProjections>();  // shared by copies of the layer
};

}  // namespace lshformer
