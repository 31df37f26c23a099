// A few steps of training that bring a converted model back to what the exact one computes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "convert/calibration.h"
#include "kernels/precision.h"
#include "models/model.h"
#include "train/loss.h"
#include "train/trainer.h"

namespace lshformer {

struct RecoveryOptions {
  int64_t steps = 0;
  double learning_rate = 5e-5;  // the peak
  Precision precision = Precision::kFloat32;
  uint64_t seed = 42;  // of the order of texts
  // Where checkpoints go, the newest alone, as long as the training lasts and behind its end; "": nowhere. From one of
  // equal `settings` and texts it goes on; any other is removed.
  std::string folder = "";
  Json settings = Json::object();
};

// How far the model is from the exact one: the mean over layers of Σ(h − h*)² / Σh*² over hidden states behind every
// layer (of a reversible model, behind the last). With `answers`, of a model that answers questions: and the divergence
// Σ p log(p / q) of the answers' starts and ends, the mean over sequences. Forwards without dropout. The exact model
// must outlive it.
TrainingLoss DistanceToExact(Model& exact, bool answers);

// A model of this attention whose weights begin as `exact`'s and are trained towards it by DistanceToExact, with
// answers where the model answers questions and the texts are questions with their contexts. AdamW, a tenth of warm-up,
// then down to 0. Stopped, or killed and called again, it ends at the same bits as if it never had been. Interrupted
// after a signal, with a checkpoint written; Error: a loss that is not finite, a full disk.
ModelPtr Recover(Model& exact, const std::vector<AttentionSpec>& attention, const LayerDirections& directions,
                 const CalibrationTexts& texts, const RecoveryOptions& options, const TrainerHooks& hooks = {});

}  // namespace lshformer
