#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace lshformer {

double LearningRate(const Schedule& schedule, int64_t step) {
  const double warmup = static_cast<double>(schedule.warmup_steps), t = static_cast<double>(step);
  if (step < schedule.warmup_steps) {
    const bool linear = schedule.warmup == WarmupType::kLinear;
    return schedule.peak * (linear ? t / warmup : std::log1p(t) / std::log1p(warmup));
  }
  const double total = static_cast<double>(schedule.total_steps), decay = std::max(1.0, total - warmup);
  switch (schedule.type) {
    case ScheduleType::kLinear:
      return schedule.peak * std::max(0.0, (total - t) / decay);
    case ScheduleType::kCosine:
      return schedule.peak * std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * ((t - warmup) / decay))));
    case ScheduleType::kConstant:
      break;
  }
  return schedule.peak;
}

Schedule MakeSchedule(const TrainingOptions& options, int64_t total_steps) {
  const int64_t warmup = options.warmup_steps > 0
                             ? options.warmup_steps
                             : static_cast<int64_t>(std::ceil(options.warmup_ratio * static_cast<double>(total_steps)));
  return {options.lr_scheduler_type, options.learning_rate, warmup, total_steps, options.warmup_type};
}

int64_t TotalSteps(const TrainingOptions& options, int64_t steps_per_epoch) {
  if (options.max_steps > 0) return options.max_steps;
  const double steps = std::ceil(options.num_train_epochs * static_cast<double>(steps_per_epoch));
  if (steps > 1e15) FailOption("num_train_epochs", "{} are more than 10^15 steps", options.num_train_epochs);
  return static_cast<int64_t>(steps);
}

}  // namespace lshformer
