#include "eval/score_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "eval/metrics.h"
#include "io/gzip.h"

namespace lshformer {
namespace {

// [examples] class ids in order of index.
std::vector<int32_t> ReadPredictions(const std::string& path, const std::vector<std::string>& labels, size_t examples) {
  LineReader lines(path);
  std::string line;
  if (!lines.Next(line) || line != "index\tprediction") {
    Fail("{}:1: expected the header \"index<TAB>prediction\"", path);
  }
  std::vector<int32_t> predictions(examples, -1);
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
    if (predictions[index] >= 0) Fail("{}: index {} for the second time", lines.where(), index);
    const std::string_view label = std::string_view(line).substr(tab + 1);
    predictions[index] = LabelId(label, labels);
    if (predictions[index] < 0) {
      Fail("{}: label \"{}\" is unknown, known: {}", lines.where(), Shown(label), fmt::join(labels, ", "));
    }
    ++rows;
  }
  if (rows < examples) Fail("{}: {} predictions, but the references have {} rows", path, rows, examples);
  return predictions;
}

}  // namespace

Json ScoreClassificationFiles(const GlueTask& task, const std::string& predictions_path,
                              const std::string& references_path) {
  const TextTable references = ReadGlueFile(task, references_path, true);
  const std::vector<int32_t> labels = LabelIds(references, task.labels);
  const std::vector<int32_t> predictions = ReadPredictions(predictions_path, task.labels, labels.size());
  Json scores;
  scores["accuracy"] = Accuracy(predictions, labels);
  if (task.f1) {
    scores["f1"] = F1(predictions, labels);
    scores["acc_and_f1"] = (scores["accuracy"].get<double>() + scores["f1"].get<double>()) / 2;
  }
  const std::vector<double> x(predictions.begin(), predictions.end()), y(labels.begin(), labels.end());
  scores["matthews_correlation"] = Matthews(predictions, labels);
  for (const auto& [name, value] : {std::pair("pearson", Pearson(x, y)), std::pair("spearmanr", Spearman(x, y))})
    scores[name] = std::isnan(value) ? Json() : Json(value);
  return scores;
}

void WritePredictions(const std::string& path, std::span<const int32_t> predictions,
                      const std::vector<std::string>& labels) {
  AtomicFile file(path);
  file.Write("index\tprediction\n");
  for (size_t i = 0; i < predictions.size(); ++i) file.Write(fmt::format("{}\t{}\n", i, labels.at(predictions[i])));
  file.Commit();
}

}  // namespace lshformer
