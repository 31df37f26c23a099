// What embeddings are trained for: vectors of texts that belong together are near. An example is a group of texts:
// a pair with a score, or an anchor, its positive, and any number of negatives of its own.
//
// With B groups, c(x, y) the cosine, s the scale, a_i, p_i the first two texts of group i, y_i its score, and C the
// candidates: all positives of the batch, then all negatives:
//
//   cosine           mean over i of (c(a_i, p_i) − y_i)²
//   cosent           log(1 + Σ over i, j with y_i < y_j of e^(s c(a_i, p_i) − s c(a_j, p_j)))
//   mnrl             mean over i of −log(e^(s c(a_i, p_i)) / Σ over x in C of e^(s c(a_i, x)))      in-batch negatives
//   mnrl_symmetric   the mean of mnrl and the same the other way round: each positive among the anchors
//   triplet          mean over the negatives n of max(0, ‖â − p̂‖ − ‖â − n̂‖ + margin), v̂ = v / ‖v‖
//
// In mnrl a candidate with the text of p_i is no negative of a_i, nor is a positive whose anchor has the text of a_i.
//
//   matryoshka dims  the sum of the loss over vectors that are cut after the first d numbers, for each d
//   a teacher        in place of the loss: the mean over texts and numbers of (v − teacher's v)², where the teacher's
//                    are of length 1 with v / ‖v‖ in place of v
//
// Sources: Reimers and Gurevych 2019; Su 2022 (CoSENT); Henderson et al. 2017 (mnrl); Kusupati et al. 2022
// (matryoshka); Reimers and Gurevych 2020 (the teacher). Values and gradients are Sentence-Transformers', of models
// that end in a Normalize, as those that are saved here do.
//
// Gradient caching (Gao et al. 2021): the loss needs all vectors of a batch, a graph of all of them would not fit. So
// vectors are computed in pieces without a graph, and in the backward each piece again with one: the gradient is that
// of the whole batch, to rounding, with the memory of a piece.
//
// An update that is cut into parts (train/shards.h) is one batch for the losses above: the vectors of all its
// micro-batches are computed without a graph, the loss is differentiated by them, and each micro-batch's forward takes
// its share of that gradient back. So negatives come from all parts and all processes, each of which computes all
// vectors: the bits depend on no number of processes.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/option_table.h"
#include "nn/pooling.h"
#include "train/loss.h"

namespace lshformer {

enum class SimilarityLossType { kCosine, kCosent, kMnrl, kMnrlSymmetric, kTriplet };

struct SimilarityLossOptions {
  SimilarityLossType type = SimilarityLossType::kMnrl;
  double scale = 20;
  double margin = 5;
  std::vector<int64_t> dims;  // matryoshka; empty: the whole vector
  int64_t chunk = 0;          // texts a piece of the gradient cache; 0: none, all at once
  Pooling pooling = Pooling::kMean;
  bool unit_teacher = false;  // a teacher's vectors are of length 1
};

bool NeedsScores(SimilarityLossType type);  // of pairs
SimilarityLossType ParseSimilarityLoss(const std::string& name);

// The groups of a batch as vectors.
struct VectorGroups {
  torch::Tensor vectors;         // [texts, H] float64
  std::vector<int32_t> begins;   // [groups + 1] into the texts
  std::vector<float> scores;     // [groups], or empty
  std::vector<int32_t> same_as;  // [texts] the first text of the batch that is the same
};

// Without a teacher: [], a function of vectors alone, with gradients. Error where groups lack what the loss needs.
torch::Tensor LossOfGroups(const SimilarityLossOptions& options, const VectorGroups& groups);

// Vectors [sequences, H] float64 of a batch, with gradients where they are on; through the gradient cache where options
// say so.
torch::Tensor VectorsOf(Model& model, const PackedBatch& batch, const ForwardOptions& forward,
                        const SimilarityLossOptions& options);

// A teacher's vectors of a batch's texts, [sequences, H] float64 without gradients; empty: there is no teacher.
using WantedVectors = std::function<torch::Tensor(const PackedBatch& batch)>;

// Of batches whose labels say which sequences are a group (cu_choices) and have values where the loss needs scores. One
// term, a mean over groups. whole_update: all micro-batches of an update are one batch (nothing changes with a teacher,
// whose texts know nothing of each other).
TrainingLoss SimilarityLoss(const SimilarityLossOptions& options, const WantedVectors& teacher = {},
                            bool whole_update = false);
// The loss of one batch in evaluation; without gradients.
double EvaluatedLoss(const WantedVectors& teacher, const PackedBatch& batch, const torch::Tensor& vectors,
                     const SimilarityLossOptions& options);

}  // namespace lshformer
