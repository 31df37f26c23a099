#include "jobs/data/label_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/logging.h"
#include "base/lower_case.h"
#include "data/corpus.h"

namespace lshformer {
namespace {

constexpr const char* kOtherSuffix = "_mm";

void Limit(TextTable& table, int64_t rows) {
  if (rows <= 0 || rows >= table.rows()) return;
  table.texts.resize(rows);
  if (!table.pairs.empty()) table.pairs.resize(rows);
  if (!table.labels.empty()) table.labels.resize(rows);
  if (!table.label_sets.empty()) table.label_sets.resize(rows);
  table.lines.resize(rows);
}

// Labels of several tables in one order: sorted as text, or by value if all are integers.
std::vector<std::string> LabelsOf(const std::vector<TextTable>& tables) {
  TextTable all;
  if (!tables.empty()) all.path = tables.front().path;  // what an error names
  for (const TextTable& table : tables) {
    all.labels.insert(all.labels.end(), table.labels.begin(), table.labels.end());
    all.label_sets.insert(all.label_sets.end(), table.label_sets.begin(), table.label_sets.end());
    all.label_places = std::max(all.label_places, table.label_places);
  }
  return DiscoverLabels(all);
}

void Append(SequenceSet& all, const SequenceSet& part) {
  for (int64_t i = 0; i < part.size(); ++i) {
    all.Add(part.ids(i), part.type_ids(i));
    if (part.labelled()) all.AddLabel(part.label(i));
    if (part.has_values()) all.AddValue(part.value(i));
    if (part.has_flags()) all.AddFlags(part.flags(i));
  }
}

void CheckSplit(const TrainOptions& options) {
  constexpr const char* kName = "validation_split_percentage";
  if (options.validation_split_percentage == 0) return;
  if (!options.data_dir.empty())
    FailOption(kName, "{} {} has validation data", OptionName{"data_dir"}, options.data_dir);
  if (!options.validation_file.empty()) FailOption(kName, "is instead of {}", OptionName{"validation_file"});
  if (!options.do_eval && options.training.eval_steps == 0)
    FailOption(kName, "needs {} or {}", OptionName{"do_eval"}, OptionName{"eval_steps"});
  if (options.question_answering() && options.train_files.size() > 1)
    FailOption(kName, "splits the questions of one {}, got {}", OptionName{"train_file"}, options.train_files.size());
}

// The labels of a model, each as `names` has it: the same, or the same but for upper and lower case, since checkpoints
// have "ENTAILMENT" for what files have as "entailment".
std::vector<std::string> InOrderOf(const std::vector<std::string>& model, const std::vector<std::string>& names) {
  std::vector<std::string> order = model;
  for (std::string& label : order) {
    if (std::find(names.begin(), names.end(), label) != names.end()) continue;
    const auto same = [&](const std::string& name) { return LowerCase(name) == LowerCase(label); };
    const auto found = std::find_if(names.begin(), names.end(), same);
    // Not where the model tells the two apart.
    if (found != names.end() && std::find(model.begin(), model.end(), *found) == model.end()) label = *found;
  }
  return order;
}

bool KnowsAll(const std::vector<std::string>& labels, const std::vector<std::string>& names) {
  const std::set<std::string> known(labels.begin(), labels.end());
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return known.contains(name); });
}

// The first rows, taken out of the table.
TextTable SplitFront(TextTable& table, int64_t rows) {
  TextTable front = table;
  Limit(front, rows);
  const auto drop = [rows](auto& column) {
    if (!column.empty()) column.erase(column.begin(), column.begin() + rows);
  };
  drop(table.texts), drop(table.pairs), drop(table.labels), drop(table.label_sets), drop(table.lines);
  return front;
}

// The first share of all rows.
std::vector<TextTable> SplitTables(std::vector<TextTable>& train, double percentage) {
  int64_t rows = 0;
  for (const TextTable& table : train) rows += table.rows();
  std::vector<TextTable> validation;
  int64_t left = ValidationShare(rows, percentage, "row");
  for (size_t t = 0; left > 0; ++t) {
    const int64_t taken = std::min(left, train[t].rows());
    if (taken > 0) validation.push_back(SplitFront(train[t], taken));
    left -= taken;
  }
  return validation;
}

// Rows whose first text has no token: nothing but [CLS] and [SEP] is of type 0.
void WarnOfEmptyTexts(const TextTable& table, const SequenceSet& set, const Tokenizer& tokenizer) {
  const auto none = static_cast<std::ptrdiff_t>(tokenizer.Encode("").ids.size());
  int64_t empty = 0, first = 0;
  for (int64_t row = 0; row < set.size(); ++row) {
    const int64_t sequence = set.SequencesOf(row).first;
    const std::vector<int32_t> types = set.type_ids(sequence);
    const auto own = types.empty() ? std::ssize(set.ids(sequence)) : std::count(types.begin(), types.end(), 0);
    if (own <= none && ++empty == 1) first = table.lines[static_cast<size_t>(row)];
  }
  if (empty > 0)
    Warn("{}:{}: the text is empty{}", Shown(table.path, 120), first,
         empty > 1 ? fmt::format(", that of {} of {} rows", empty, set.size()) : "");
}

}  // namespace

void LimitAll(std::vector<TextTable>& tables, int64_t rows) {
  if (rows <= 0) return;
  size_t kept = 0;
  for (; kept < tables.size() && rows > 0; ++kept) {
    Limit(tables[kept], rows);
    rows -= std::min(rows, tables[kept].rows());
  }
  tables.resize(kept);
}

SequenceSet EncodeTables(const std::vector<TextTable>& tables, const LabelTables* known, const Tokenizer& tokenizer,
                         const TextEncoding& how) {
  SequenceSet all;
  int64_t truncated = 0;
  for (const TextTable& table : tables) {
    const bool regression = known != nullptr && known->regression, flags = known != nullptr && known->multi_label;
    const bool classes = known != nullptr && !regression && !flags;
    const std::vector<int32_t> ids = classes ? LabelIds(table, known->labels) : std::vector<int32_t>();
    const std::vector<double> values = regression ? LabelValues(table) : std::vector<double>();
    int64_t cut = 0;
    SequenceSet part = EncodeTable(table, ids, tokenizer, how, &cut);
    for (const double value : values) part.AddValue(static_cast<float>(value));
    if (flags)
      for (const std::vector<float>& row : LabelFlags(table, known->labels)) part.AddFlags(row);
    truncated += cut;
    WarnOfEmptyTexts(table, part, tokenizer);
    if (tables.size() == 1) {
      all = std::move(part);
    } else {
      Append(all, part);
    }
  }
  if (truncated > 0) {
    const std::string others = tables.size() > 1 ? fmt::format(" and {} more", tables.size() - 1) : "";
    Warn("{}{}: {} of {} texts were cut at {} {}", Shown(tables.front().path, 120), others, truncated, all.size(),
         OptionName{"max_seq_length"}, how.max_seq_length);
  }
  return all;
}

TextTable ReadLabelTable(const std::string& task_name, const std::string& data_dir, const std::string& path,
                         Split split, const TableColumns& columns) {
  const bool need_label = split != Split::kTest;
  TableColumns wanted = columns;
  if (!need_label) wanted.label.clear();
  if (task_name.empty()) return ReadTextTable(path, need_label, wanted);
  const GlueTask& task = FindGlueTask(task_name);
  return path.empty() ? ReadGlue(task, data_dir, split) : ReadGlueFile(task, path, need_label, wanted);
}

std::vector<TextTable> ReadOtherTable(const GlueTask* task, const std::string& data_dir, const std::string& path,
                                      Split split) {
  if (task == nullptr || task->mismatched.empty() || data_dir.empty() || !path.empty()) return {};
  return {ReadGlue(FindGlueTask(task->mismatched), data_dir, split)};
}

void CheckLabelSource(const TrainOptions& options) {
  const bool choices = options.multiple_choice(), embeddings = options.embeddings() || options.listwise();
  for (const auto& [name, given] :
       {std::pair("task_name", !options.task_name.empty()), {"do_regression", options.do_regression.has_value()}})
    if (given && (choices || embeddings || options.question_answering()))
      FailOption(name, "is for {} text-classification with classes or values", OptionName{"task"});
  if (options.do_predict && options.embeddings())
    FailOption("do_predict", "is not for {} sentence-similarity", OptionName{"task"});
  if (options.do_predict && options.listwise())
    FailOption("do_predict", "is not for {} listwise; predict with {} text-classification scores pairs of the model",
               OptionName{"loss"}, OptionName{"task"});
  if (!options.data_dir.empty() && (embeddings || options.question_answering()))
    FailOption("data_dir", "is for {} text-classification and multiple-choice", OptionName{"task"});
  if (!options.data_dir.empty() && options.task_name.empty() && !choices)
    FailOption("data_dir", "needs {}, or {} multiple-choice", OptionName{"task_name"}, OptionName{"task"});
  if (!options.task_name.empty() && options.do_regression &&
      *options.do_regression != FindGlueTask(options.task_name).regression())
    FailUsage("{} {}: {} {} decides otherwise", OptionName{"do_regression"}, *options.do_regression,
              OptionName{"task_name"}, options.task_name);
  if (!options.task_name.empty()) FindGlueTask(options.task_name);
  if (!options.data_dir.empty() && !options.train_files.empty())
    FailOption("train_file", "{} {} already has the training data", OptionName{"data_dir"}, options.data_dir);
  if (choices && options.data_dir.empty() && options.train_files.empty())
    FailUsage("{} or {}: required", OptionName{"train_file"}, OptionName{"data_dir"});
  if (options.data_dir.empty() && options.train_files.empty())
    FailUsage("{}, or {} with {}: required", OptionName{"train_file"}, OptionName{"data_dir"}, OptionName{"task_name"});
  CheckSplit(options);
  if (!options.do_predict && !options.test_file.empty()) FailOption("test_file", "needs {}", OptionName{"do_predict"});
  if (!options.data_dir.empty()) return;
  if ((options.do_eval || options.training.eval_steps > 0) && options.validation_file.empty() &&
      options.validation_split_percentage == 0)
    FailOption("do_eval", "needs {} or {}", OptionName{"validation_file"}, OptionName{"validation_split_percentage"});
  if (options.do_predict && options.test_file.empty()) FailOption("do_predict", "needs {}", OptionName{"test_file"});
}

LabelTables ReadLabelTables(const TrainOptions& options, bool do_eval) {
  LabelTables tables;
  const GlueTask* task = tables.task = options.task_name.empty() ? nullptr : &FindGlueTask(options.task_name);
  const bool folder = !options.data_dir.empty();
  // A file of one's own has the columns of the training file, unless it has those of the task.
  const auto read = [&](const std::string& path, Split split) {
    return ReadLabelTable(options.task_name, options.data_dir, path, split,
                          tables.train.empty() ? TableColumns{} : tables.train[0].columns);
  };
  for (const std::string& path : folder ? std::vector<std::string>{""} : options.train_files)
    tables.train.push_back(read(path, Split::kTrain));
  if (do_eval && options.validation_split_percentage == 0) {
    tables.validation.push_back(read(options.validation_file, Split::kValidation));
    tables.validation_other = ReadOtherTable(task, options.data_dir, options.validation_file, Split::kValidation);
    for (auto* validation : {&tables.validation, &tables.validation_other})
      LimitAll(*validation, options.max_eval_samples);
  }
  if (options.do_predict) {
    tables.test.push_back(read(options.test_file, Split::kTest));
    tables.test_other = ReadOtherTable(task, options.data_dir, options.test_file, Split::kTest);
  }
  // Labels first: those of all rows, however few are then trained on.
  tables.multi_label = task == nullptr && tables.train.front().multi_label();
  for (const auto* read : {&tables.train, &tables.validation}) RequireLabelKind(*read, tables.multi_label);
  if (tables.multi_label && options.do_regression.value_or(false))
    FailOption("do_regression", "{} has several labels a row", tables.train.front().path);
  tables.regression = tables.multi_label      ? false
                      : task != nullptr       ? task->regression()
                      : options.do_regression ? *options.do_regression
                                              : AreValues(tables.train);
  if (!tables.regression) tables.labels = task != nullptr ? task->labels : LabelsOf(tables.train);
  if (options.validation_split_percentage > 0) {
    tables.validation = SplitTables(tables.train, options.validation_split_percentage);
    std::erase_if(tables.train, [](const TextTable& table) { return table.rows() == 0; });
    LimitAll(tables.validation, options.max_eval_samples);
  }
  LimitAll(tables.train, options.max_train_samples);
  return tables;
}

namespace {

// Whether some label has a name that somebody gave it, not "LABEL_0".
bool AreNamed(const std::vector<std::string>& labels) {
  for (size_t id = 0; id < labels.size(); ++id)
    if (labels[id] != ModelConfig().label_name(static_cast<int64_t>(id))) return true;
  return false;
}

// As many labels as a checkpoint's head has, and others: its classes go on under new names.
void WarnOfOtherLabels(const ModelConfig& config, const std::vector<std::string>& labels) {
  if (!AreNamed(config.labels) || config.labels.size() != labels.size()) return;
  Warn("the checkpoint's labels {} are other ones than the data's: its head goes on with {}, in this order",
       Shown(fmt::format("{}", fmt::join(config.labels, ", ")), 120),
       Shown(fmt::format("{}", fmt::join(labels, ", ")), 120));
}

// Labels that have places and no names.
bool UsesPlaces(const LabelTables& tables) {
  return std::any_of(tables.train.begin(), tables.train.end(),
                     [](const TextTable& table) { return table.label_places > 0; });
}

}  // namespace

void RequireLabelKind(const std::vector<TextTable>& tables, bool multi_label) {
  for (const TextTable& table : tables)
    if (table.multi_label() != multi_label)
      Fail("{}:{}: has \"{}\", expected {}", table.path, table.lines.front(), Shown(table.columns.label),
           multi_label ? "several labels a row (a list under \"labels\")" : "one label a row");
}

EvaluateLabelled EvaluationOf(const LabelTables& tables) {
  if (tables.multi_label) return EvaluateMultiLabel;
  return tables.regression ? EvaluateRegression : EvaluateClassification;
}

void RequireTypes(const std::vector<TextTable>& tables, const SequenceSet& set, const ModelConfig& config) {
  if (config.type_vocab_size > 1) return;
  int64_t example = 0;
  for (const TextTable& table : tables)
    for (size_t row = 0; row < table.lines.size(); ++row, ++example)
      if (const std::vector<int32_t> types = set.type_ids(set.SequencesOf(example).first);
          !types.empty() && types.back() > 0)
        Fail("{}:{}: has a second text (\"{}\"), the model takes none (type_vocab_size {})", table.path,
             table.lines[row], Shown(table.columns.pair), config.type_vocab_size);
}

void RequireWritable(const LabelTables& tables) {
  for (const std::string& label : tables.labels) {
    const size_t found = label.find_first_of(tables.multi_label ? ",\n\r" : "\n\r");
    if (found != label.npos)
      FailOption("do_predict", "the label \"{}\" has a {}, which parts labels in predict_results.txt", Shown(label),
                 label[found] == ',' ? "comma" : "line end");
  }
}

void AgreeOnLabels(LabelTables& tables, ModelConfig& config) {
  if (tables.regression) {
    if (config.labels.size() != 1) config.labels.clear();
    config.num_labels = 1;
    config.problem_type = "regression";
    return;
  }
  const std::string problem = tables.multi_label ? ModelConfig::kMultiLabel : "single_label_classification";
  const std::vector<std::string> order = InOrderOf(config.labels, tables.labels);
  if (tables.multi_label && UsesPlaces(tables) && config.num_labels == static_cast<int64_t>(tables.labels.size())) {
    for (int64_t id = 0; id < config.num_labels; ++id) tables.labels[static_cast<size_t>(id)] = config.label_name(id);
    config.problem_type = problem;
    return;
  }
  if (tables.multi_label && UsesPlaces(tables)) {
    for (size_t id = 0; id < tables.labels.size(); ++id)
      tables.labels[id] = ModelConfig().label_name(static_cast<int64_t>(id));
  } else if (order.size() == tables.labels.size() && order.size() == config.labels.size() &&
             KnowsAll(order, tables.labels)) {
    tables.labels = order;
    if (tables.multi_label || config.multi_label()) config.problem_type = problem;
    return;
  }
  WarnOfOtherLabels(config, tables.labels);
  config.labels = tables.labels;
  config.num_labels = static_cast<int64_t>(tables.labels.size());
  config.problem_type = problem;
}

std::vector<std::string> LabelsOfModel(const ModelConfig& config, const GlueTask* task, const std::string& model) {
  std::vector<std::string> own;
  for (int64_t id = 0; id < config.num_labels; ++id) own.push_back(config.label_name(id));
  if (task == nullptr) return own;
  const std::vector<std::string> order = InOrderOf(own, task->labels);
  if (KnowsAll(order, task->labels)) return order;
  if (own.size() != task->labels.size())
    Fail("{} {}: its labels are {}, but {} has {}: {}", OptionName{"task_name"}, task->name,
         fmt::join(task->labels, ", "), model, own.size(), Shown(fmt::format("{}", fmt::join(own, ", "))));
  if (AreNamed(own))
    Warn("{}: its labels {} are taken as {}, those of {} {}, in this order", model,
         Shown(fmt::format("{}", fmt::join(own, ", "))), fmt::join(task->labels, ", "), OptionName{"task_name"},
         task->name);
  return task->labels;
}

void ChooseMetrics(const LabelTables& tables, EvaluateOptions& options) {
  options.f1 = tables.task == nullptr || tables.task->f1;
  options.matthews = tables.task != nullptr && tables.task->matthews;
  if (tables.task != nullptr && options.f1) options.positive = LabelId(tables.task->labels[1], tables.labels);
}

void AddOther(const Json& other, Json& metrics) {
  for (const auto& [key, value] : other.items()) metrics[key + kOtherSuffix] = value;
}

std::vector<std::string> WithOther(std::vector<std::string> keys) {
  const size_t own = keys.size();
  for (size_t i = 0; i < own; ++i) keys.push_back(keys[i] + kOtherSuffix);
  return keys;
}

LabelData Encode(const LabelTables& tables, const Tokenizer& tokenizer, int max_seq_length) {
  LabelData data;
  const TextEncoding how{.max_seq_length = max_seq_length};
  data.train = EncodeTables(tables.train, &tables, tokenizer, how);
  data.validation = EncodeTables(tables.validation, &tables, tokenizer, how);
  data.validation_other = EncodeTables(tables.validation_other, &tables, tokenizer, how);
  data.test = EncodeTables(tables.test, nullptr, tokenizer, how);
  data.test_other = EncodeTables(tables.test_other, nullptr, tokenizer, how);
  return data;
}

std::string PredictionsPath(const std::string& output_dir, const GlueTask* task) {
  return fmt::format("{}/predict_results{}.txt", output_dir, task == nullptr ? "" : "_" + task->name);
}

}  // namespace lshformer
