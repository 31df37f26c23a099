// Labelled texts for `train` and `evaluate`: from a GLUE folder or from files, with one order of labels for all of
// them.
#pragma once
#include <string>
#include <vector>

#include "data/classification.h"
#include "data/sequence_set.h"
#include "jobs/train.h"
#include "models/config.h"

namespace lshformer {

// UsageError where options contradict each other or data is missing (question answering too): task_name with data_dir,
// or train_file; do_eval needs validation_file or a split of the training data, do_predict test_file, unless a GLUE
// folder has them.
void CheckLabelSource(const TrainOptions& options);

struct LabelTables {
  std::vector<TextTable> train;             // one per file
  std::vector<TextTable> validation, test;  // one or none; of a split as many as it takes rows from
  bool regression = false;                  // labels are values
  std::vector<std::string> labels;          // else in order of id
  bool f1 = true, matthews = false;         // which metrics are asked for
};

// Reads the tables and limits them to max_train_samples and max_eval_samples. Labels are the GLUE task's, else all that
// the training files have: values where do_regression says so or, if it says nothing, the labels look like values
// (AreValues). Error if there are fewer than two classes.
LabelTables ReadLabelTables(const TrainOptions& options, bool do_eval);

// A model that knows exactly these labels keeps its order of them; otherwise it learns the tables'. For values the
// model gets one output and problem_type "regression".
void AgreeOnLabels(LabelTables& tables, ModelConfig& config);

// One table with labels (of Split::kTest: without): the file, read with `columns` or, where there is a GLUE folder,
// with the task's; no path: the GLUE folder's own file.
TextTable ReadLabelTable(const std::string& task_name, const std::string& data_dir, const std::string& path,
                         Split split, const TableColumns& columns = {});

// All rows, cut at max_seq_length with one warning, with the labels or values that `known` describes; null: without.
SequenceSet EncodeTables(const std::vector<TextTable>& tables, const LabelTables* known, const Tokenizer& tokenizer,
                         int max_seq_length);

struct LabelData {
  SequenceSet train, validation, test;  // test without labels
};
LabelData Encode(const LabelTables& tables, const Tokenizer& tokenizer, int max_seq_length);

// output_dir/predict_results_TASK.txt; without a task name predict_results.txt.
std::string PredictionsPath(const TrainOptions& options);

}  // namespace lshformer
