// The tasks of the GLUE benchmark: where their files are, how they are read, what the benchmark asks of predictions.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "data/classification.h"

namespace lshformer {

enum class Split { kTrain, kValidation, kTest };

// What the file of predictions that the benchmark takes holds for a class: its number, or its name.
enum class Submitted { kNumbers, kNames };

// A GLUE task in the official folder layout.
struct GlueTask {
  std::string name;  // "sst2"
  TableColumns columns;
  std::vector<std::string> labels;  // in order of HF's ids; files hold them by name or by number; empty: values
  std::string submission;           // name of the benchmark's file of predictions, without ".tsv": "SST-2"
  Submitted submitted = Submitted::kNumbers;
  std::string train = "train", validation = "dev", test = "test";  // names of the files, without ".tsv"
  std::string mismatched = {};           // the task that is evaluated and predicted beside this one: MNLI's "mnli-mm"
  bool f1 = false;                       // F1 of class 1 is reported besides accuracy
  bool matthews = false;                 // Matthews' correlation is
  bool skip_short_rows = false;          // QQP has broken labelled rows, which HF's reader leaves out too
  std::vector<std::string> header = {};  // of files that begin without one; where the names are not in the first line
  double least = 0, most = 0;            // of values
  bool regression() const { return labels.empty(); }
};
const std::vector<GlueTask>& GlueTasks();
const GlueTask& FindGlueTask(std::string_view name);  // UsageError lists the names and suggests the nearest
// DIR/train.tsv and so on (or .tsv.gz). Test files have no labels.
std::string GluePath(const GlueTask& task, const std::string& data_dir, Split split);

// One file of the task: in the task's layout (TSV or JSONL), or, where it has none of the task's texts, in any other
// that ReadTextTable reads, with the columns `otherwise`. With need_label classes are then written as in task.labels,
// however the file says them; without, there are none. Rows that are left out, never those to be predicted, are counted
// in one warning. Error with path:line for a label that is none of the task's, or a value outside least … most.
TextTable ReadGlueFile(const GlueTask& task, const std::string& path, bool need_label,
                       const TableColumns& otherwise = {});
TextTable ReadGlue(const GlueTask& task, const std::string& data_dir, Split split);

}  // namespace lshformer
