#include "train/step.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "train/gradient.h"
#include "train/shards.h"

namespace lshformer {

TrainingStep::TrainingStep(Model& model, const TrainingOptions& options, TrainingLoss loss, Communicator* processes)
    : model_(model),
      loss_of_(std::move(loss)),
      max_grad_norm_(options.max_grad_norm),
      processes_(options.sequence_parallel ? nullptr : processes),
      parts_of_update_(std::max(1, options.gradient_shards)),
      own_parts_(processes_ == nullptr ? std::pair(0, parts_of_update_)
                                       : PartsOf(processes_->rank(), processes_->size(), parts_of_update_)) {
  const NamedTensors all = model.NamedParameters();
  const std::vector<ParameterRole> roles = Roles(model);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!roles[i].trained) continue;
    parameters_.push_back(all[i]);
    roles_.push_back(roles[i]);
  }
  if (processes_ != nullptr && options.shard_optimizer) {
    slices_.emplace(parameters_, AllOf(parameters_), processes_->size());
    own_elements_ = slices_->range(processes_->rank());
  }
  optimizer_ = MakeOptimizer(options, parameters_, roles_, own_elements_);
  forward_.train = true;
  forward_.seed = options.seed;
  forward_.gradient_checkpointing = options.gradient_checkpointing;
  if (processes_ != nullptr) exchange_.emplace(*processes_, parameters_, parts_of_update_, slices_.has_value());
}

void TrainingStep::Begin(std::span<const PackedBatch> batches, std::vector<int> parts) {
  forward_.micro_step = 0;
  loss_ = 0;
  part_of_ = parts.empty() ? std::vector<int>(batches.size()) : std::move(parts);
  losses_.assign(static_cast<size_t>(parts_of_update_), 0.0);
  part_ = own_parts_.first;
  in_part_ = false;
  tree_.TakeNodes();
  items_ = loss_of_.items(model_, batches);
  of_update_.clear();
  for (const TermItems& items : items_) {
    of_update_.resize(items.size());
    for (size_t term = 0; term < items.size(); ++term) of_update_[term] += items[term];
  }
}

bool TrainingStep::IsMine(int part) const { return part >= own_parts_.first && part < own_parts_.second; }

// The gradient of a part begins with nothing.
void TrainingStep::EnterPart(int part) {
  while (part_ < part) ClosePart();
  if (std::exchange(in_part_, true)) return;
  for (const auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
}

// One without a micro-batch has no gradient.
void TrainingStep::ClosePart() {
  GradientNode node{part_++, 1, std::vector<torch::Tensor>(parameters_.size())};
  for (size_t i = 0; i < parameters_.size() && in_part_; ++i) {
    const torch::Tensor gradient = std::exchange(parameters_[i].second.mutable_grad(), {});
    if (gradient.defined()) node.gradients[i] = gradient.is_sparse() ? WithRowsOnce(gradient) : gradient.contiguous();
  }
  in_part_ = false;
  tree_.Add(std::move(node));
}

void TrainingStep::Reduce() {
  if (parts_of_update_ == 1 && processes_ == nullptr) return;
  while (part_ < own_parts_.second) ClosePart();
  std::vector<torch::Tensor> total =
      processes_ == nullptr ? tree_.TakeTotal() : exchange_->Total(tree_.TakeNodes(), losses_);
  loss_ = 0;
  for (const double loss : losses_) loss_ += loss;
  for (size_t i = 0; i < total.size(); ++i) parameters_[i].second.mutable_grad() = std::move(total[i]);
}

double TrainingStep::Accumulate(const PackedBatch& batch) {
  const auto place = static_cast<size_t>(forward_.micro_step);
  if (place >= items_.size()) Fail("the update has {} micro-batches", items_.size());
  if (!IsMine(part_of_[place])) return ++forward_.micro_step, loss_;
  EnterPart(part_of_[place]);
  forward_.step = updates();
  const ForwardOptions forward = forward_;
  ++forward_.micro_step;
  const TermItems& items = items_[place];
  // Nothing to learn from: a mean over nothing would be NaN.
  if (std::all_of(items.begin(), items.end(), [](int64_t count) { return count == 0; })) return loss_;
  return AccumulateItems(batch, items, forward);
}

double TrainingStep::AccumulateItems(const PackedBatch& batch, const TermItems& items, const ForwardOptions& forward) {
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
  losses_[static_cast<size_t>(part_)] += value;
  loss_ += value;
  if (std::isfinite(value)) sum.backward();
  return loss_;
}

// The same sum in the same order, of which each process has a part.
double TrainingStep::Norm() const {
  if (!slices_) return GradientNorm(parameters_);
  const std::vector<double> own = GradientSquares(parameters_, own_elements_);
  double sum = 0;
  for (const std::string& text :
       processes_->AllGather(std::string(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(double)))) {
    std::vector<double> squares(text.size() / sizeof(double));
    std::memcpy(squares.data(), text.data(), text.size());
    for (const double square : squares) sum += square;
  }
  return std::sqrt(sum);
}

void TrainingStep::GatherState() {
  if (!slices_) return;
  const NamedTensors state = optimizer_->State();
  const size_t each = state.size() / std::max<size_t>(1, parameters_.size());
  for (size_t k = 0; k < each; ++k) {
    std::vector<torch::Tensor> tensors;
    for (size_t i = 0; i < parameters_.size(); ++i) tensors.push_back(state[i * each + k].second);
    slices_->GatherAtFirst(*processes_, tensors);
  }
}

void TrainingStep::ForgetState() {
  if (slices_) ForgetOthers(*optimizer_, parameters_, own_elements_);
}

double TrainingStep::Update(double learning_rate) {
  const double norm = Norm();
  if (!std::isfinite(norm)) return norm;
  optimizer_->Step(learning_rate, ClipScale(norm, max_grad_norm_));
  if (slices_) {
    std::vector<torch::Tensor> weights;
    for (const auto& [name, parameter] : parameters_) weights.push_back(parameter);
    slices_->Share(*processes_, weights);
  }
  forward_.micro_step = 0;
  loss_ = 0;
  return norm;
}

}  // namespace lshformer
