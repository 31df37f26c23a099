// What a model with a head for masked words loses on hidden ones under another attention.
#pragma once
#include <cstdint>
#include <vector>

#include "convert/calibration.h"

namespace lshformer {

// On the held-out texts, 15 % of whose tokens are hidden as in training (data/masking.h), the same for all attentions.
class MaskedWords {
 public:
  // exact: with that head. `texts` outlives this.
  MaskedWords(ModelPtr exact, const CalibrationTexts& texts, const Tokenizer& tokenizer, uint64_t seed);
  int64_t count() const { return count_; }  // of hidden words
  // Nats a hidden word, more than the exact model's; of the same weights.
  double LossChange(const std::vector<AttentionSpec>& attention, const LayerDirections& directions);

 private:
  double Loss(Model& model);

  ModelPtr exact_;
  std::vector<PackedBatch> batches_;  // of one text each, those with a hidden word
  std::vector<int64_t> counts_;       // of hidden words
  int64_t count_ = 0;
  double exact_loss_ = 0;
};

}  // namespace lshformer
