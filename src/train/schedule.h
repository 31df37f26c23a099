// Learning rates as transformers' get_{linear,cosine,constant}_schedule_with_warmup give them, and QANet's warm-up.
//
// With t = step, w = warm-up steps, n = steps in all, the peak is multiplied by
//   t < w       t / w, or, logarithmic, ln(1 + t) / ln(1 + w)
//   linear      max(0, (n − t) / max(1, n − w))
//   cosine      max(0, ½ (1 + cos(π (t − w) / max(1, n − w))))
//   constant    1
#pragma once
#include <cstdint>

#include "train/options.h"

namespace lshformer {

struct Schedule {
  ScheduleType type = ScheduleType::kLinear;
  double peak = 5e-5;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  WarmupType warmup = WarmupType::kLinear;
};

// The rate of the update that follows `step` finished ones: step 0 is the first.
double LearningRate(const Schedule& schedule, int64_t step);

// Warm-up: warmup_steps where given, else ⌈warmup_ratio · total_steps⌉.
Schedule MakeSchedule(const TrainingOptions& options, int64_t total_steps);

// Updates of the whole run: max_steps where given, else ⌈num_train_epochs · steps_per_epoch⌉.
int64_t TotalSteps(const TrainingOptions& options, int64_t steps_per_epoch);

}  // namespace lshformer
