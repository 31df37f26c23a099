#include "eval/score_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/number.h"
#include "eval/metrics.h"
#include "io/gzip.h"

namespace lshformer {
namespace {

// One row of a predictions file after another, each index below `examples` once; `take` gets index, text and place.
using TakePrediction = std::function<void(size_t index, std::string_view text, const std::string& where)>;
void ReadPredictions(const std::string& path, size_t examples, const TakePrediction& take) {
  LineReader lines(path);
  std::string line;
  if (!lines.Next(line) || line != "index\tprediction") {
    Fail("{}:1: expected the header \"index<TAB>prediction\"", path);
  }
  std::vector<bool> seen(examples, false);
  size_t rows = 0;
  while (lines.Next(line)) {
    const size_t tab = line.find('\t');
    const std::string_view number = std::string_view(line).substr(0, tab);
    size_t index = 0;
    const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (tab == std::string::npos || code != std::errc{} || end != number.data() + number.size()) {
      Fail("{}: expected index<TAB>prediction", lines.where());
    }
    if (index >= examples) Fail("{}: index {}, but the references have {} rows", lines.where(), index, examples);
    if (seen[index]) Fail("{}: index {} for the second time", lines.where(), index);
    seen[index] = true;
    take(index, std::string_view(line).substr(tab + 1), lines.where());
    ++rows;
  }
  if (rows < examples) Fail("{}: {} predictions, but the references have {} rows", path, rows, examples);
}

std::vector<int32_t> ReadClasses(const std::string& path, const std::vector<std::string>& labels, size_t examples) {
  std::vector<int32_t> predictions(examples);
  ReadPredictions(path, examples, [&](size_t index, std::string_view label, const std::string& where) {
    predictions[index] = LabelId(label, labels);
    if (predictions[index] < 0)
      Fail("{}: label \"{}\" is unknown, known: {}", where, Shown(label), fmt::join(labels, ", "));
  });
  return predictions;
}

std::vector<double> ReadValues(const std::string& path, size_t examples) {
  std::vector<double> predictions(examples);
  ReadPredictions(path, examples, [&](size_t index, std::string_view text, const std::string& where) {
    double& value = predictions[index];
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
      Fail("{}: prediction \"{}\": expected a finite number", where, Shown(text));
  });
  return predictions;
}

// null where undefined
Json Correlation(double value) { return std::isnan(value) ? Json() : Json(value); }

Json ScoreClasses(const std::vector<int32_t>& predictions, const std::vector<int32_t>& labels, bool f1) {
  Json scores;
  scores["accuracy"] = Accuracy(predictions, labels);
  if (f1) {
    scores["f1"] = F1(predictions, labels);
    scores["acc_and_f1"] = (scores["accuracy"].get<double>() + scores["f1"].get<double>()) / 2;
  }
  const std::vector<double> x(predictions.begin(), predictions.end()), y(labels.begin(), labels.end());
  scores["matthews_correlation"] = Matthews(predictions, labels);
  for (const auto& [name, value] : {std::pair("pearson", Pearson(x, y)), std::pair("spearmanr", Spearman(x, y))})
    scores[name] = Correlation(value);
  return scores;
}

Json ScoreValues(const TextTable& references, const std::string& predictions_path) {
  const std::vector<double> y = LabelValues(references), x = ReadValues(predictions_path, y.size());
  const double pearson = Pearson(x, y), spearman = Spearman(x, y);
  WeightedMean squares;
  for (size_t i = 0; i < x.size(); ++i) squares.Add((x[i] - y[i]) * (x[i] - y[i]), 1);
  return {{"pearson", Correlation(pearson)},
          {"spearmanr", Correlation(spearman)},
          {"corr", Correlation((pearson + spearman) / 2)},
          {"mse", squares.mean()}};
}

}  // namespace

Json ScoreClassificationFiles(const GlueTask& task, const std::string& predictions_path,
                              const std::string& references_path) {
  const TextTable references = ReadGlueFile(task, references_path, true);
  if (task.regression()) return ScoreValues(references, predictions_path);
  const std::vector<int32_t> labels = LabelIds(references, task.labels);
  const std::vector<int32_t> predictions = ReadClasses(predictions_path, task.labels, labels.size());
  return ScoreClasses(predictions, labels, task.f1);
}

namespace {

std::string SubmissionPath(const std::string& folder, const GlueTask& task) {
  return folder + "/" + task.submission + ".tsv";
}

bool IsInteger(std::string_view text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc{} && end == text.data() + text.size();
}

bool IsReal(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc{} && end == text.data() + text.size() && !IsInteger(text);
}

}  // namespace

Json ScoreOwnFiles(const std::string& predictions_path, const std::string& references_path) {
  const TextTable references = ReadTextTable(references_path, /*need_label=*/true);
  if (references.multi_label()) Fail("{}: has several labels a row, expected one", references_path);
  std::vector<std::string> predicted(references.labels.size()), places(predicted.size());
  ReadPredictions(predictions_path, predicted.size(), [&](size_t index, std::string_view text, const std::string& at) {
    predicted[index] = text;
    places[index] = at;
  });
  // The table's integers are spelled as numbers.
  const std::set<std::string> written(references.labels.begin(), references.labels.end());
  for (std::string& label : predicted)
    if (const auto number = ParseNumber<int64_t>(label);
        number && !written.contains(label) && written.contains(std::to_string(*number)))
      label = std::to_string(*number);
  const bool integers = std::all_of(references.labels.begin(), references.labels.end(), IsInteger);
  // The few references may all be whole numbers where the training data was not; a regression's predictions never are.
  if (AreValues({&references, 1}) || (integers && std::any_of(predicted.begin(), predicted.end(), IsReal)))
    return ScoreValues(references, predictions_path);
  for (size_t i = 0; !integers && i < predicted.size(); ++i) {
    const bool known =
        std::find(references.labels.begin(), references.labels.end(), predicted[i]) != references.labels.end();
    if (IsInteger(predicted[i]) && !known)
      FailOption("task_name",
                 "required: {}: prediction {} is a number and {} names its classes, so only a task says "
                 "which is which",
                 places[i], predicted[i], references_path);
  }
  TextTable all = references;  // a class may be predicted and not be among the references
  all.labels.insert(all.labels.end(), predicted.begin(), predicted.end());
  const std::vector<std::string> names = DiscoverLabels(all);
  std::map<std::string, int32_t> ids;
  for (const std::string& name : names) ids.emplace(name, static_cast<int32_t>(ids.size()));
  const auto ids_of = [&](const std::vector<std::string>& labels) {
    std::vector<int32_t> found;
    for (const std::string& label : labels) found.push_back(ids.at(label));
    return found;
  };
  return ScoreClasses(ids_of(predicted), ids_of(references.labels), names.size() == 2);
}

void WritePredictions(const std::string& path, std::span<const int32_t> predictions,
                      const std::vector<std::string>& labels) {
  AtomicFile file(path);
  file.Write("index\tprediction\n");
  for (size_t i = 0; i < predictions.size(); ++i) file.Write(fmt::format("{}\t{}\n", i, labels.at(predictions[i])));
  file.Commit();
}

void WriteLabelSets(const std::string& path, std::span<const uint8_t> flags, const std::vector<std::string>& labels) {
  AtomicFile file(path);
  file.Write("index\tprediction\n");
  for (size_t row = 0; row * labels.size() < flags.size(); ++row) {
    std::string names;
    for (size_t label = 0; label < labels.size(); ++label)
      if (flags[row * labels.size() + label] != 0) names += (names.empty() ? "" : ",") + labels[label];
    file.Write(fmt::format("{}\t{}\n", row, names));
  }
  file.Commit();
}

void WriteValues(const std::string& path, std::span<const double> values) {
  AtomicFile file(path);
  file.Write("index\tprediction\n");
  for (size_t i = 0; i < values.size(); ++i) file.Write(fmt::format("{}\t{:.3f}\n", i, values[i]));
  file.Commit();
}

void WriteSubmission(const std::string& folder, const GlueTask& task, std::span<const int32_t> predictions,
                     const std::vector<std::string>& labels) {
  std::vector<std::string> written;
  for (const std::string& label : labels) {
    const int32_t id = LabelId(label, task.labels);
    if (id < 0) Fail("{} {}: has no label \"{}\"", OptionName{"task_name"}, task.name, Shown(label));
    written.push_back(task.submitted == Submitted::kNames ? task.labels[static_cast<size_t>(id)] : std::to_string(id));
  }
  WritePredictions(SubmissionPath(folder, task), predictions, written);
}

void WriteSubmission(const std::string& folder, const GlueTask& task, std::span<const double> values) {
  std::vector<double> within;
  for (const double value : values) within.push_back(std::clamp(value, task.least, task.most));
  WriteValues(SubmissionPath(folder, task), within);
}

}  // namespace lshformer
