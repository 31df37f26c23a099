#include "train/step.h"

#include <algorithm>
#include <cmath>

#include "data/masking.h"

namespace lshformer {

Items LabelledItems(const PackedBatch& batch) {
  return {std::count_if(batch.token_labels.begin(), batch.token_labels.end(),
                        [](int32_t label) { return label != kIgnoredLabel; }),
          batch.token_labels.empty() || !batch.class_labels.empty() ? batch.sequences() : 0};
}

Items LabelledItems(std::span<const PackedBatch> batches) {
  Items all;
  for (const PackedBatch& batch : batches) {
    const Items items = LabelledItems(batch);
    all.tokens += items.tokens;
    all.sequences += items.sequences;
  }
  return all;
}

TrainingStep::TrainingStep(Model& model, const TrainingOptions& options)
    : model_(model),
      parameters_(model.NamedParameters()),
      optimizer_(MakeOptimizer(options, parameters_)),
      max_grad_norm_(options.max_grad_norm) {
  forward_.train = true;
  forward_.seed = options.seed;
  forward_.gradient_checkpointing = options.gradient_checkpointing;
}

double TrainingStep::Accumulate(const PackedBatch& batch, const Items& of_update) {
  if (forward_.micro_step == 0) {
    for (const auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
  }
  forward_.step = updates();
  const ForwardOptions forward = forward_;
  ++forward_.micro_step;
  const Items items = LabelledItems(batch);
  if (items.tokens + items.sequences == 0) return loss_;  // nothing to learn from: a mean over nothing would be NaN
  const ModelOutput output = model_.Forward(batch, forward);
  torch::Tensor sum;
  double value = 0;
  const auto add = [&](const torch::Tensor& loss, int64_t part, int64_t whole) {  // loss: []
    if (part == 0 || !loss.defined()) return;
    const double share = static_cast<double>(part) / static_cast<double>(whole);
    value += loss.item<double>() * share;
    const torch::Tensor term = part == whole ? loss : loss * share;
    sum = sum.defined() ? sum + term : term;
  };
  if (output.token_loss.defined() || output.sequence_loss.defined()) {
    add(output.token_loss, items.tokens, of_update.tokens);
    add(output.sequence_loss, items.sequences, of_update.sequences);
  } else {
    const bool tokens = items.tokens > 0;
    add(output.loss, tokens ? items.tokens : items.sequences, tokens ? of_update.tokens : of_update.sequences);
  }
  loss_ += value;
  if (std::isfinite(value)) sum.backward();
  return loss_;
}

double TrainingStep::Update(double learning_rate) {
  const double norm = GradientNorm(parameters_);
  if (!std::isfinite(norm)) return norm;
  optimizer_->Step(learning_rate, ClipScale(norm, max_grad_norm_));
  forward_.micro_step = 0;
  loss_ = 0;
  return norm;
}

}  // namespace lshformer
