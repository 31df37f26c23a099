// What a training step makes smaller: a sum of terms, each a mean over items of the update's micro-batches (labelled
// tokens, sequences …).
//
//   loss of an update = Σ over terms of  Σ over its micro-batches of  mean of the term · its items in the micro-batch
//                                        ─────────────────────────────────────────────────────────────────────────────
//                                                     the term's items in all micro-batches
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/batch.h"
#include "models/model.h"

namespace lshformer {

// The items of each term, [term].
using TermItems = std::vector<int64_t>;

struct TrainingLoss {
  // The items of each micro-batch, [micro-batch]. Called once an update, before the first forward, with all its
  // micro-batches: a loss that looks at all of them together does so here.
  std::function<std::vector<TermItems>(Model& model, std::span<const PackedBatch> update)> items;
  // The terms' means over the micro-batch, [] each, from which gradients go back; one without items is not looked at.
  // `options` say what a forward of training has (dropout, its numbers, what is kept for the backward); a loss with
  // forwards of its own may change them. Not called where no term has an item.
  std::function<std::vector<torch::Tensor>(Model& model, const PackedBatch& batch, const ForwardOptions& options)>
      terms;
};

// The loss of the model's own head on the batch's labels: items are those of LossItems (models/model.h).
TrainingLoss HeadLoss();

}  // namespace lshformer
