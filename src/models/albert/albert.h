// ALBERT (arXiv:1909.11942) with the heads of Task. Architecture and tensor names: HF's modeling_albert.
//
//   x = dropout(LayerNorm(word + position + type)) [T, E],   h_0 = W_m · x + b_m [T, H],   h_{i+1} = layers of i's
//   group
//
// Layers are BERT's. As in the published code, and not as in HF's, dropout also stands behind the feed-forward.
#pragma once
#include "models/encoder_model.h"

namespace lshformer {

EncoderModelForm AlbertForm(const ModelConfig& config, Task task);

}  // namespace lshformer
