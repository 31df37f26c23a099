// A pretrained model under another attention, or with a longer position table, without training: what it then costs and
// how much of its answers it keeps.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "attention/spec_changes.h"
#include "base/figures.h"
#include "base/json.h"
#include "base/option_table.h"
#include "jobs/evaluate.h"

namespace lshformer {

// A position table of P rows for N > P positions: row i mod P as it is, or what lies at i · (P − 1) / (N − 1) on the
// lines between neighbouring rows, in float32.
enum class PositionExtension { kTile, kInterpolate };
inline const std::vector<std::string> kPositionExtensionNames{"tile", "interpolate"};  // in order of the values

struct ConvertOptions {
  std::string model_name_or_path, output_dir;  // output_dir: new, or empty
  AttentionChanges attention;                  // of the result; "": clustered, along stored directions
  // Pairs computed, or time of attention on this machine, as a share of exact attention's: every head gets the cheapest
  // clustered setting that keeps within it (convert/head_policy.h). 0: none; not both.
  double budget_pairs = 0, budget_time = 0;
  std::vector<std::string> calibrate;  // texts; empty: those that come with the program
  double min_quality = 0;              // of the mean cosine, or, with a task, of the share of its metric that is kept
  int64_t recover_steps = 0;           // training steps towards the exact model's hidden states, on
  std::string train_file;              // these texts,
  double learning_rate = 5e-5;         // at most at this rate,
  bool bf16 = false;                   // linear layers and attention in bfloat16
  int64_t extend_positions = 0;        // rows of the position table; 0: as it is
  PositionExtension position_extension = PositionExtension::kTile;  // where they come from
  int max_seq_length = 0;                                           // of texts; 0: the position table
  bool dry_run = false;                                             // write nothing
  // A task to measure on: its data and metric, as evaluate has them. Without data there is none.
  std::string task, task_name, data_dir, validation_file;
  int64_t max_eval_samples = 0;
  AnswerOptions answers = {};  // question answering
  uint64_t seed = 42;
};

const OptionTable<ConvertOptions>& ConvertTable();  // but the attention, which has tables of its own

// Whether the task to measure on is question answering.
bool MeasuresQuestions(const ConvertOptions& options);
// UsageError where options contradict each other.
void CheckConvert(const ConvertOptions& options);

struct ConvertResult {
  Figures figures;           // the numbers of the report that stand by themselves: "pairs_fraction", "cosine_mean", …
  Json report;               // as in convert_report.json (docs/convert.md)
  std::string page;          // report.html
  std::string refused = "";  // why nothing was written; "": nothing refuses it
};

// Errors: the model is not one with exact attention; texts that do not serve; a budget below the cheapest policy.
ConvertResult RunConvert(const ConvertOptions& options);

}  // namespace lshformer
