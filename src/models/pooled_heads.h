// Heads that look at one state a sequence:
//
//   pooled = tanh(W_p · h_[CLS] + b_p)      h: [T, H], pooled: [B, H]
//   logits = W · dropout(pooled) + b        [B, outputs]
//
// and the losses of what they say: of classes, of values or of several labels a sequence, and of options, where a
// batch's sequences are those of several examples.
#pragma once
#include <string>
#include <vector>

#include "models/last_states.h"
#include "models/model.h"

namespace lshformer {

class Pooler {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& name, const ModelConfig& config);
  Pooler(const ParameterMap& parameters, const std::string& name) : map_(parameters.LinearOf(name)) {}
  torch::Tensor operator()(const LastStates& last, const PackedBatch& batch) const;  // [B, H]

 private:
  Linear map_;
};

class PooledMap {
 public:
  // what: the outputs, in errors: "3 labels".
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& name, int64_t outputs,
                          const std::string& what, const ModelConfig& config);
  PooledMap(const ParameterMap& parameters, const std::string& name, double dropout)
      : map_(parameters.LinearOf(name)), dropout_(dropout) {}
  torch::Tensor operator()(const torch::Tensor& pooled, const ForwardContext& context) const;  // [B, outputs]

 private:
  Linear map_;
  double dropout_;
};

// Mean cross-entropy of [B, classes] by the batch's class labels. Error: another number of them, one out of range.
torch::Tensor ClassLoss(const torch::Tensor& logits, const PackedBatch& batch);
// Of [B, labels] by the labels that the batch has: values (mean of squares, of one output), flags (mean binary
// cross-entropy over examples and labels, −y·log σ(x) − (1 − y)·log σ(−x)) or classes; undefined where it has none.
torch::Tensor LabelLoss(const torch::Tensor& logits, const PackedBatch& batch);
// Mean over the examples of the cross-entropy of their options' scores [B] (Labels::cu_choices). Examples may have
// different numbers of them.
torch::Tensor ChoiceLoss(const torch::Tensor& scores, const Labels& labels);

}  // namespace lshformer
