#include "data/glue.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/logging.h"
#include "base/lower_case.h"

namespace lshformer {
namespace {

void CheckRange(const GlueTask& task, const TextTable& table) {
  const std::vector<double> values = LabelValues(table);
  for (size_t row = 0; row < values.size(); ++row)
    if (values[row] < task.least || values[row] > task.most)
      Fail("{}:{}: label \"{}\": expected a number from {} to {} ({} {})", table.path, table.lines[row],
           Shown(table.labels[row]), task.least, task.most, OptionName{"task_name"}, task.name);
}

}  // namespace

const std::vector<GlueTask>& GlueTasks() {
  using Labels = std::vector<std::string>;
  const Labels entailment{"entailment", "not_entailment"}, three{"entailment", "neutral", "contradiction"};
  const TableColumns sentences{"sentence1", "sentence2", "label"}, premises{"sentence1", "sentence2", "gold_label"};
  static const std::vector<GlueTask> tasks = {
      {.name = "sst2", .columns = {"sentence", "", "label"}, .labels = {"negative", "positive"}, .submission = "SST-2"},
      {.name = "cola",
       .columns = {"sentence", "", "label"},
       .labels = {"unacceptable", "acceptable"},
       .submission = "CoLA",
       .matthews = true,
       .header = {"source", "label", "mark", "sentence"}},
      {.name = "mrpc",
       .columns = {"#1 String", "#2 String", "Quality"},
       .labels = {"not_equivalent", "equivalent"},
       .submission = "MRPC",
       .f1 = true},
      {.name = "qqp",
       .columns = {"question1", "question2", "is_duplicate"},
       .labels = {"not_duplicate", "duplicate"},
       .submission = "QQP",
       .f1 = true,
       .skip_short_rows = true},
      {.name = "mnli",
       .columns = premises,
       .labels = three,
       .submission = "MNLI-m",
       .submitted = Submitted::kNames,
       .validation = "dev_matched",
       .test = "test_matched",
       .mismatched = "mnli-mm"},
      {.name = "mnli-mm",
       .columns = premises,
       .labels = three,
       .submission = "MNLI-mm",
       .submitted = Submitted::kNames,
       .validation = "dev_mismatched",
       .test = "test_mismatched"},
      {.name = "qnli",
       .columns = {"question", "sentence", "label"},
       .labels = entailment,
       .submission = "QNLI",
       .submitted = Submitted::kNames},
      {.name = "rte", .columns = sentences, .labels = entailment, .submission = "RTE", .submitted = Submitted::kNames},
      {.name = "wnli", .columns = sentences, .labels = {"not_entailment", "entailment"}, .submission = "WNLI"},
      {.name = "stsb",
       .columns = {"sentence1", "sentence2", "score"},
       .labels = {},
       .submission = "STS-B",
       .least = 0,
       .most = 5},
  };
  return tasks;
}

const GlueTask& FindGlueTask(std::string_view given) {
  const std::string name = LowerCase(std::string(given));
  std::vector<std::string> names;
  for (const GlueTask& task : GlueTasks()) {
    if (task.name == name) return task;
    names.emplace_back(task.name);
  }
  const std::string nearest = Nearest(name, names);
  FailOption("task_name", "expected one of {}, got \"{}\"{}", fmt::join(names, ", "), Shown(given),
             nearest.empty() ? "" : "; did you mean " + nearest + "?");
}

std::string GluePath(const GlueTask& task, const std::string& data_dir, Split split) {
  const std::string& name = split == Split::kTrain        ? task.train
                            : split == Split::kValidation ? task.validation
                                                          : task.test;
  const std::string path = data_dir + "/" + name + ".tsv";
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 && stat((path + ".gz").c_str(), &status) == 0) return path + ".gz";
  return path;
}

TextTable ReadGlueFile(const GlueTask& task, const std::string& path, bool need_label, const TableColumns& otherwise) {
  // A row to be predicted may not go: the benchmark counts them.
  const TableLayout layout{task.columns, task.header, task.skip_short_rows && need_label};
  TextTable table = ReadTextTable(path, need_label, layout, otherwise);
  if (table.skipped > 0)
    Warn("{}: {} of {} rows have too few fields and are left out", path, table.skipped, table.rows() + table.skipped);
  if (table.multi_label())
    Fail("{}: has several labels a row, but {} {} has one", table.path, OptionName{"task_name"}, task.name);
  if (!need_label) {
    table.columns.label.clear();
    table.labels.clear();
  } else if (task.regression()) {
    CheckRange(task, table);
  } else {
    const std::vector<int32_t> ids = LabelIds(table, task.labels);
    for (size_t row = 0; row < ids.size(); ++row) table.labels[row] = task.labels[static_cast<size_t>(ids[row])];
  }
  return table;
}

TextTable ReadGlue(const GlueTask& task, const std::string& data_dir, Split split) {
  return ReadGlueFile(task, GluePath(task, data_dir, split), split != Split::kTest);
}

}  // namespace lshformer
