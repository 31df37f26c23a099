// The heads of BERT and ALBERT, one for each task, put together from parts: last states to logits and, where the batch
// has labels, losses. Formulas: HF's modeling_bert and modeling_albert, whose heads differ in names, in the decoder's
// width and in dropout.
//
//   masked LM       models/masked_lm_head.h                                [T, V]
//   sentence pairs  W · dropout(pooled) + b, models/pooled_heads.h         [B, 2]
//   classification  the same                                               [B, labels]; one label: a regression; or
//                                                                          each a yes or no of its own (multi-label)
//   multiple choice the same                                               [B], a softmax over an example's options
//   answers         W · h + b, models/span_answers.h                       [T, 2], start and end; or
//                   models/conditional_answers.h
//
// A loss is the mean over the labelled items; multiple choice's items are examples, whose options are a batch's
// sequences (Labels::cu_choices). A family whose heads are others puts other parts together.
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

// Prefixes of ".weight" and ".bias", in full.
struct HeadNames {
  std::string pooler;
  MaskedLmNames masked_lm;
  std::string sentence_pairs, classifier = "classifier", answers = "qa_outputs";
  bool conditional_answers = false;  // in place of `answers`, under their own names
};

// Before the maps that look at the pooled state.
struct HeadDropout {
  double sentence_pairs, classifier;
};

class EncoderHeads {
 public:
  static bool HasPooler(Task task) { return task != Task::kMaskedLm && task != Task::kQuestionAnswering; }
  // The pooler and the task's head.
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const HeadNames& names, const ModelConfig& config,
                          Task task);
  // words: the table that the masked-LM decoder shares.
  EncoderHeads(const ParameterMap& parameters, const HeadNames& names, const ModelConfig& config, Task task,
               const HeadDropout& dropout, const torch::Tensor& words);
  // The tokens whose last states it reads under options.head_only, ascending; empty: all.
  std::vector<int64_t> TokensRead(const PackedBatch& batch, const ForwardOptions& options) const;
  // Reads them, and fills `output`.
  void operator()(const LastStates& last, const PackedBatch& batch, const ForwardOptions& options,
                  const ForwardContext& context, ModelOutput& output) const;

 private:
  void RunPretraining(const LastStates& last, const PackedBatch& batch, const ForwardOptions& options,
                      const ForwardContext& context, ModelOutput& output) const;
  void RunPooled(const PackedBatch& batch, const ForwardContext& context, ModelOutput& output) const;

  Task task_;
  std::optional<Pooler> pooler_;
  std::optional<MaskedLmHead> masked_lm_;
  std::optional<PooledMap> sentence_pairs_, classifier_;  // classifier: of classes or of options
  std::optional<Linear> answers_;
  std::optional<ConditionalAnswers> conditional_answers_;
};

}  // namespace lshformer
