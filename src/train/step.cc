#include "train/step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace lshformer {

TrainingStep::TrainingStep(Model& model, const TrainingOptions& options, TrainingLoss loss)
    : model_(model), loss_of_(std::move(loss)), max_grad_norm_(options.max_grad_norm) {
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
}

void TrainingStep::Begin(std::span<const PackedBatch> batches) {
  forward_.micro_step = 0;
  loss_ = 0;
  items_ = loss_of_.items(model_, batches);
  of_update_.clear();
  for (const TermItems& items : items_) {
    of_update_.resize(items.size());
    for (size_t term = 0; term < items.size(); ++term) of_update_[term] += items[term];
  }
}

double TrainingStep::Accumulate(const PackedBatch& batch) {
  if (forward_.micro_step == 0) {
    for (const auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
  }
  const auto place = static_cast<size_t>(forward_.micro_step);
  if (place >= items_.size()) Fail("the update has {} micro-batches", items_.size());
  forward_.step = updates();
  const ForwardOptions forward = forward_;
  ++forward_.micro_step;
  const TermItems& items = items_[place];
  // Nothing to learn from: a mean over nothing would be NaN.
  if (std::all_of(items.begin(), items.end(), [](int64_t count) { return count == 0; })) return loss_;
  const std::vector<torch::Tensor> terms = loss_of_.terms(model_, batch, forward);
  if (terms.size() != items.size()) Fail("the loss has {} terms, its items are of {}", terms.size(), items.size());
  torch::Tensor sum;
  double value = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (items[i] == 0) continue;
    const double share = static_cast<double>(items[i]) / static_cast<double>(of_update_[i]);
    value += terms[i].item<double>() * share;
    const torch::Tensor part = items[i] == of_update_[i] ? terms[i] : terms[i] * share;
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
