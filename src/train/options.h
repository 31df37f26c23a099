// Options of a training run. Names and defaults are those of Hugging Face's TrainingArguments.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/option_table.h"

namespace lshformer {

enum class ScheduleType { kLinear, kCosine, kConstant };
enum class WarmupType { kLinear, kLogarithmic };

// kAdamWBert: the AdamW of BERT's own code, without bias correction. kLamb: the LAMB of ALBERT's own code, likewise.
// kAdam: with weight_decay in the gradient, as QANet was trained. kAdadelta: as BiDAF was.
// kMuon: nearly orthogonal steps of the layers' maps, AdamW's of all else.
enum class OptimizerType { kAdamW, kAdamWBert, kLamb, kAdam, kAdadelta, kMuon };

struct TrainingOptions {
  int per_device_train_batch_size = 8;  // sequences per forward
  int per_device_eval_batch_size = 8;
  int gradient_accumulation_steps = 1;  // forwards per update
  int total_batch_size = 0;      // sequences per update, over all processes; 0: batch · accumulation · processes
  int gradient_shards = 0;       // parts of an update whose gradients are added in a fixed order (shards.h); 0: 16 with
                                 // total_batch_size or several processes, else 1
  bool shard_optimizer = false;  // each process keeps and updates its slice of the optimizer's state (ZeRO-1)
  bool sequence_parallel = false;  // several processes share the tokens of each forward (ops/token_split.h), not the
                                   // sequences of an update; gradients are then sums over blocks of tokens
  double learning_rate = 5e-5;     // the peak; see schedule.h
  double weight_decay = 0;         // decoupled, of adam and adadelta in the gradient; not on biases and LayerNorm
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8;
  double max_grad_norm = 1;  // 0: no clipping
  double num_train_epochs = 3;
  int64_t max_steps = -1;  // > 0: this many updates, whatever num_train_epochs says
  ScheduleType lr_scheduler_type = ScheduleType::kLinear;
  int64_t warmup_steps = 0;  // or warmup_ratio, not both
  double warmup_ratio = 0;
  WarmupType warmup_type = WarmupType::kLinear;
  OptimizerType optim = OptimizerType::kAdamW;
  double adadelta_rho = 0.9, adadelta_epsilon = 1e-6;  // PyTorch's
  bool gradient_checkpointing = false;                 // less memory, the same bits: see ForwardOptions
  int64_t refresh_directions_steps = 0;                // of clustered attention, see directions.h; 0: never
  int64_t logging_steps = 500;                         // 0: only the summary at the end
  int64_t eval_steps = 0;                              // 0: no evaluation before the end
  int64_t save_steps = 500;                            // 0: no checkpoints, except when a signal stops the run
  int save_total_limit = 0;                            // newest checkpoints kept; 0: all
  bool load_best_model_at_end = false;         // the checkpoint with the best metric_for_best_model is the result
  std::string metric_for_best_model = "loss";  // of the evaluations, "eval_" may be left out; see GreaterIsBetter
  double ema_decay = 0;                        // of weight_average.h; 0: none
  uint64_t seed = 42;                          // data order, masking, dropout, new weights
};

// One row an option: flags, help, checks, what a checkpoint records and what a resumed run may change follow from it.
const OptionTable<TrainingOptions>& TrainingTable();
const char* Name(OptimizerType type);

// Of BetterDirection; as transformers has it, greater is better where a name says nothing.
bool GreaterIsBetter(const std::string& metric);

// UsageError if a best model is asked for and metric_for_best_model is none of `keys`, those that the evaluations
// write.
void CheckBestMetric(const TrainingOptions& options, const std::vector<std::string>& keys);

// OptionError that names the option, the range and the value, or options that contradict each other.
void ValidateTrainingOptions(const TrainingOptions& options);

}  // namespace lshformer
