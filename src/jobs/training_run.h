// What `pretrain` and `train` have in common: one run from its first step to the finished folder, whatever it learns.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/logging.h"
#include "data/batch.h"
#include "data/sequence_set.h"
#include "dist/communicator.h"
#include "eval/evaluate.h"
#include "jobs/model_source.h"
#include "jobs/run_folder.h"
#include "models/model.h"
#include "text/tokenizer.h"
#include "train/loss.h"
#include "train/options.h"
#include "train/shards.h"

namespace lshformer {

// One job once its flags are read: what to train on, how to evaluate, where to put it.
struct TrainingJob {
  std::string title;
  const RunFolder& folder;
  const TrainingOptions& training;
  bool do_eval = false, dry_run = false, new_model = false, progress = false;
  RunSettings settings = {};
  RunStart start = {};
  std::shared_ptr<const Tokenizer> tokenizer = {};
  ModelPtr model = {};
  const SequenceSet* train_set = nullptr;
  std::vector<const SequenceSet*> validation_sets = {};  // that `evaluate` reads
  std::function<PackedBatch(int64_t epoch, std::span<const int64_t> examples)> batch = {};
  TrainingLoss loss = HeadLoss();
  // What the model's folder has beside model and tokenizer, also those of checkpoints; may be empty.
  std::function<void(const std::string& folder)> save_extra = {};
  std::function<Json()> evaluate = {};
  std::vector<std::string> metrics = {};         // that `evaluate` writes
  HeldLog* warnings = nullptr;                   // released once nothing can refuse the run any more
  std::shared_ptr<Communicator> processes = {};  // that share the run; null: this one is alone
  std::string resumed = {};                      // the checkpoint to go on from, which rank 0 alone may have
  bool first() const { return processes == nullptr || processes->first(); }
};

// Joins the processes of a job whose options have `folder`, `training` and `meeting`, and makes of its training options
// those of so many.
template <class Options>
std::shared_ptr<Communicator> JoinTraining(Options& options) {
  std::shared_ptr<Communicator> processes = JoinProcesses(options.meeting);
  if (processes != nullptr && !options.folder.seeds.empty())
    FailOption("seeds", "not in several processes: start a job for each seed");
  const bool shares_updates = processes != nullptr && !options.training.sequence_parallel;
  options.training = SharedBy(shares_updates ? processes->size() : 1, options.training);
  return processes;
}

// OpenRunFolder of rank 0, told to all. Of the others `resume_from` is empty where they have no such folder.
RunStart OpenSharedFolder(TrainingJob& job, bool dry_run);
// The results of a run that was finished before.
JobResult FinishedBefore(const TrainingJob& job);

// Trains, evaluates, writes the folder; with dry_run only plans, after a few steps that are thrown away. `after` is
// what else a job leaves (predictions). Errors as in train/trainer.h.
JobResult RunTrainingJob(TrainingJob& job, const std::function<void()>& after = {});

EvaluateOptions Evaluating(const TrainingJob& job);

// How a job begins whose options have `model`, `folder`, `training`, `do_eval` and so on: checks them, takes the folder
// and finds the checkpoint to go on from. `settings` are the first of the run's. Where the folder holds this very run,
// finished, job.start says so and nothing else is ready.
template <class Options>
TrainingJob BeginTrainingJob(const char* title, const Options& options, const OptionTable<Options>& table,
                             Json settings, std::shared_ptr<Communicator> processes) {
  TrainingJob job{.title = title, .folder = options.folder, .training = options.training};
  job.processes = std::move(processes);
  job.do_eval = options.do_eval || options.training.eval_steps > 0;
  job.dry_run = options.dry_run;
  job.progress = options.progress;
  job.new_model = options.model.model_name_or_path.empty();
  if (!job.do_eval && !options.validation_file.empty())
    FailOption("validation_file", "needs {} or {}", OptionName{"do_eval"}, OptionName{"eval_steps"});
  job.settings.values = std::move(settings);
  job.settings.Add(RunFolderTable(), options.folder);
  job.settings.Add(ModelSourceTable(), options.model);
  job.settings.values.update(AttentionSettings(options.model.attention));
  job.settings.Add(TrainingTable(), options.training);
  job.settings.Add(table, options);
  job.start = OpenSharedFolder(job, options.dry_run);
  if (!job.start.finished && !MakesVocabulary(options.model)) job.tokenizer = LoadTokenizer(options.model);
  return job;
}

// What must hold before that: each option by itself, and how the model is named.
template <class Options>
void CheckTrainingJob(const Options& options, const OptionTable<Options>& table) {
  ValidateTrainingOptions(options.training);
  ValidateOptions(table, options);
  CheckModelSource(options.model);
}

}  // namespace lshformer
