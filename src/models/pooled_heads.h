// Heads that look at one state a sequence:
//
//   pooled = transform(dropout(h_[CLS]))      h: [T, H], pooled: [B, H]; or of the mean of a sequence's states
//   logits = W · dropout(pooled) + b          [B, outputs]
//
// and the losses of what they say: of classes, of values or of several labels a sequence, and of options, where a
// batch's sequences are those of several examples.
#pragma once
#include <string>
#include <vector>

#include "models/head_transform.h"
#include "models/last_states.h"
#include "models/model.h"
#include "nn/pooling.h"

namespace lshformer {

// BERT's: tanh(W_p · h_[CLS] + b_p), a block of its own beside the heads that read it.
struct PoolerForm {
  HeadTransformForm transform;
  Pooling pooling = Pooling::kCls;  // or kMean
  double dropout = 0;               // of the state that it reads
  std::string block = "pooler";     // or "head": then it belongs to the task's
};

class Pooler {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const PoolerForm& form, const ModelConfig& config);
  Pooler(const ParameterMap& parameters, const PoolerForm& form, double eps);
  torch::Tensor operator()(const LastStates& last, const PackedBatch& batch, const ForwardContext& context) const;
  // Whether it reads the first states alone.
  bool reads_first() const { return pooling_ == Pooling::kCls; }

 private:
  HeadTransform transform_;
  Pooling pooling_;
  double dropout_;
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
torch::Tensor ClassLoss(const torch::Tensor& logits, const PackedBatch& batch);  // of the batch its labels alone
// Of [B, labels] by the labels that the batch has: values (mean of squares, of one output), flags (mean binary
// cross-entropy over examples and labels, −y·log σ(x) − (1 − y)·log σ(−x)) or classes; undefined where it has none.
torch::Tensor LabelLoss(const torch::Tensor& logits, const PackedBatch& batch);
// Mean over the examples of the cross-entropy of their options' scores [B] (Labels::cu_choices). Examples may have
// different numbers of them.
torch::Tensor ChoiceLoss(const torch::Tensor& scores, const Labels& labels);

}  // namespace lshformer
