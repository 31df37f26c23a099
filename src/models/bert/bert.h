// BERT with the heads of Task. Architecture and tensor names: HF's modeling_bert.
#pragma once
#include "models/encoder_model.h"

namespace lshformer {

EncoderModelForm BertForm(const ModelConfig& config, Task task);
// A reversible layer's LayerNorms are not where an ordinary one's are, and have other names.
EncoderLayerNames BertLayerNames(int64_t layer, bool reversible);

}  // namespace lshformer
