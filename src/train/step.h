// One update of a model's weights, in four calls:
//
//   TrainingStep step(model, options);
//   step.Begin(micro_batches);                                            // counts their items
//   for (const PackedBatch& batch : micro_batches) step.Accumulate(batch);   // forward, backward
//   step.Reduce();                                                        // over processes
//   step.Update(learning_rate);                                           // clip, optimizer
//
// Loss of an update = Σ over the items of all its micro-batches / their number (loss.h), so that accumulating k batches
// of n examples equals one batch of k·n (transformers' num_items_in_batch). The two means of pretraining are over
// different things, tokens and pairs; each is divided by its own number.
//
// The result is a function of weights, optimizer's state, batches, seed, number of the update and number of threads,
// bit for bit. Losses and gradients of the micro-batches are added up in the order of the calls; none depends on
// another.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/batch.h"
#include "models/model.h"
#include "train/loss.h"
#include "train/optimizer.h"
#include "train/options.h"

namespace lshformer {

class TrainingStep {
 public:
  // Of `options` it reads the optimizer, max_grad_norm, gradient_checkpointing and the seed. The model must outlive it.
  TrainingStep(Model& model, const TrainingOptions& options, TrainingLoss loss = HeadLoss());

  // Begins an update of these micro-batches. Their items are counted here, and nowhere else.
  void Begin(std::span<const PackedBatch> batches);

  // Of the next of them: adds the gradient of its share of the update's loss to the parameters' gradients, which the
  // first one clears. Returns the loss so far. Where this micro-batch's share is not finite, its backward is not run,
  // and there must be no Update. A batch without items adds nothing.
  double Accumulate(const PackedBatch& batch);

  // The place between the last Accumulate and Update where training in several processes adds up loss and gradients.
  // There is one process today, which has nothing to add.
  void Reduce() {}

  // Clips the gradients' norm to max_grad_norm, updates the weights, and ends the update. Returns the norm before
  // clipping; where it is not finite, nothing is changed.
  double Update(double learning_rate);

  // Updates made: the number of the next one, which its dropout, planes and rotations are drawn from. A restored
  // optimizer brings its own.
  int64_t updates() const { return optimizer_->steps(); }
  double loss() const { return loss_; }  // of the update, as far as it was accumulated; 0 after Update
  // Those that are trained, and what each is.
  const NamedTensors& parameters() const { return parameters_; }
  const std::vector<ParameterRole>& roles() const { return roles_; }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  Model& model_;
  TrainingLoss loss_of_;
  NamedTensors parameters_;
  std::vector<ParameterRole> roles_;
  std::unique_ptr<Optimizer> optimizer_;
  double max_grad_norm_;
  ForwardOptions forward_;        // of the next micro-batch
  std::vector<TermItems> items_;  // of the update's micro-batches
  TermItems of_update_;           // their sums
  double loss_ = 0;
};

}  // namespace lshformer
