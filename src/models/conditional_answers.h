// The head of ALBERT's own code for SQuAD 2.0 (create_v2_model in google-research/albert), under the tensor names that
// HF's XLNet has for the same head:
//
//   start      s_t = w_s · h_t + b_s
//   end        e_t(i) = w_e · LayerNorm(tanh(W_1 · [h_t; h_i] + b_1)) + b_e
//   no answer  z = w_z · dropout(tanh(W_2 · [Σ_t softmax(s)_t · h_t; h_CLS] + b_2))
//
//   start_logits.dense: w_s, b_s   end_logits.dense_0: W_1, b_1, .LayerNorm, .dense_1: w_e, b_e
//   answer_class.dense_0: W_2, b_2, .dense_1: w_z, without bias
//
// h: [T, H]; s, e: [T]; z: [B]; W_1, W_2: [H, 2H]; i: the start, a token of the same sequence. Starts and ends are
// tokens of the context, that is of type 1 but for a sequence's last token, and [CLS]; logits of all others are −1e30.
// softmax runs over a sequence's own tokens.
//
// With W_1 = [A B] the product A · h_t + b_1 is computed once for every token, B · h_i once for every start, and the
// ends of one start a sequence are in memory at a time: [T, H] numbers, never [T, 2H] or [T, T].
//
// Loss, i being the labelled start: ½ (mean cross-entropy of s + mean of e(i)) + ½ mean binary cross-entropy of z. A
// label that is no span of the context (a window that does not hold the answer) is [CLS] for s and e, and 1 for z;
// any other is 0 for z.
//
// Answers, outside training: of each sequence the kBeamStarts likeliest starts, and the kBeamEnds likeliest ends of
// each (data/answer_beam.h). Results of a sequence do not depend on the others.
#pragma once
#include <string>
#include <vector>

#include "models/config.h"
#include "nn/forward_context.h"
#include "nn/layer_norm.h"

namespace lshformer {

struct ModelOutput;

constexpr int kBeamStarts = 5, kBeamEnds = 5;

class ConditionalAnswers {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const ModelConfig& config);
  ConditionalAnswers(const ParameterMap& parameters, const ModelConfig& config, double dropout);
  // From output.last_hidden_state: start_logits and no_answer_logits; with labels the loss; outside training also
  // end_logits, of each sequence's likeliest start, and beams. Of a sequence with logits that are not finite the beam
  // is not finite either. Error unless every sequence has a label or none has.
  void operator()(const PackedBatch& batch, const ForwardContext& context, ModelOutput& output) const;

 private:
  struct Tokens;  // what the end network knows of a batch before a start is chosen
  Tokens TokensOf(const PackedBatch& batch, const torch::Tensor& hidden) const;
  // starts: a row of `hidden` for each sequence → [T]
  torch::Tensor EndLogits(const Tokens& tokens, const torch::Tensor& hidden, const std::vector<int64_t>& starts) const;
  torch::Tensor NoAnswerLogits(const PackedBatch& batch, const ForwardContext& context, const torch::Tensor& hidden,
                               const torch::Tensor& start_logits) const;  // [B]
  void FindBeams(const PackedBatch& batch, const Tokens& tokens, ModelOutput& output) const;

  double dropout_;
  torch::Tensor joined_;  // W_1
  torch::Tensor joined_bias_;
  Linear start_, end_, summary_, no_answer_;
  LayerNorm end_norm_;
};

}  // namespace lshformer
