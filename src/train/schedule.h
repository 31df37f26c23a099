// Learning rates as transformers' get_{linear,cosine,constant}_schedule_with_warmup give them.
//
// With t = step, w = warm-up steps, n = steps in all, the peak is multiplied by
//   t < w       t / max(1, w)
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
};

// The rate of the update that follows `step` finished ones: step 0 is the first.
double LearningRate(const Schedule& schedule, int64_t step);

// warmup_steps where given, else ⌈warmup_ratio · total_steps⌉.
Schedule MakeSchedule(const TrainingOptions& options, int64_t total_steps);

// Micro-batches and updates of an epoch: ⌈examples / batch⌉, ⌈micro-batches / accumulation⌉ (the last of each may be
// smaller), and the updates of the whole run: max_steps, or ⌈num_train_epochs · updates⌉.
struct StepCounts {
  int64_t micro_batches_per_epoch = 0, steps_per_epoch = 0, total_steps = 0;
};
StepCounts CountSteps(const TrainingOptions& options, int64_t examples);

}  // namespace lshformer
