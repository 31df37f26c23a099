#include "train/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace lshformer {
namespace {

template <class Enum>
struct NamedValue {
  const char* name;
  Enum value;
};

constexpr NamedValue<ScheduleType> kSchedules[] = {
    {"linear", ScheduleType::kLinear}, {"cosine", ScheduleType::kCosine}, {"constant", ScheduleType::kConstant}};
constexpr NamedValue<OptimizerType> kOptimizers[] = {{"adamw", OptimizerType::kAdamW},
                                                     {"adamw_bert", OptimizerType::kAdamWBert}};

template <class Enum, size_t n>
Enum Parse(const NamedValue<Enum> (&table)[n], const std::string& name, const char* option) {
  std::vector<std::string> names;
  std::string list;
  for (const auto& entry : table) {
    if (name == entry.name) return entry.value;
    names.push_back(entry.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  const std::string nearest = Nearest(name, names);
  FailOption(option, "expected {}, got \"{}\"{}", list, name,
             nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest));
}

template <class Enum, size_t n>
const char* NameIn(const NamedValue<Enum> (&table)[n], Enum value) {
  for (const auto& entry : table) {
    if (entry.value == value) return entry.name;
  }
  return "";
}

void RequireAtLeast(const char* name, int64_t value, int64_t low) {
  if (value < low) FailOption(name, "expected {} or more, got {}", low, value);
}

// NaN fails every comparison, so the tests are written as what must hold.
void RequireWithin(const char* name, double value, double low, double high, const char* range) {
  if (!(value >= low && value <= high)) FailOption(name, "expected {}, got {}", range, value);
}

}  // namespace

ScheduleType ParseScheduleType(const std::string& name) { return Parse(kSchedules, name, "lr_scheduler_type"); }
const char* Name(ScheduleType type) { return NameIn(kSchedules, type); }
OptimizerType ParseOptimizerType(const std::string& name) { return Parse(kOptimizers, name, "optim"); }
const char* Name(OptimizerType type) { return NameIn(kOptimizers, type); }

void ValidateTrainingOptions(const TrainingOptions& options) {
  RequireAtLeast("per_device_train_batch_size", options.per_device_train_batch_size, 1);
  RequireAtLeast("per_device_eval_batch_size", options.per_device_eval_batch_size, 1);
  RequireAtLeast("gradient_accumulation_steps", options.gradient_accumulation_steps, 1);
  constexpr double kFinite = std::numeric_limits<double>::max();
  RequireWithin("learning_rate", options.learning_rate, 0, kFinite, "a number ≥ 0");
  RequireWithin("weight_decay", options.weight_decay, 0, kFinite, "a number ≥ 0");
  const double below_one = std::nextafter(1.0, 0.0);
  constexpr double kAboveZero = std::numeric_limits<double>::min();
  RequireWithin("adam_beta1", options.adam_beta1, 0, below_one, "a number in [0, 1)");
  RequireWithin("adam_beta2", options.adam_beta2, 0, below_one, "a number in [0, 1)");
  RequireWithin("adam_epsilon", options.adam_epsilon, 0, kFinite, "a number ≥ 0");
  RequireWithin("max_grad_norm", options.max_grad_norm, 0, kFinite, "a number ≥ 0 (0 = no clipping)");
  RequireWithin("warmup_ratio", options.warmup_ratio, 0, 1, "a number in [0, 1]");
  RequireWithin("num_train_epochs", options.num_train_epochs, 0, 1e9, "a number ≥ 0");
  if (options.max_steps < -1) FailOption("max_steps", "expected -1 (not given) or more, got {}", options.max_steps);
  RequireAtLeast("warmup_steps", options.warmup_steps, 0);
  if (options.warmup_steps > 0 && options.warmup_ratio > 0)
    FailUsage("--warmup_steps: not beside --warmup_ratio, which says the same in another unit");
  RequireAtLeast("logging_steps", options.logging_steps, 0);
  RequireAtLeast("eval_steps", options.eval_steps, 0);
  RequireAtLeast("save_steps", options.save_steps, 0);
  RequireAtLeast("save_total_limit", options.save_total_limit, 0);
  if (!options.load_best_model_at_end && options.metric_for_best_model != TrainingOptions().metric_for_best_model)
    FailOption("metric_for_best_model", "needs {}", OptionName{"load_best_model_at_end"});
  // 0: off
  if (options.ema_decay != 0)
    RequireWithin("ema_decay", options.ema_decay, kAboveZero, below_one, "a number in (0, 1)");
  if (!options.load_best_model_at_end) return;
  if (options.eval_steps == 0 || options.save_steps == 0 || options.save_steps % options.eval_steps != 0)
    FailOption("load_best_model_at_end", "needs {}, and {} a multiple of it, got {} and {}", OptionName{"eval_steps"},
               OptionName{"save_steps"}, options.eval_steps, options.save_steps);
}

bool GreaterIsBetter(const std::string& metric) {
  return !metric.ends_with("loss") && !metric.ends_with("mse") && metric != "perplexity";
}

void CheckBestMetric(const TrainingOptions& options, const std::vector<std::string>& keys) {
  const std::string& name = options.metric_for_best_model;
  const auto known = [&](const std::string& key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); };
  if (!options.load_best_model_at_end || known(name) || known("eval_" + name)) return;
  FailOption("metric_for_best_model", "the evaluation has no \"{}\", only {}{}", Shown(name), fmt::join(keys, ", "),
             Suggestion(name, keys));
}

}  // namespace lshformer
