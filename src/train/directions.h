// Directions of clustered attention that follow the model while it trains.
#pragma once
#include <cstdint>
#include <functional>

#include "data/batch.h"
#include "models/model.h"

namespace lshformer {

// Sequences are read until so many of them were clustered, but no more than the batches that hold so many examples:
// where nearly all are short and so exact, that is enough to know.
inline constexpr int64_t kDirectionSequences = 16, kMostDirectionExamples = 64;

// Takes the stored directions of a model (models/stored_directions.h) anew from its own queries and keys, by the
// formulas of nn/main_directions.h, in forwards without dropout or gradients over next(0), next(1), …, whose labels are
// not read. A head's sequences are those that it clusters: short ones, which are exact, take no part. Where a head
// clusters none, or its numbers are not finite, its directions stay. A function of the model's weights, directions and
// those batches, bit for bit, whatever the number of threads.
void RefreshDirections(Model& model, const std::function<PackedBatch(int64_t number)>& next);

}  // namespace lshformer
