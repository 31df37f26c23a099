// Flags that `pretrain`, `train` and `bench train` have in common.
#pragma once
#include <CLI/CLI.hpp>

#include "data/masking.h"
#include "jobs/model_source.h"
#include "jobs/run_folder.h"
#include "train/options.h"

namespace lshformer::cli {

// --model_name_or_path, --model_type, --config_name, --config_overrides, --tokenizer_name.
void AddModelFlags(CLI::App& command, ModelSource& model);
// --mlm_probability, --masking, --max_predictions_per_seq.
void AddMaskingFlags(CLI::App& command, double& mlm_probability, MaskedChoice& choice, const char* group);
// --output_dir, --overwrite_output_dir, --resume_from_checkpoint, --report_to, --save_dtype.
void AddFolderFlags(CLI::App& command, RunFolder& folder);
// Batches, optimizer, schedule, logging, evaluation, checkpoints.
void AddTrainingFlags(CLI::App& command, TrainingOptions& training);

// Whether the command line says anything about checkpoints, so that they are wanted beyond the end of the run.
bool AsksForCheckpoints(const CLI::App& command);

// Prints what a job found: all results, or with --dry_run the plan.
void PrintJobResult(const JobResult& result);

}  // namespace lshformer::cli
