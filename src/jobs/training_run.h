// What `pretrain` and `train` have in common: one run from its first step to the finished folder, whatever it learns.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/logging.h"
#include "data/batch.h"
#include "data/sequence_set.h"
#include "eval/evaluate.h"
#include "jobs/run_folder.h"
#include "models/model.h"
#include "text/tokenizer.h"
#include "train/options.h"

namespace lshformer {

// One job once its flags are read: what to train on, how to evaluate, where to put it.
struct TrainingJob {
  std::string title;
  const RunFolder& folder;
  const TrainingOptions& training;
  bool do_eval = false, dry_run = false, new_model = false, progress = false;
  Json settings = {};
  RunStart start = {};
  std::shared_ptr<const Tokenizer> tokenizer = {};
  ModelPtr model = {};
  const SequenceSet* train_set = nullptr;
  std::function<PackedBatch(int64_t epoch, std::span<const int64_t> examples)> batch = {};
  std::function<Json()> evaluate = {};
  std::vector<std::string> metrics = {};  // that `evaluate` writes
  HeldLog* warnings = nullptr;            // released once nothing can refuse the run any more
};

// Trains, evaluates, writes the folder; with dry_run only plans, after a few steps that are thrown away. `after` is
// what else a job leaves (predictions). Errors as in train/trainer.h.
JobResult RunTrainingJob(TrainingJob& job, const std::function<void()>& after = {});

// What decides the result of a run, kept in its checkpoints and compared on resuming.
Json Settings(const TrainingOptions& options);

EvaluateOptions Evaluating(const TrainingJob& job);

// UsageError for a negative number of samples.
void CheckSampleLimits(int64_t train, int64_t eval);

}  // namespace lshformer
