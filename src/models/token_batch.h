// What the models of tokens do with a batch before their layers.
#pragma once
#include "models/model.h"

namespace lshformer {

// Error naming sequence and token where a batch does not fit the config: empty, longer than max_position_embeddings,
// ids, types or positions out of range.
void CheckTokens(const PackedBatch& batch, const ModelConfig& config);

}  // namespace lshformer
