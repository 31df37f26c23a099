// The heads of encoders: hidden states to logits and, where the batch has labels, losses. Formulas: HF's modeling_bert
// and modeling_albert, whose heads differ in names, in the decoder's width and in dropout.
//
//   pooled = tanh(W_p · h_[CLS] + b_p)                                     h: [T, H], pooled: [B, H]
//   masked LM       LayerNorm(f(W_t · h + b_t)) · Eᵀ + b                   [T, V], E the word table, [V, width]
//   sentence pairs  W · dropout(pooled) + b                                [B, 2]
//   classification  W · dropout(pooled) + b                                [B, labels]; one label: a regression; or
//                                                                          each a yes or no of its own (multi-label)
//   multiple choice w · dropout(pooled) + b                                [B], a softmax over an example's options
//   answers         W · h + b                                              [T, 2], start and end; or
//                   models/conditional_answers.h
//
// A loss is the mean cross-entropy (a regression's: of squares; of several labels: the binary one over examples and
// labels, −y·log σ(x) − (1 − y)·log σ(−x)) over the labelled items; multiple choice's items are
// examples, whose options are a batch's sequences (Labels::cu_choices).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/conditional_answers.h"
#include "models/model.h"
#include "nn/encoder.h"
#include "nn/forward_context.h"
#include "nn/layer_norm.h"

namespace lshformer {

// Prefixes of ".weight" and ".bias", in full, but decoder_bias, a tensor of its own.
struct HeadNames {
  std::string pooler, transform, transform_norm, decoder_bias, sentence_pairs;
  std::string classifier = "classifier", answers = "qa_outputs";
  bool conditional_answers = false;  // in place of `answers`, under their own names
};

// Before the maps that look at the pooled state.
struct HeadDropout {
  double sentence_pairs, classifier;
};

// What comes out of an encoder, of all tokens or of some.
struct LastStates {
  torch::Tensor states;                                        // [T, H] or [tokens, H]
  std::vector<int64_t> tokens{};                               // whose they are, ascending; empty: all
  torch::Tensor Of(const std::vector<int64_t>& wanted) const;  // [wanted, H]; `tokens` has them
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
  // Runs the encoder from [T, H] on, and the head on its last states; fills `output`.
  void operator()(const Encoder& encoder, const torch::Tensor& embeddings, const PackedBatch& batch,
                  const ForwardOptions& options, const ForwardContext& context, ModelOutput& output) const;

 private:
  // The tokens that the head looks at under options.head_only, ascending; empty: all.
  std::vector<int64_t> TokensRead(const PackedBatch& batch, const ForwardOptions& options) const;
  void RunHead(const PackedBatch& batch, const ForwardOptions& options, const ForwardContext& context,
               const LastStates& last, ModelOutput& output) const;
  torch::Tensor Transform(const torch::Tensor& hidden, Precision precision) const;  // [n, width]
  void RunMaskedLm(const PackedBatch& batch, const ForwardOptions& options, Precision precision, const LastStates& last,
                   ModelOutput& output) const;
  void RunPretraining(const PackedBatch& batch, const ForwardOptions& options, const ForwardContext& context,
                      const LastStates& last, ModelOutput& output) const;
  void RunClassification(const PackedBatch& batch, const ForwardContext& context, ModelOutput& output) const;
  void RunChoices(const PackedBatch& batch, const ForwardContext& context, ModelOutput& output) const;
  void RunAnswers(const PackedBatch& batch, ModelOutput& output) const;

  Task task_;
  int64_t vocab_size_, num_labels_;
  UnaryFunction function_;
  HeadDropout dropout_;
  torch::Tensor words_, decoder_bias_;
  std::optional<Linear> pooler_, transform_, decoder_, sentence_pairs_, classifier_, answers_;
  std::optional<LayerNorm> transform_norm_;
  std::optional<ConditionalAnswers> conditional_answers_;
};

// What an encoder's forward begins with. Error naming sequence and token where a batch does not fit the config: empty,
// longer than max_position_embeddings, ids, types or positions out of range.
void CheckTokens(const PackedBatch& batch, const ModelConfig& config);
ForwardContext MakeContext(const PackedBatch& batch, const ForwardOptions& options, Precision precision,
                           ModelOutput& output);

}  // namespace lshformer
