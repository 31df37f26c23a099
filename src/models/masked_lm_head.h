// The head of masked words: LayerNorm(f(W_t · h + b_t)) · Eᵀ + b, [T, V], E the word table, [V, width]
// (models/head_transform.h).
//
// Its loss is the mean cross-entropy over the labelled tokens.
#pragma once
#include <string>
#include <vector>

#include "kernels/precision.h"
#include "models/head_transform.h"
#include "models/last_states.h"
#include "models/model.h"

namespace lshformer {

struct MaskedLmForm {
  HeadTransformForm transform;
  std::string decoder_bias;  // a tensor of its own; "": b is 0
};

class MaskedLmHead {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const MaskedLmForm& form, const ModelConfig& config);
  // words: the table that the decoder shares.
  MaskedLmHead(const ParameterMap& parameters, const MaskedLmForm& form, const ModelConfig& config,
               const torch::Tensor& words);
  // The tokens whose states it reads, ascending; empty: all. Of a batch with labels those alone that have one, unless
  // all logits are asked for.
  static std::vector<int64_t> TokensRead(const PackedBatch& batch, const ForwardOptions& options);
  // Fills logits and, where the batch has labels, loss, as ModelOutput says. `precision` is the encoder's.
  void operator()(const LastStates& last, const PackedBatch& batch, const ForwardOptions& options, Precision precision,
                  ModelOutput& output) const;

 private:
  int64_t vocab_size_;
  torch::Tensor words_, decoder_bias_;
  HeadTransform transform_;  // [n, width]
  Linear decoder_;
};

bool HasTokenLabel(const PackedBatch& batch);  // some token has one

}  // namespace lshformer
