#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/metric_direction.h"
#include "report/json_figures.h"
#include "report/page.h"
#include "report/runs.h"

namespace lshformer {
namespace {

double Result(const RunRecord& run, const std::string& key) {
  for (const auto& [name, value] : run.results) {
    if (name == key) {
      return value;
    }
  }
  return std::nan("");
}

// Column of the best run, or −1 where nothing is better, or all are equal.
int Best(const std::vector<double>& values, int direction) {
  int best = -1;
  bool differ = false;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      continue;
    }
    differ |= best >= 0 && values[i] != values[static_cast<size_t>(best)];
    if (best < 0 || direction * values[i] > direction * values[static_cast<size_t>(best)]) {
      best = static_cast<int>(i);
    }
  }
  return direction != 0 && differ ? best : -1;
}

// Losses and accuracies compare only between models with the same head; a regression has another loss than classes.
bool OneKind(const std::vector<RunRecord>& runs) {
  std::set<std::pair<Json, bool>> kinds;
  for (const RunRecord& run : runs) {
    if (run.results.empty()) continue;
    const auto get = [&run](const char* key) {
      return run.config.is_object() && run.config.contains(key) ? run.config[key] : Json();
    };
    kinds.emplace(get("architectures"), get("problem_type") == "regression");
  }
  return kinds.size() <= 1;
}

std::string SectionOf(const std::string& metric) {
  for (const auto& [start, title] : {std::pair("train_", "Training"),
                                     {"eval_", "Evaluation"},
                                     {"perplexity", "Evaluation"},
                                     {"predict_", "Test"},
                                     {"test_", "Test"}}) {
    if (metric.rfind(start, 0) == 0) {
      return title;
    }
  }
  return "Other";
}

Table WithRunColumns(const std::vector<RunRecord>& runs) {
  Table table;
  table.columns = {""};
  for (const RunRecord& run : runs) {
    table.columns.push_back(run.name);
  }
  return table;
}

// One chart per key that some run logged at least twice. The key of a run's summary entry ("train_runtime" …) has one
// point and is in the table.
std::vector<LineChart> CurveCharts(const std::vector<RunRecord>& runs) {
  std::vector<std::string> keys;
  for (const RunRecord& run : runs) {
    for (const auto& [key, curve] : run.curves) {
      const bool timing = key.find("runtime") != std::string::npos || key.find("per_second") != std::string::npos;
      if (curve.size() >= 2 && !timing && std::find(keys.begin(), keys.end(), key) == keys.end()) {
        keys.push_back(key);
      }
    }
  }
  // What a reader looks for first comes first.
  const auto rank = [](const std::string& key) {
    return key == "loss" ? 0 : key == "eval_loss" ? 1 : BetterDirection(key) > 0 ? 2 : BetterDirection(key) < 0 ? 3 : 4;
  };
  std::stable_sort(keys.begin(), keys.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  std::vector<LineChart> charts;
  for (const std::string& key : keys) {
    LineChart chart{key == "loss" ? "training loss" : key, {"step"}, {key}, {}};
    std::replace(chart.title.begin(), chart.title.end(), '_', ' ');
    std::replace(chart.y.label.begin(), chart.y.label.end(), '_', ' ');
    for (const RunRecord& run : runs) {
      Series series{run.name, {}};
      for (const auto& [name, curve] : run.curves) {
        if (name == key) {
          series.points = curve;
        }
      }
      chart.series.push_back(std::move(series));  // also when empty: a run keeps its colour in all charts
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

std::vector<Benchmark> AllBenchmarks(const std::vector<RunRecord>& runs) {
  std::vector<Benchmark> all;
  for (const RunRecord& run : runs) {
    all.insert(all.end(), run.benchmarks.begin(), run.benchmarks.end());
  }
  return all;
}

void AddBenchmarks(const std::vector<RunRecord>& runs, Page& page) {
  const std::vector<Benchmark> benchmarks = AllBenchmarks(runs);
  for (const BenchmarkSection& section : BenchmarkSections(benchmarks)) {
    page.Heading(section.title);
    if (!section.charts.empty()) page.Add(section.charts);
    if (!section.bars.empty()) page.Add(section.bars);
    page.Add(section.summary);
    if (!section.details.lines.empty()) page.Details("All figures", section.details);
  }
  if (benchmarks.size() > 1) {
    page.Paragraph("Only figures that were measured in turn, on one machine, compare.");
  }
  for (const Benchmark& benchmark : benchmarks) {
    page.Paragraph(benchmark.machine.is_null()
                       ? benchmark.source + " does not say on which machine it was measured."
                       : "Machine of " + benchmark.source + ": " + MachineText(benchmark.machine) + ".");
  }
}

// Runs that have what a table compares; a bare benchmark has no column there.
template <class Has>
std::vector<RunRecord> RunsWith(const std::vector<RunRecord>& runs, const Has& has) {
  std::vector<RunRecord> kept;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(kept), has);
  return kept;
}

bool HasResults(const RunRecord& run) { return !run.results.empty(); }

// Keys of config.json whose values are not the same in all runs that have a config.
Table ConfigDifferences(const std::vector<RunRecord>& all_runs) {
  const std::vector<RunRecord> runs = RunsWith(all_runs, [](auto& run) { return run.config.is_object(); });
  Table table = WithRunColumns(runs);
  std::vector<std::string> keys;
  for (const RunRecord& run : runs) {
    if (run.config.is_object()) {
      for (const auto& [key, value] : run.config.items()) {
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
          keys.push_back(key);
        }
      }
    }
  }
  for (const std::string& key : keys) {
    std::vector<std::string> cells{key};
    std::set<std::string> values;
    for (const RunRecord& run : runs) {
      const bool has = run.config.is_object() && run.config.contains(key);
      cells.push_back(has ? run.config[key].dump(-1, ' ', false, Json::error_handler_t::replace) : "–");
      if (run.config.is_object()) {
        values.insert(cells.back());
      }
    }
    if (values.size() > 1) {
      table.Row(std::move(cells));
    }
  }
  return table;
}

}  // namespace

Table ResultsTable(const std::vector<RunRecord>& all_runs) {
  const std::vector<RunRecord> runs = RunsWith(all_runs, HasResults);
  Table table = WithRunColumns(runs);
  std::vector<std::string> keys;
  for (const RunRecord& run : runs) {
    for (const auto& [key, value] : run.results) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        keys.push_back(key);
      }
    }
  }
  std::vector<std::string> attention{"attention"};
  for (const RunRecord& run : runs) {
    attention.push_back(run.attention.empty() ? "–" : run.attention);
  }
  table.Row(attention);
  const bool comparable = OneKind(runs);
  for (const char* section : {"Training", "Evaluation", "Test", "Other"}) {
    bool opened = false;
    for (const std::string& key : keys) {
      if (SectionOf(key) != section) {
        continue;
      }
      if (!opened) {
        table.Section(section);
        opened = true;
      }
      std::vector<std::string> cells{key};
      std::vector<double> values;
      for (const RunRecord& run : runs) {
        values.push_back(Result(run, key));
        cells.push_back(FormatNumber(values.back()));
      }
      const int best = comparable ? Best(values, BetterDirection(key)) : -1;
      table.Row(std::move(cells), best < 0 ? -1 : best + 1);
    }
  }
  return table;
}

std::vector<Table> SummaryTables(const std::vector<RunRecord>& runs) {
  std::vector<Table> tables;
  if (std::any_of(runs.begin(), runs.end(), HasResults)) tables.push_back(ResultsTable(runs));
  for (BenchmarkSection& section : BenchmarkSections(AllBenchmarks(runs))) {
    tables.push_back(std::move(section.summary));
  }
  return tables;
}

namespace {

// "2 runs and 1 file of timings: a, b, bench.json". A file of timings is no run, and a folder of them alone neither.
std::string Subtitle(const std::vector<RunRecord>& runs) {
  std::string names;
  size_t timings = 0;
  for (const RunRecord& run : runs) {
    names += (names.empty() ? "" : ", ") + run.name;
    timings += run.results.empty() && run.curves.empty() && !run.benchmarks.empty() ? 1 : 0;
  }
  const size_t trained = runs.size() - timings;
  std::string text = trained == 0 ? "" : fmt::format("{} run{}", trained, trained == 1 ? "" : "s");
  if (timings == 1) text += text.empty() ? "timings" : " and timings";
  if (timings > 1) text += fmt::format("{}{} sets of timings", text.empty() ? "" : " and ", timings);
  return text + ": " + names;
}

}  // namespace

std::string RunsPage(const std::vector<RunRecord>& runs, const std::string& title) {
  Page page(title, Subtitle(runs));
  if (std::any_of(runs.begin(), runs.end(), HasResults)) {
    page.Heading("Results");
    page.Add(ResultsTable(runs));
    if (std::count_if(runs.begin(), runs.end(), HasResults) > 1) {
      page.Paragraph(OneKind(runs) ? "Bold: the best run of a line."
                                   : "No run is called the best: the models have different heads, so their figures do "
                                     "not compare.");
    }
  }
  const std::vector<LineChart> charts = CurveCharts(runs);
  if (!charts.empty()) {
    page.Heading("Curves");
    page.Add(charts);
  }
  AddBenchmarks(runs, page);
  const Table differences = ConfigDifferences(runs);
  if (!differences.lines.empty()) {
    page.Heading("Where the configs differ");
    page.Add(differences);
  }
  for (const RunRecord& run : runs) {
    if (run.config.is_object()) {
      page.Details("config.json of " + run.name, run.config.dump(2, ' ', false, Json::error_handler_t::replace));
    }
  }
  return page.Html();
}

}  // namespace lshformer
