#include "train/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/metric_direction.h"

namespace lshformer {
namespace {

using T = TrainingOptions;

constexpr const char *kBatches = "Batches and length of the run", *kOptimizer = "Optimizer",
                     *kAttention = "Attention in training", *kLogging = "Logging and checkpoints (in updates)";
// In the order of the values.
constexpr std::array<const char*, 6> kOptimizers{"adamw", "adamw_bert", "lamb", "adam", "adadelta", "muon"};
constexpr NumberRange kNotNegative{.low = 0}, kAboveZero{.low = 0, .low_open = true},
    kBelowOne{.low = 0, .high = 1, .high_open = true};

std::string NotOfAdadelta(const T& options) {
  return options.optim == OptimizerType::kAdadelta ? fmt::format("is not for {} adadelta", OptionName{"optim"}) : "";
}
std::string OnlyForAdadelta(const T& options) {
  return options.optim == OptimizerType::kAdadelta ? "" : fmt::format("is for {} adadelta", OptionName{"optim"});
}
std::string NeedsAWarmUp(const T& options) {
  return options.warmup_steps > 0 || options.warmup_ratio > 0
             ? ""
             : fmt::format("needs {} or {}", OptionName{"warmup_steps"}, OptionName{"warmup_ratio"});
}

// 0 stands for none, and is written as null.
Option<T> EmaDecay() {
  constexpr NumberRange kRange{.low = 0, .high = 1, .low_open = true, .high_open = true};
  Option<T> option = Number("ema_decay", &T::ema_decay, kRange,
                            "evaluate and save the exponential moving average of the weights; 0.999 looks back about "
                            "1000 updates, less at the beginning");
  option.type = OptionType::kText;
  option.syntax = "NUMBER";
  option.write = [](const T& from) { return from.ema_decay == 0 ? Json() : Json(from.ema_decay); };
  return option;
}

// Not given stands for what follows from the others, and is written as null.
Option<T> TotalBatchSize() {
  Option<T> option = Integer("total_batch_size", &T::total_batch_size, 1, INT32_MAX,
                             "sequences per update, over all processes and in place of batch times accumulation times "
                             "processes; the batch is then the most sequences at once");
  option.type = OptionType::kText;
  option.syntax = "N";
  option.write = [](const T& from) { return from.total_batch_size == 0 ? Json() : Json(from.total_batch_size); };
  return std::move(option).Group(kBatches);
}
Option<T> GradientShards() {
  constexpr int kMost = 1 << 16;
  Option<T> option = Integer("gradient_shards", &T::gradient_shards, 1, kMost,
                             "parts into which an update is cut; their gradients are added in one fixed order, so that "
                             "any number of processes makes the same weights; default 16 in several processes or "
                             "with total_batch_size, else 1");
  option.type = OptionType::kText;
  option.syntax = "N";
  option.write = [](const T& from) {
    return from.gradient_shards == 0 || (from.gradient_shards == 1 && from.total_batch_size == 0)
               ? Json()
               : Json(from.gradient_shards);
  };
  return std::move(option).Group(kBatches);
}

Option<T> BestMetric() {
  Option<T> option = Text("metric_for_best_model", &T::metric_for_best_model,
                          "which metric decides; smaller is better for losses and perplexity");
  option.syntax = "NAME";
  option.group = kLogging;
  option.effect = Effect::kCourse;
  return option;
}

// In the order in which a checkpoint records them.
OptionTable<T> MakeTable() {
  OptionTable<T> table;
  table.group = kOptimizer;
  table.options = {
      Integer("per_device_train_batch_size", &T::per_device_train_batch_size, 1, INT32_MAX, "sequences per forward")
          .Group(kBatches),
      Integer("per_device_eval_batch_size", &T::per_device_eval_batch_size, 1, INT32_MAX,
              "sequences per forward of evaluation")
          .Group(kBatches)
          .KeepsResult(),
      Integer("gradient_accumulation_steps", &T::gradient_accumulation_steps, 1, INT32_MAX, "forwards per update")
          .Group(kBatches),
      TotalBatchSize(),
      GradientShards(),
      Boolean("shard_optimizer", &T::shard_optimizer,
              "each of several processes keeps and updates its share of the optimizer's state: less memory, the same "
              "result")
          .Group(kBatches)
          .KeepsResult(),
      Boolean("sequence_parallel", &T::sequence_parallel,
              "several processes share the tokens of each forward and the heads of attention, in place of the "
              "sequences of an update: for texts that are too long for one")
          .Group(kBatches),
      Number("learning_rate", &T::learning_rate, kNotNegative, "the peak").ChangesCourse(),
      Number("weight_decay", &T::weight_decay, kNotNegative,
             "decoupled, of adam and adadelta in the gradient; not on biases and LayerNorm")
          .ChangesCourse(),
      Number("adam_beta1", &T::adam_beta1, kBelowOne, "decay of the mean gradient")
          .ChangesCourse()
          .MeaninglessIf(NotOfAdadelta),
      Number("adam_beta2", &T::adam_beta2, kBelowOne, "decay of the mean square")
          .ChangesCourse()
          .MeaninglessIf(NotOfAdadelta),
      Number("adam_epsilon", &T::adam_epsilon, kNotNegative, "added to the root")
          .ChangesCourse()
          .MeaninglessIf(NotOfAdadelta),
      Number("max_grad_norm", &T::max_grad_norm, kNotNegative, "clips the norm of all gradients; 0: not")
          .ChangesCourse(),
      Number("num_train_epochs", &T::num_train_epochs, {.low = 0, .high = 1e9},
             "passes over the data; a fraction is allowed")
          .Group(kBatches)
          .ChangesCourse(),
      Integer("max_steps", &T::max_steps, -1, INT64_MAX, "updates, whatever the epochs; -1: not given")
          .Group(kBatches)
          .ChangesCourse(),
      Names("lr_scheduler_type", &T::lr_scheduler_type, {"linear", "cosine", "constant"},
            "learning rate after the warm-up")
          .ChangesCourse(),
      Integer("warmup_steps", &T::warmup_steps, 0, INT64_MAX, "updates of warm-up").ChangesCourse(),
      Number("warmup_ratio", &T::warmup_ratio, {.low = 0, .high = 1}, "or their share of all updates").ChangesCourse(),
      Names("warmup_type", &T::warmup_type, {"linear", "logarithmic"},
            "how the rate rises; logarithmic: fast at first, as QANet was trained")
          .ChangesCourse()
          .MeaninglessIf(NeedsAWarmUp),
      Names("optim", &T::optim, {kOptimizers.begin(), kOptimizers.end()},
            "adamw_bert, lamb: without bias correction, as BERT and ALBERT were trained (there with an adam_epsilon of "
            "1e-6); lamb: steps as long as each weight's norm says, for large batches; adam, "
            "adadelta: PyTorch's, as QANet and BiDAF were trained; muon: nearly orthogonal steps of the layers' maps, "
            "as long as adamw's, which takes the rest: fewer steps in pretraining"),
      Number("adadelta_rho", &T::adadelta_rho, kBelowOne, "decay of both mean squares")
          .ChangesCourse()
          .MeaninglessIf(OnlyForAdadelta),
      Number("adadelta_epsilon", &T::adadelta_epsilon, kAboveZero, "added under both roots")
          .ChangesCourse()
          .MeaninglessIf(OnlyForAdadelta),
      EmaDecay(),
      Integer(
          "refresh_directions_steps", &T::refresh_directions_steps, 0, INT64_MAX,
          "of clustered attention: updates after which the directions that keys and queries are sorted by are taken "
          "from the model anew, first before the first update; 0: never")
          .Group(kAttention),
      Integer("logging_steps", &T::logging_steps, 0, INT64_MAX, "between log entries; 0: none")
          .Group(kLogging)
          .KeepsResult(),
      Integer("eval_steps", &T::eval_steps, 0, INT64_MAX, "between evaluations; 0: only at the end")
          .Group(kLogging)
          .KeepsResult(),
      Integer("save_steps", &T::save_steps, 0, INT64_MAX,
              "between checkpoints; 0: only when stopped. Given, a finished run keeps what further steps need")
          .Group(kLogging)
          .KeepsResult(),
      Integer("save_total_limit", &T::save_total_limit, 0, INT32_MAX,
              "newest checkpoints kept, beside the best; 0: all")
          .Group(kLogging)
          .KeepsResult(),
      Boolean("load_best_model_at_end", &T::load_best_model_at_end,
              "the result is the checkpoint with the best evaluation, not the last")
          .Group(kLogging)
          .ChangesCourse(),
      BestMetric(),
      Boolean("gradient_checkpointing", &T::gradient_checkpointing,
              "keep the input of each layer alone and compute the rest again in the backward: the same result with "
              "less memory, a third more time")
          .Group(kBatches)
          .KeepsResult(),
      Unsigned("seed", &T::seed, "")};
  return table;
}

}  // namespace

const OptionTable<TrainingOptions>& TrainingTable() {
  static const OptionTable<T> table = MakeTable();
  return table;
}

const char* Name(OptimizerType type) { return kOptimizers[static_cast<size_t>(type)]; }

void ValidateTrainingOptions(const TrainingOptions& options) {
  ValidateOptions(TrainingTable(), options);
  if (options.total_batch_size > 0 && options.gradient_accumulation_steps != 1)
    FailOption("total_batch_size", "not beside {}, which it replaces", OptionName{"gradient_accumulation_steps"});
  if (options.shard_optimizer && (options.optim == OptimizerType::kLamb || options.optim == OptimizerType::kMuon))
    FailOption("shard_optimizer", "is not for {} {}, which looks at whole parameters", OptionName{"optim"},
               Name(options.optim));
  if (options.sequence_parallel && options.shard_optimizer)
    FailOption("sequence_parallel", "not beside {}: each process makes whole gradients", OptionName{"shard_optimizer"});
  if (options.sequence_parallel && options.refresh_directions_steps > 0)
    FailOption("sequence_parallel", "not beside {}, which looks at all heads of a sequence",
               OptionName{"refresh_directions_steps"});
  if (options.warmup_steps > 0 && options.warmup_ratio > 0)
    FailOption("warmup_steps", "not beside {}, which says the same in another unit", OptionName{"warmup_ratio"});
  if (!options.load_best_model_at_end && options.metric_for_best_model != TrainingOptions().metric_for_best_model)
    FailOption("metric_for_best_model", "needs {}", OptionName{"load_best_model_at_end"});
  if (!options.load_best_model_at_end) return;
  if (options.eval_steps == 0 || options.save_steps == 0 || options.save_steps % options.eval_steps != 0)
    FailOption("load_best_model_at_end", "needs {}, and {} a multiple of it, got {} and {}", OptionName{"eval_steps"},
               OptionName{"save_steps"}, options.eval_steps, options.save_steps);
}

bool GreaterIsBetter(const std::string& metric) { return BetterDirection(metric) >= 0; }

void CheckBestMetric(const TrainingOptions& options, const std::vector<std::string>& keys) {
  const std::string& name = options.metric_for_best_model;
  const auto known = [&](const std::string& key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); };
  if (!options.load_best_model_at_end || known(name) || known("eval_" + name)) return;
  FailOption("metric_for_best_model", "the evaluation has no \"{}\", only {}{}", Shown(name), fmt::join(keys, ", "),
             Suggestion(name, keys));
}

}  // namespace lshformer
