// Folders from which a run goes on as if it had never stopped.
//
// output_dir/checkpoint-N, in the layout of transformers' Trainer, without pickles:
//   config.json, model.safetensors, tokenizer files     a model folder like any other
//   optimizer.safetensors, optimizer.json               the optimizer's state, its type and step count; with ema_decay
//                                                       also the weights it trains, the model being their average
//   trainer_state.json                                  step, log history and what TrainerState adds to HF's keys
// A finished run may release the optimizer's state, two thirds of the whole: then optimizer.json says "released": true,
// and the checkpoint is a model that no update can follow.
// Random states are not saved: every number is drawn from (seed, step, …).
//
// A checkpoint is written into .checkpoint-N.partial, synced and renamed, so a folder called checkpoint-N is whole
// unless someone else damaged it; IncompleteReason finds that too.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "base/json.h"
#include "models/model.h"
#include "train/optimizer.h"
#include "train/options.h"

namespace lshformer {

struct TrainerState {
  int64_t global_step = 0, max_steps = 0;
  double epoch = 0;
  double total_flos = 0;
  int64_t tokens_seen = 0;
  int64_t best_global_step = 0;  // of the checkpoint with the best metric; 0: none yet, or not asked for
  double best_metric = 0;
  Json log_history = Json::array();

  // Beyond HF's keys, under "lshformer".
  double loss_sum = 0;         // of the losses of all updates
  double logged_loss_sum = 0;  // of those that are in some log entry
  int64_t logged_step = 0;     // the last update that is
  double train_runtime = 0;    // seconds, those before a resume included; not what was lost by a kill
  int64_t train_samples = 0;   // sequences that the updates saw
  int threads = 0;             // of the process that wrote it: a record, the result does not depend on it
  Json run_settings = Json::object();
};

Json ToJson(const TrainerState& state, const TrainingOptions& options);
TrainerState ParseTrainerState(const Json& json, std::string_view where);

struct CheckpointParts {
  const Model& model;
  const Optimizer& optimizer;
  const TrainerState& state;
  const TrainingOptions& options;
  std::function<void(const std::string& folder)> save_extra;  // may be empty
  NamedTensors more_state = {};                               // kept beside the optimizer's (WeightAverage::State)
};
// Writes output_dir/checkpoint-N (replacing one of the same step), then deletes those of later steps, which belong to a
// course that was left, and the oldest beyond save_total_limit, but never the best one.
// Error (disk full, somebody deleted it …) leaves the earlier checkpoints as they were. Returns the folder.
std::string SaveCheckpoint(const std::string& output_dir, const CheckpointParts& parts);

// Deletes the oldest of the checkpoints up to state.global_step beyond `limit` (0: none), but never the best one: what
// SaveCheckpoint does in the end, for a run that was killed before that. Nothing where there is none of that step.
void RemoveOldCheckpoints(const std::string& output_dir, const TrainerState& state, int limit);

// Copies weights, optimizer state and `more_state` out of `folder`; Error if they do not fit the model. Where the
// optimizer's state was released, the two stay as they are.
TrainerState LoadCheckpoint(const std::string& folder, Model& model, Optimizer& optimizer,
                            const NamedTensors& more_state = {});

// Where the best checkpoint is, and its weights.
std::string BestCheckpoint(const std::string& output_dir, const TrainerState& state);
void LoadBestModel(const std::string& output_dir, const TrainerState& state, Model& model);

// Deletes the optimizer's state of the checkpoints in `output_dir`, as far as that can be done.
void ReleaseOptimizerStates(const std::string& output_dir);
bool HasOptimizerState(const std::string& folder);  // of a complete checkpoint; false: it was released

// Why `folder` is no complete checkpoint, in a few words; "" if it is.
std::string IncompleteReason(const std::string& folder);

bool HasCheckpoints(const std::string& output_dir);  // complete or not
// The complete checkpoint of the most steps, "" if there is none. Incomplete ones are skipped with a warning.
std::string NewestCheckpoint(const std::string& output_dir);

// Whether a folder of this name is one: "checkpoint-120".
bool IsCheckpointName(std::string_view name);
// Deletes the checkpoints of `output_dir`, and what interrupted writes left behind.
void RemoveCheckpoints(const std::string& output_dir);
void RemovePartialCheckpoints(const std::string& output_dir);

}  // namespace lshformer
