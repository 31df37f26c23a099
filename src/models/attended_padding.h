// Padding that attention sees, as in code that fills sequences up and passes no mask ("attended_padding" of a config).
// There to be compared with such code; nothing else here pads.
#pragma once
#include "data/batch.h"
#include "models/config.h"
#include "models/model.h"

namespace lshformer {

// Every sequence of `tokens` filled up to config.attended_padding ids with config.pad_token_id; longer ones stay.
// Nothing that is filled in is labelled.
PackedBatch FilledUp(const PackedBatch& batch, const ModelConfig& config);

// The output of the filled batch without the rows, and the columns of attention maps, that `batch` does not have.
void CutPadding(const PackedBatch& batch, const PackedBatch& filled, ModelOutput& output);

}  // namespace lshformer
