// The heads of encoders, one for each task, put together from parts: last states to logits and, where the batch has
// labels, losses. Families' heads differ in names, in what stands before a map, in the decoder's width and in dropout,
// which a HeadForm says. Formulas: HF's modeling_<family>.
//
//   masked LM       models/masked_lm_head.h                                [T, V]
//   sentence pairs  W · dropout(pooled) + b, models/pooled_heads.h         [B, 2]
//   classification  the same                                               [B, labels]; one label: a regression; or
//                                                                          each a yes or no of its own (multi-label)
//   multiple choice the same                                               [B], a softmax over an example's options
//   answers         W · dropout(h) + b, or of transform(h),                [T, 2], start and end; or
//                   models/span_answers.h                                  models/conditional_answers.h
//
// A loss is the mean over the labelled items; multiple choice's items are examples, whose options are a batch's
// sequences (Labels::cu_choices).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/conditional_answers.h"
#include "models/last_states.h"
#include "models/masked_lm_head.h"
#include "models/model.h"
#include "models/pooled_heads.h"

namespace lshformer {

// The heads of one task: names are prefixes of ".weight" and ".bias", in full.
struct HeadForm {
  std::optional<PoolerForm> pooler{};  // of those that look at one state a sequence
  MaskedLmForm masked_lm{};
  std::string sentence_pairs = "", classifier = "classifier", answers = "qa_outputs";
  std::optional<HeadTransformForm> answer_transform{};  // of every state, before `answers`
  bool conditional_answers = false;                     // in place of `answers`, under their own names
  // Before the maps that look at the pooled state, and before `answers`.
  double sentence_pair_dropout = 0, classifier_dropout = 0, answer_dropout = 0;
};

class EncoderHeads {
 public:
  // The pooler and the task's head.
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const HeadForm& form, const ModelConfig& config,
                          Task task);
  // words: the table that the masked-LM decoder shares.
  EncoderHeads(const ParameterMap& parameters, const HeadForm& form, const ModelConfig& config, Task task,
               const torch::Tensor& words);
  // The tokens whose last states it reads under options.head_only, ascending; empty: all.
  std::vector<int64_t> TokensRead(const PackedBatch& batch, const ForwardOptions& options) const;
  // Reads them, and fills `output`.
  void operator()(const LastStates& last, const PackedBatch& batch, const ForwardOptions& options,
                  const ForwardContext& context, ModelOutput& output) const;

 private:
  void RunPretraining(const LastStates& last, const PackedBatch& batch, const ForwardOptions& options,
                      const ForwardContext& context, ModelOutput& output) const;
  void RunPooled(const torch::Tensor& pooled, const PackedBatch& batch, const ForwardContext& context,
                 ModelOutput& output) const;
  torch::Tensor AnswerLogits(const torch::Tensor& states, const ForwardContext& context) const;  // [T, 2]

  Task task_;
  bool shows_pooled_;  // the pooled state is an output of its own
  double answer_dropout_;
  std::optional<Pooler> pooler_;
  std::optional<HeadTransform> answer_transform_;
  std::optional<MaskedLmHead> masked_lm_;
  std::optional<PooledMap> sentence_pairs_, classifier_;  // classifier: of classes or of options
  std::optional<Linear> answers_;
  std::optional<ConditionalAnswers> conditional_answers_;
};

}  // namespace lshformer
