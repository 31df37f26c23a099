// What a reranker is trained for: of the passages of a query the better ones have the larger scores.
//
//   loss = mean over the queries of −Σ_i softmax(y)_i · log softmax(s)_i        y labels, s scores of its passages
//
// Source: Cao et al., "Learning to rank: from pairwise approach to listwise approach" (ListNet), 2007; values and
// gradients are those of Sentence-Transformers' ListNetLoss.
#pragma once
#include <functional>
#include <span>

#include "train/loss.h"

namespace lshformer {

// scores, labels: [passages] float64; borders: [queries + 1] into them. [], with gradients.
torch::Tensor ListwiseLossOf(const torch::Tensor& scores, const torch::Tensor& labels,
                             std::span<const int32_t> borders);

// Of a classifier with one output and batches whose labels say which sequences are a query's (cu_choices) and how good
// each is (values, of every sequence). One term, a mean over queries.
TrainingLoss ListwiseLoss();

// The scores [sequences] float64 that the model gives to a batch, its labels unseen.
torch::Tensor ListScores(Model& model, const PackedBatch& batch, const ForwardOptions& forward);

}  // namespace lshformer
