// What `pretrain` and `train` have in common: the flags of where a run starts, how it trains and where it goes.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/precision_flags.h"
#include "dist/communicator.h"
#include "jobs/model_source.h"
#include "jobs/run_folder.h"
#include "train/options.h"

namespace lshformer::cli {

// Prints what a job found: all results, with --dry_run the plan, of several seeds the table of their figures.
void PrintJobResult(const JobResult& result);

// Declares the flags of `options`, a job's, and sets what the command does with them.
template <class Options>
void AddTrainingJob(CLI::App& command, const OptionTable<Options>& table, JobResult (*run)(const Options&),
                    CommonFlags& common) {
  struct Flags {
    Options options;
    PrecisionFlags precision;
  };
  auto flags = std::make_shared<Flags>();
  Options& options = flags->options;
  options.folder = RunFolderTable().defaults;
  AddTableFlags(command, ModelSourceTable(), options.model);
  AddTableFlags(command, table, options);
  AddTableFlags(command, RunFolderTable(), options.folder);
  AddTableFlags(command, TrainingTable(), options.training);
  AddTableFlags(command, MeetingTable(), options.meeting);
  AddPrecisionFlags(command, flags->precision, /*inference=*/false);
  AddAttentionFlags(command, options.model.attention);
  command.callback([&command, &table, &common, run, flags] {
    Options& options = flags->options;
    RefuseMeaningless(command, ModelSourceTable(), options.model);
    RefuseMeaningless(command, table, options);
    RefuseMeaningless(command, RunFolderTable(), options.folder);
    RefuseMeaningless(command, TrainingTable(), options.training);
    if (!options.folder.seeds.empty() && command.get_parent()->count("--seed") > 0)
      FailOption("seeds", "instead of {}, not beside it", OptionName{"seed"});
    options.training.seed = common.seed;
    // Whoever says anything about checkpoints wants them beyond the end of the run.
    options.folder.keep_optimizer_states = command.count("--save_steps") > 0 || command.count("--save_total_limit") > 0;
    options.progress = true;
    options.meeting.join = true;
    options.model.precision = flags->precision.Chosen();
    options.model.matmul_precision = flags->precision.ChosenMatmulPrecision();
    PrintJobResult(run(options));
  });
}

}  // namespace lshformer::cli
