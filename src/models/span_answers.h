// Answers as spans: two logits a token, where an answer starts and where it ends.
#pragma once
#include "models/model.h"

namespace lshformer {

// Fills start_logits, end_logits and, where the batch has labels, loss and terms: the mean of both cross-entropies,
// each over a sequence's tokens (ops/span_cross_entropy.h). logits: [T, 2].
void FinishAnswers(const PackedBatch& batch, const torch::Tensor& logits, ModelOutput& output);

}  // namespace lshformer
