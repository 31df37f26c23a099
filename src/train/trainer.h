// The training loop: the order of the data, updates (step.h), log, evaluations, checkpoints, stopping.
//
// A run is a function of the model's weights, the data, TrainingOptions and the number of threads: it can be stopped or
// killed at any moment and resumed bit for bit (dropout, masking, planes and data order come from counters; directions
// that are refreshed from the model are tensors of it). An update, its log entry, its evaluation, whether that is the
// best, its checkpoint follow one another; a checkpoint that a signal left before an evaluation was done is completed
// by whoever resumes it.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/batch.h"
#include "dist/communicator.h"
#include "models/model.h"
#include "train/loss.h"
#include "train/options.h"

namespace lshformer {

struct TrainingData {
  int64_t examples = 0;  // per epoch, ≥ 1
  // These examples, packed and labelled; masks and the like are drawn for the epoch.
  std::function<PackedBatch(int64_t epoch, std::span<const int64_t> examples)> batch;
};

struct TrainingProgress {
  int64_t step = 0, total = 0;
  std::optional<double> loss;  // of the last update; none before the first of this call
};

struct TrainResult;

// What a run calls, each may be empty. It prints nothing itself.
struct TrainerHooks {
  std::function<Json()> evaluate;  // metrics with HF's keys ("eval_loss", …); empty where eval_steps is 0
  std::function<void(const std::string& folder)> save_extra;   // what a checkpoint holds beside model and state: the
                                                               // tokenizer
  std::function<void(const Json& entry)> log = {};             // told every entry of log_history as it is made
  std::function<void(const TrainingProgress&)> progress = {};  // told before the first update and after each
  // The work that is left once the model is the result, a last evaluation or predictions. A signal that stops it leaves
  // a checkpoint as one before it does, so that none of the updates is lost.
  std::function<void(TrainResult&)> finish = {};
};

struct TrainerPlace {
  std::string output_dir = "";         // "": nothing is written
  std::string resume_from = "";        // checkpoint folder, or "": from the model as it is
  Json run_settings = Json::object();  // flags that decide the result, kept in checkpoints
  Communicator* processes = nullptr;   // that share the run; null: this one is alone
};

// With ema_decay, evaluations, the models of checkpoints and the model that is left are the average's; the weights that
// are trained go on beside it (weight_average.h).
struct TrainResult {
  int64_t global_step = 0, total_steps = 0;
  int64_t best_step = 0;  // > 0: the model's weights are those after this step (load_best_model_at_end)
  double epoch = 0;
  // Of the whole run, the part before a resume included:
  double train_loss = 0;     // mean over all steps
  double train_runtime = 0;  // seconds, evaluations and checkpoints included
  int64_t samples = 0;
  double samples_per_second = 0, steps_per_second = 0;
  double total_flos = 0;             // 6 · parameters outside the embeddings · tokens, as transformers estimates
  Json trainer_state;                // as in trainer_state.json; its log_history has the "eval_*" entries too
  std::vector<double> step_seconds;  // of each update of this process, without evaluations and checkpoints
};

// Several processes call it with the same model, data and options. Each computes its parts of every update (shards.h)
// and makes the same weights. The folders are those of rank 0, which alone reads and writes them; of the others' hooks
// only `evaluate` and `finish` are called. A signal to any of them stops all behind the same update.
//
// refresh_directions_steps asks for a model that stores directions (StoringDirections of models/stored_directions.h):
// before the updates 0, N, 2N … they are taken from it anew (directions.h).
// `loss`: what the updates make smaller (loss.h).
// Errors: a loss or gradient norm that is not finite (names the step and the last good checkpoint; such a state is
// never saved), a full disk, a checkpoint that does not fit the model. Interrupted after SIGINT or SIGTERM, with a
// checkpoint written.
TrainResult Train(Model& model, const TrainingData& data, const TrainingOptions& options, const TrainerPlace& place,
                  const TrainerHooks& hooks, const TrainingLoss& loss = HeadLoss());

}  // namespace lshformer
