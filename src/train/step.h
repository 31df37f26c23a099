// One update of a model's weights, in four calls:
//
//   TrainingStep step(model, options);
//   step.Begin(micro_batches);                                            // counts their items
//   for (const PackedBatch& batch : micro_batches) step.Accumulate(batch);   // forward, backward
//   step.Reduce();                                                        // over parts and processes
//   step.Update(learning_rate);                                           // clip, optimizer
//
// Loss of an update = Σ over the items of all its micro-batches / their number (loss.h), so that accumulating k batches
// of n examples equals one batch of k·n (transformers' num_items_in_batch). The two means of pretraining are over
// different things, tokens and pairs; each is divided by its own number.
//
// The result is a function of weights, optimizer's state, batches, seed, number of the update and number of threads,
// bit for bit. Losses and gradients of the micro-batches are added up in the order of the calls; none depends on
// another. Where the update has several parts (shards.h), that holds for those of one part; the gradients of the parts
// are added in one binary tree (gradient_tree.h) and their losses in their order, whoever computes them: each of
// several processes its own.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "dist/communicator.h"
#include "models/model.h"
#include "train/gradient_exchange.h"
#include "train/gradient_tree.h"
#include "train/loss.h"
#include "train/optimizer.h"
#include "train/options.h"
#include "train/slices.h"

namespace lshformer {

class TrainingStep {
 public:
  // Of `options` it reads the optimizer, max_grad_norm, gradient_checkpointing, gradient_shards and the seed. The model
  // must outlive it, and so must `processes`, those that share the run (null: this one is alone). With
  // sequence_parallel they share each forward of the model (Model::ShareTokens), and each makes all parts of an update.
  TrainingStep(Model& model, const TrainingOptions& options, TrainingLoss loss = HeadLoss(),
               Communicator* processes = nullptr);

  // Begins an update of these micro-batches, all of them on every process. Their items are counted here, and nowhere
  // else. `parts`: which part of the update each belongs to, ascending; empty: all to the first.
  void Begin(std::span<const PackedBatch> batches, std::vector<int> parts = {});

  // Of the next of them: adds the gradient of its share of the update's loss to the parameters' gradients, which the
  // first one clears. Returns the loss so far. Where this micro-batch's share is not finite, its backward is not run,
  // and there must be no Update. A batch without items adds nothing, nor does one that is another process's.
  double Accumulate(const PackedBatch& batch);

  // Between the last Accumulate and Update: adds up loss and gradients of all parts, of all processes. Where the loss
  // is not finite then, it is so on all of them.
  void Reduce();

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
  // Where each process has a slice of the optimizer's state alone: makes it whole at rank 0, to be written; and forgets
  // on each what is not its own. Nothing elsewhere.
  void GatherState();
  void ForgetState();

 private:
  double AccumulateItems(const PackedBatch& batch, const TermItems& items, const ForwardOptions& forward);
  void EnterPart(int part);
  void ClosePart();
  bool IsMine(int part) const;
  double Norm() const;

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

  Communicator* processes_;
  int parts_of_update_;  // 1: nothing of what follows
  std::pair<int, int> own_parts_;
  std::optional<GradientExchange> exchange_;
  std::optional<Slices> slices_;  // of the optimizer's state; none: each process has all of it
  ElementRange own_elements_;
  std::vector<int> part_of_;  // [micro-batches]
  int part_ = 0;              // that is being accumulated or comes next
  bool in_part_ = false;      // it has a micro-batch already
  GradientTree tree_;
  std::vector<double> losses_;  // [parts]
};

}  // namespace lshformer
