// The head of masked words: LayerNorm(f(W_t · h + b_t)) · Eᵀ + b, [T, V], E the word table, [V, width].
//
// Its loss is the mean cross-entropy over the labelled tokens.
#pragma once
#include <string>
#include <vector>

#include "kernels/precision.h"
#include "models/last_states.h"
#include "models/model.h"
#include "nn/activation.h"
#include "nn/layer_norm.h"

namespace lshformer {

// Prefixes of ".weight" and ".bias", in full, but decoder_bias, a tensor of its own.
struct MaskedLmNames {
  std::string transform, transform_norm, decoder_bias;
};

class MaskedLmHead {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const MaskedLmNames& names, const ModelConfig& config);
  // words: the table that the decoder shares.
  MaskedLmHead(const ParameterMap& parameters, const MaskedLmNames& names, const ModelConfig& config,
               const torch::Tensor& words);
  // The tokens whose states it reads, ascending; empty: all. Of a batch with labels those alone that have one, unless
  // all logits are asked for.
  static std::vector<int64_t> TokensRead(const PackedBatch& batch, const ForwardOptions& options);
  // Fills logits and, where the batch has labels, loss, as ModelOutput says. `precision` is the encoder's.
  void operator()(const LastStates& last, const PackedBatch& batch, const ForwardOptions& options, Precision precision,
                  ModelOutput& output) const;

 private:
  torch::Tensor Transform(const torch::Tensor& hidden, Precision precision) const;  // [n, width]

  int64_t vocab_size_;
  UnaryFunction function_;
  torch::Tensor words_, decoder_bias_;
  Linear transform_, decoder_;
  LayerNorm transform_norm_;
};

bool HasTokenLabel(const PackedBatch& batch);  // some token has one

}  // namespace lshformer
