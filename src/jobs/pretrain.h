// Masked language modelling on plain text, alone or with a second loss on pairs of sentences.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/masking.h"
#include "data/sentence_pairs.h"
#include "dist/communicator.h"
#include "jobs/model_source.h"
#include "jobs/run_folder.h"
#include "train/options.h"

namespace lshformer {

struct PretrainOptions {
  ModelSource model;
  RunFolder folder;
  TrainingOptions training;
  MeetingOptions meeting;  // of several processes that share the run
  std::vector<std::string> train_files;
  std::string validation_file;
  double validation_split_percentage = 5;  // of the training text, where do_eval is set and no validation_file given
  int64_t max_train_samples = 0, max_eval_samples = 0;  // 0: all
  int max_seq_length = 0;                               // 0: the position table
  bool line_by_line = false;
  std::string objective = "mlm";                                 // or "mlm+nsp", "mlm+sop"
  double short_seq_prob = SentencePairOptions().short_seq_prob;  // of pairs, as dupe_factor
  int dupe_factor = SentencePairOptions().dupe_factor;
  double mlm_probability = 0.15;
  MaskedChoice masking;
  bool do_eval = false, dry_run = false;
  bool progress = false;  // shown, with evaluations and log entries, where SetProgressStyle was called
};

const OptionTable<PretrainOptions>& PretrainTable();  // of what is no part with a table of its own

// Writes the output folder (model, tokenizer, results, checkpoints; docs/formats.md). Errors as in train/trainer.h.
JobResult RunPretrain(const PretrainOptions& options);

}  // namespace lshformer
