#include "train/step.h"

#include <algorithm>
#include <cmath>

namespace lshformer {

TrainingStep::TrainingStep(Model& model, const TrainingOptions& options)
    : model_(model), max_grad_norm_(options.max_grad_norm) {
  const NamedTensors all = model.NamedParameters();
  const std::vector<ParameterRole> roles = Roles(model);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!roles[i].trained) continue;
    parameters_.push_back(all[i]);
    roles_.push_back(roles[i]);
  }
  optimizer_ = MakeOptimizer(options, parameters_, roles_);
  forward_.train = true;
  forward_.seed = options.seed;
  forward_.gradient_checkpointing = options.gradient_checkpointing;
  forward_.head_only = true;
}

std::vector<int64_t> TrainingStep::Items(std::span<const PackedBatch> batches) const {
  std::vector<int64_t> all;
  for (const PackedBatch& batch : batches) {
    const std::vector<int64_t> items = LossItems(model_.task(), batch.labels);
    all.resize(items.size());
    for (size_t term = 0; term < items.size(); ++term) all[term] += items[term];
  }
  return all;
}

double TrainingStep::Accumulate(const PackedBatch& batch, std::span<const int64_t> of_update) {
  if (forward_.micro_step == 0) {
    for (const auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
  }
  forward_.step = updates();
  const ForwardOptions forward = forward_;
  ++forward_.micro_step;
  const std::vector<int64_t> items = LossItems(model_.task(), batch.labels);
  // Nothing to learn from: a mean over nothing would be NaN.
  if (std::all_of(items.begin(), items.end(), [](int64_t count) { return count == 0; })) return loss_;
  const ModelOutput output = model_.Forward(batch, forward);
  torch::Tensor sum;
  double value = 0;
  for (size_t i = 0; i < output.terms.size(); ++i) {
    const LossTerm& term = output.terms[i];
    if (term.items == 0) continue;
    const double share = static_cast<double>(term.items) / static_cast<double>(of_update[i]);
    value += term.mean.item<double>() * share;
    const torch::Tensor part = term.items == of_update[i] ? term.mean : term.mean * share;
    sum = sum.defined() ? sum + part : part;
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
