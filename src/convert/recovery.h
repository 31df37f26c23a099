// A few steps of training that bring a converted model back to what the exact one computes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "convert/calibration.h"
#include "kernels/precision.h"
#include "models/model.h"

namespace lshformer {

struct RecoveryOptions {
  int64_t steps = 0;
  std::string train_file;  // as ReadCalibrationTexts has it
  int64_t max_seq_length = 0;
  double learning_rate = 5e-5;  // the peak
  Precision precision = Precision::kFloat32;
  uint64_t seed = 42;  // of the order of texts
};

// A model of this attention whose weights begin as `exact`'s and are trained, without dropout, to give its hidden
// states behind every layer (of a reversible one, behind the last): the loss is the mean over layers of
// Σ(h − h*)² / Σh*². Of a model that answers questions,
// on texts that are questions with their contexts, the divergence Σ p log(p / q) of the answers' starts and ends is
// added. AdamW, a tenth of warm-up, then down to 0.
ModelPtr Recover(Model& exact, const std::vector<AttentionSpec>& attention, const LayerDirections& directions,
                 const Tokenizer& tokenizer, const RecoveryOptions& options);

}  // namespace lshformer
