// Labelled texts for `train` and `evaluate`: from a GLUE folder or from files, with one order of labels for all of
// them.
#pragma once
#include <string>
#include <vector>

#include "data/glue.h"
#include "data/sequence_set.h"
#include "eval/evaluate.h"
#include "jobs/train.h"
#include "models/config.h"

namespace lshformer {

// UsageError where options contradict each other or data is missing (of other labelled tasks too): task_name with
// data_dir, or train_file; do_eval needs validation_file or a split of the training data, do_predict test_file, unless
// a GLUE folder has them.
void CheckLabelSource(const TrainOptions& options);

struct LabelTables {
  const GlueTask* task = nullptr;                       // if there is one
  std::vector<TextTable> train;                         // one per file
  std::vector<TextTable> validation, test;              // one or none; of a split as many as it takes rows from
  std::vector<TextTable> validation_other, test_other;  // of MNLI's folder: the mismatched files, one or none
  bool regression = false;                              // labels are values
  bool multi_label = false;                             // a row has several labels, or none
  std::vector<std::string> labels;                      // else in order of id
};

// Error naming file and line unless all tables have labels of this kind: sets of them, or one a row.
void RequireLabelKind(const std::vector<TextTable>& tables, bool multi_label);

// What evaluates a model on such labels.
using EvaluateLabelled = Evaluation (*)(Model&, const SequenceSet&, const EvaluateOptions&);
EvaluateLabelled EvaluationOf(const LabelTables& tables);

// Error naming file and line where a row's second text has a type that the model does not know (type_vocab_size 1).
void RequireTypes(const std::vector<TextTable>& tables, const SequenceSet& set, const ModelConfig& config);

// OptionError of do_predict where a label has what parts labels in a file of predictions: a line end, and where a row
// has several a comma.
void RequireWritable(const LabelTables& tables);

// Keeps the first rows of all tables together; 0: all.
void LimitAll(std::vector<TextTable>& tables, int64_t rows);

// Reads the tables and limits them to max_train_samples and, each, max_eval_samples. Labels are the GLUE task's, else
// all that the training files have: values where do_regression says so or, if it says nothing, the labels look like
// values (AreValues); sets of labels where the files have those. Error if there are fewer than two classes, or files of
// both kinds.
LabelTables ReadLabelTables(const TrainOptions& options, bool do_eval);

// A model that knows exactly these labels, in whatever case it writes them, keeps its order of them; otherwise it
// learns the tables'. For values the model gets one output and problem_type "regression"; for
// sets of labels problem_type "multi_label_classification".
void AgreeOnLabels(LabelTables& tables, ModelConfig& config);

// The names under which a table has the classes of a model, in order of its ids: the model's own, and of a GLUE task
// the task's. A model that does not know these names but has as many (LABEL_0 …) has them in the task's order: a
// warning where it has names of its own. Error where their numbers differ.
std::vector<std::string> LabelsOfModel(const ModelConfig& config, const GlueTask* task, const std::string& model);

// Which metrics are asked for, of the labels agreed on.
void ChooseMetrics(const LabelTables& tables, EvaluateOptions& options);

// The metrics of the mismatched files beside the others, with HF's suffix "_mm": the figures, and their names.
void AddOther(const Json& other, Json& metrics);
std::vector<std::string> WithOther(std::vector<std::string> keys);

// One table with labels (of Split::kTest: without): the file, with a task's columns where it has them, else with
// `columns`; no path: the GLUE folder's own file.
TextTable ReadLabelTable(const std::string& task_name, const std::string& data_dir, const std::string& path,
                         Split split, const TableColumns& columns = {});
// MNLI's mismatched file, where the other one is the folder's own; else nothing.
std::vector<TextTable> ReadOtherTable(const GlueTask* task, const std::string& data_dir, const std::string& path,
                                      Split split);

// All rows as EncodeTable has them, those that are cut in one warning, with the labels or values that `known`
// describes; null: without.
SequenceSet EncodeTables(const std::vector<TextTable>& tables, const LabelTables* known, const Tokenizer& tokenizer,
                         const TextEncoding& how);

struct LabelData {
  SequenceSet train, validation, test;  // test without labels
  SequenceSet validation_other, test_other;
};
LabelData Encode(const LabelTables& tables, const Tokenizer& tokenizer, int max_seq_length);

// output_dir/predict_results_TASK.txt; without a task predict_results.txt.
std::string PredictionsPath(const std::string& output_dir, const GlueTask* task);

}  // namespace lshformer
