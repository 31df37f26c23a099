// The rules of output_dir, overwrite_output_dir and resume_from_checkpoint: nothing is ever overwritten that was
// not asked for, and a stopped run goes on as the run it was.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/figures.h"
#include "base/folder_lock.h"
#include "base/json.h"
#include "base/option_table.h"

namespace lshformer {

struct RunFolder {
  std::string output_dir;
  bool overwrite_output_dir = false;
  std::string resume_from_checkpoint;  // "", "auto" or a checkpoint folder
  std::string report_to = "none";      // or "tensorboard": output_dir/runs
  std::string save_dtype = "float32";  // of the finished model; checkpoints are float32
  bool keep_optimizer_states = false;  // of the checkpoints, when the run is finished: for further steps
  std::vector<uint64_t> seeds;  // not one run in output_dir but one a seed, in output_dir/seed-N (jobs/seed_runs.h)
};

struct JobResult {
  std::string output_dir;
  bool finished_before = false;      // nothing was left to do: the folder holds a finished run
  Figures train;                     // as in train_results.json
  Figures eval;                      // as in eval_results.json; none without an evaluation
  std::vector<Figures> log_history;  // as in trainer_state.json: {"step", "loss", "learning_rate", …}, {"step",
                                     // "eval_loss", …}
  Figures plan;  // with dry_run: {"train_samples", "tokens", "steps", "parameters", "memory_bytes", "seconds"}; nothing
                 // was written
  bool first_process = true;  // false: another process of the run has the results, and the others here are empty
  Json summary;               // of several seeds, as in output_dir/all_results.json; the others above are then empty
};

inline constexpr const char* kEventFolder = "runs";  // of TensorBoard's files, in output_dir

const OptionTable<RunFolder>& RunFolderTable();

// The options that decide what a run is and what it leaves: kept in every checkpoint and compared on resuming.
struct RunSettings {
  Json values = Json::object();
  Json defaults = Json::object();         // what a run meant that was made before there was such an option
  std::map<std::string, Effect> effects;  // of the values; kRun of what is not here

  // Those of a table that matter and have a meaning.
  template <class Struct>
  void Add(const OptionTable<Struct>& table, const Struct& options) {
    for (const Option<Struct>& option : table.options) {
      if (option.effect == Effect::kNone) continue;
      if (option.without_meaning && !option.without_meaning(options).empty()) continue;
      values[option.name] = option.write(options);
      defaults[option.name] = option.write(table.defaults);
      effects[option.name] = option.effect;
    }
  }
};

// How a run starts.
struct RunStart {
  bool finished = false;                   // the folder holds this very run, finished: nothing is left to do
  bool was_finished = false;               // it holds a finished run, to which something is left to add
  std::string resume_from;                 // checkpoint folder, "": anew
  std::unique_ptr<const FolderLock> lock;  // on the folder, for as long as the run lasts; a dry run takes none
};

// Whether the folder has the first file that a run writes, and not a job of several seeds.
bool HoldsRun(const std::string& folder);

// Error where output_dir has files that no option allows: with resume_from_checkpoint they must be
// such as made_here(output_dir) knows.
void CheckOutputDir(const RunFolder& folder, bool (*made_here)(const std::string& output_dir));

// Takes the folder's lock before it looks at anything in it. Errors, all before any work: another run holds the lock,
// the folder has files and neither flag allows them, is not writable, holds something that these commands did not make,
// or the checkpoint named is not complete. With dry_run nothing is written, so a folder with files is no error.
RunStart OpenRunFolder(const RunFolder& folder, const RunSettings& settings, bool dry_run);

// How two runs differ in a setting, for an error: "with 5, got 3", "without --attention, got "simhash"", or "with 5,
// now without --top_k". `before` stands before the value.
std::string SettingThen(const std::string& option, const Json& value, const std::string& before = "");
std::string SettingNow(const std::string& option, const Json& value);

// UsageError if a flag (or the data) differs from the run that made the checkpoint in what makes the runs different:
// data, model, batches, seed. Those whose row says ChangesCourse may change, with a warning; those of work after the
// training freely.
void CheckSameRun(const std::string& checkpoint, const RunSettings& settings);

// Settings of a run as a file of flags (cli/arguments.h): without those that were not given, and what is no flag
// ("command", "training data").
Json FlagsFromSettings(const Json& settings);

// How many of a run's `steps` updates the checkpoint has before it. OptionError of `length` if it is behind more.
int64_t StepsLeft(const std::string& checkpoint, int64_t steps, const char* length);

// Clears what an earlier run left (with overwrite_output_dir its checkpoints too) and writes training_args.json: the
// settings and `more_flags` as a file of flags, so that `lshformer COMMAND training_args.json --output_dir NEW` makes
// the run again.
void BeginRun(const RunFolder& folder, const RunStart& start, const Json& settings, const Json& more_flags);

// The training_args.json of a job of several seeds: that of one of its runs, with all of them.
void WriteSeedsArguments(const RunFolder& folder, const std::string& run);

// Writes train_results.json, eval_results.json, all_results.json and, last, trainer_state.json, which says that the run
// is finished. Both results without prefix or suffix beyond HF's keys.
void FinishRun(const std::string& output_dir, const Json& train, const Json& eval, const Json& trainer_state);

// What a finished run left.
JobResult ReadFinishedRun(const std::string& output_dir);

}  // namespace lshformer
