// `evaluate` on files alone: predictions of a text classifier against references, without a model.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/glue.h"

namespace lshformer {

// predictions: HF's predict_results_TASK.txt, header "index<TAB>prediction", labels by number or name; the rows in any
// order, each index 0 … n − 1 once. references: the task's dev.tsv. Returns {"accuracy", and for tasks with F1 "f1",
// "acc_and_f1"}, and the three correlations. A task of values (STS-B): {"pearson", "spearmanr", their mean "corr",
// "mse"}; an undefined correlation is null. Errors: file:line and what is wrong.
Json ScoreClassificationFiles(const GlueTask& task, const std::string& predictions_path,
                              const std::string& references_path);

// The same of a table of one's own (TSV with a header, JSONL), by its labels alone: values where AreValues says so or
// where all are integers and some prediction is none; else classes by name, F1 (of the second in order) where there are
// two. UsageError where classes have names and are predicted by number.
Json ScoreOwnFiles(const std::string& predictions_path, const std::string& references_path);

// Writes such a predictions file: "index<TAB>prediction", label names.
void WritePredictions(const std::string& path, std::span<const int32_t> predictions,
                      const std::vector<std::string>& labels);
// The same of several labels a row: flags [rows, labels], the names of those that are there with commas between.
void WriteLabelSets(const std::string& path, std::span<const uint8_t> flags, const std::vector<std::string>& labels);
// The same of a regression, with three decimals as HF's run_glue writes them.
void WriteValues(const std::string& path, std::span<const double> values);

// FOLDER/SST-2.tsv and so on, the file that the GLUE benchmark takes: the same layout, but classes by the task's number
// where it wants numbers, and values within the task's scale. `labels` names the classes of `predictions`, each one of
// the task's.
void WriteSubmission(const std::string& folder, const GlueTask& task, std::span<const int32_t> predictions,
                     const std::vector<std::string>& labels);
void WriteSubmission(const std::string& folder, const GlueTask& task, std::span<const double> values);

}  // namespace lshformer
