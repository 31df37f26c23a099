#include "report/benchmarks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "report/json_figures.h"

namespace lshformer {
namespace {

enum class Kind { kAttention, kModel, kThroughput };

Kind KindOf(const TimedRow& row) {
  if (row.length == 0) return Kind::kThroughput;
  return std::isnan(row.tokens_per_second) ? Kind::kAttention : Kind::kModel;
}

std::string ShapeOf(const Json& row) {
  if (!IsNumber(row, "heads") || !IsNumber(row, "head_dim")) return "";
  const std::string shape = fmt::format("{:.0f} × {:.0f}", row["heads"].get<double>(), row["head_dim"].get<double>());
  const double batch = NumberOr(row, "batch");
  return batch > 1 && NumberOr(row, "length") > 0 ? fmt::format("{}, batch {:.0f}", shape, batch) : shape;
}

TimedRow ParseRow(const Json& json, const std::string& where) {
  if (!json.is_object()) Fail("{}: expected an object, got {}", where, ShownValue(json));
  TimedRow row;
  row.name = TextOr(json, "name").empty() ? TextOr(json, "attention") : TextOr(json, "name");
  if (row.name.empty()) Fail("{}: has no \"name\"", where);
  constexpr size_t kLongestName = 400;  // names of variants tell all that differs; none is cut to look like another
  row.name = Shown(row.name, kLongestName);  // no line breaks in a table
  const std::string dtype = Shown(TextOr(json, "dtype"), 40);
  if (!dtype.empty() && dtype != "float32" && !row.name.ends_with(dtype)) row.name += "-" + dtype;
  const bool timed = IsNumber(json, "length") && IsNumber(json, "median_ms");
  if (!timed && !(IsNumber(json, "seconds") && IsNumber(json, "tokens_per_second")))
    Fail("{}: expected the numbers \"length\" and \"median_ms\", or \"seconds\" and \"tokens_per_second\"", where);
  row.direction = TextOr(json, "direction");
  row.shape = ShapeOf(json);
  row.length = timed ? GetNumber(json, "length", where) : 0;
  row.milliseconds = timed ? GetNumber(json, "median_ms", where) : 1000 * GetNumber(json, "seconds", where);
  if (!(row.milliseconds > 0))
    Fail("{}: {}: expected more than 0, got {}", where, timed ? "median_ms" : "seconds",
         ShownValue(json[timed ? "median_ms" : "seconds"]));
  if (row.length < 0 || row.length != std::floor(row.length))
    Fail("{}: length: expected a number of tokens, got {}", where, ShownValue(json["length"]));
  row.p10 = NumberOr(json, "p10_ms");
  row.p90 = NumberOr(json, "p90_ms");
  row.pairs_fraction = NumberOr(json, "pairs_fraction");
  row.work_bytes = NumberOr(json, "work_bytes");
  row.gemm_share = NumberOr(json, "gemm_share");
  row.memory_share = NumberOr(json, "memory_share");
  row.tokens_per_second = NumberOr(json, "tokens_per_second");
  row.layers = NumberOr(json, "layers");
  row.activation_bytes = NumberOr(json, "activation_bytes");
  return row;
}

// A row with the name of its line in a section.
struct Named {
  std::string line;
  const TimedRow* row;
};

// The rows of one kind. A line is named as its rows are; with the shape where shapes differ, and with the file where
// two files have the name.
std::vector<Named> RowsOf(Kind kind, const std::vector<Benchmark>& benchmarks) {
  std::set<std::string> shapes;
  for (const Benchmark& benchmark : benchmarks)
    for (const TimedRow& row : benchmark.rows)
      if (KindOf(row) == kind && !row.shape.empty()) shapes.insert(row.shape);
  const auto label = [&](const TimedRow& row) {
    return shapes.size() > 1 && !row.shape.empty() ? fmt::format("{} ({})", row.name, row.shape) : row.name;
  };
  std::map<std::string, std::set<size_t>> files;
  for (size_t b = 0; b < benchmarks.size(); ++b)
    for (const TimedRow& row : benchmarks[b].rows)
      if (KindOf(row) == kind) files[label(row)].insert(b);
  std::vector<Named> rows;
  for (const Benchmark& benchmark : benchmarks) {
    for (const TimedRow& row : benchmark.rows) {
      if (KindOf(row) != kind) continue;
      const std::string name = label(row);
      rows.push_back({files[name].size() > 1 ? benchmark.source + ": " + name : name, &row});
    }
  }
  return rows;
}

// The rows of one line in one direction, by length. `style` is the line's own in all charts of its section.
struct Line {
  std::string name;
  int style = 0;
  std::vector<const TimedRow*> rows;
};
struct Direction {
  std::string name;
  std::vector<Line> lines;
};

// Directions and lines in the order in which they first appear.
std::vector<Direction> ByDirection(const std::vector<Named>& rows) {
  std::vector<Direction> directions;
  std::map<std::string, size_t> direction_of;
  std::map<std::string, int> styles;
  std::map<std::pair<size_t, int>, size_t> line_of;
  for (const auto& [name, row] : rows) {
    const size_t d = direction_of.try_emplace(row->direction, directions.size()).first->second;
    if (d == directions.size()) directions.push_back({row->direction, {}});
    const int style = styles.try_emplace(name, static_cast<int>(styles.size())).first->second;
    std::vector<Line>& lines = directions[d].lines;
    const size_t line = line_of.try_emplace({d, style}, lines.size()).first->second;
    if (line == lines.size()) lines.push_back({name, style, {}});
    lines[line].rows.push_back(row);
  }
  for (Direction& direction : directions) {
    for (Line& line : direction.lines)
      std::stable_sort(line.rows.begin(), line.rows.end(), [](auto* a, auto* b) { return a->length < b->length; });
  }
  return directions;
}

std::vector<double> Lengths(const std::vector<Named>& rows) {
  std::set<double> lengths;
  for (const Named& named : rows) lengths.insert(named.row->length);
  return {lengths.begin(), lengths.end()};
}

std::string Spoken(const std::string& direction) {
  return direction == "forward_backward" ? "forward and backward" : direction;
}

std::string Titled(const std::string& title, const std::string& direction) {
  return direction.empty() ? title : title + ", " + Spoken(direction);
}

std::vector<double> TicksAt(const std::vector<double>& values) {
  constexpr size_t kMostTicks = 16;
  return values.size() <= kMostTicks ? values : std::vector<double>();
}

// For each direction a chart over the lengths, log-log, one line per name. Nothing to draw: no chart.
template <class Value>
void AddCharts(const std::string& title, const std::string& unit, const std::vector<Direction>& directions,
               const std::vector<double>& lengths, const Value& value, std::vector<LineChart>& charts) {
  for (const Direction& direction : directions) {
    LineChart chart{Titled(title, direction.name), {"tokens", true, TicksAt(lengths)}, {unit, true}, {}};
    for (const Line& line : direction.lines) {
      Series series{line.name, {}, line.style};
      for (const TimedRow* row : line.rows)
        if (const double y = value(*row); std::isfinite(y)) series.points.emplace_back(row->length, y);
      if (!series.points.empty()) chart.series.push_back(std::move(series));
    }
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  }
}

// Milliseconds: a line per name, a column per length, a section per direction. More lengths than a page is wide, and
// each row has a line of its own.
Table SummaryByLength(const std::vector<Direction>& directions, const std::vector<double>& lengths) {
  constexpr size_t kMostColumns = 24;
  const bool wide = lengths.size() <= kMostColumns;
  Table table{{"median ms"}, {}};
  if (!wide) table.columns = {"", "tokens", "median ms"};
  for (size_t i = 0; wide && i < lengths.size(); ++i) table.columns.push_back(FormatNumber(lengths[i]));
  for (const Direction& direction : directions) {
    if (!direction.name.empty()) table.Section(Spoken(direction.name));
    for (const Line& line : direction.lines) {
      std::vector<std::string> cells(wide ? lengths.size() + 1 : 0, FormatNumber(TimedRow::kUnknown));
      if (wide) cells[0] = line.name;
      double last = TimedRow::kUnknown;
      for (const TimedRow* row : line.rows) {
        if (!wide) {
          table.Row({line.name, FormatNumber(row->length), FormatNumber(row->milliseconds)});
        } else if (row->length != last) {  // of a length measured twice the first
          const auto column = std::lower_bound(lengths.begin(), lengths.end(), row->length) - lengths.begin();
          cells[static_cast<size_t>(column) + 1] = FormatNumber(row->milliseconds);
        }
        last = row->length;
      }
      if (wide) table.Row(std::move(cells));
    }
  }
  return table;
}

BenchmarkSection AttentionSection(const std::vector<Named>& rows) {
  const std::vector<Direction> directions = ByDirection(rows);
  const std::vector<double> lengths = Lengths(rows);
  BenchmarkSection section;
  section.title = "Attention by length";
  AddCharts(
      "Time", "milliseconds", directions, lengths, [](auto& row) { return row.milliseconds; }, section.charts);
  AddCharts(
      "Work memory", "MB", directions, lengths, [](auto& row) { return row.work_bytes / 1e6; }, section.charts);
  section.summary = SummaryByLength(directions, lengths);
  section.details.columns = {"",    "direction",      "tokens",  "median ms",     "p10",
                             "p90", "share of pairs", "work MB", "share of GEMM", "share of memory"};
  for (const auto& [line, row] : rows)
    section.details.Row({line, Spoken(row->direction), FormatNumber(row->length), FormatNumber(row->milliseconds),
                         FormatNumber(row->p10), FormatNumber(row->p90), Percent(row->pairs_fraction),
                         FormatNumber(row->work_bytes / 1e6, 3), Percent(row->gemm_share), Percent(row->memory_share)});
  return section;
}

// What the rows of models that differ in their layers alone are called: "dense, num_hidden_layers=6, reversible=true"
// without the number.
std::string WithoutLayers(std::string name) {
  const std::string key = "num_hidden_layers=", separators = ", ";
  for (size_t at = name.find(key); at != std::string::npos; at = name.find(key, at)) {
    size_t end = std::min(name.find_first_not_of("0123456789", at + key.size()), name.size());
    end = std::min(name.find_first_not_of(separators, end), name.size());
    name.erase(at, end - at);
  }
  name.erase(name.find_last_not_of(separators) + 1);
  return name;
}

// Activation memory over the layers, a line per kind of model and length; drawn where some line has two depths. Linear,
// from zero: whether memory grows with depth is the slope.
void AddLayerCharts(const std::vector<Direction>& directions, const std::vector<double>& lengths,
                    std::vector<LineChart>& charts) {
  for (const Direction& direction : directions) {
    std::map<std::pair<std::string, double>, size_t> line_of;
    std::set<double> depths;
    LineChart chart{Titled("Activation memory by depth", direction.name), {"layers"}, {"MB", false, {}, true}, {}};
    for (const Line& line : direction.lines) {
      for (const TimedRow* row : line.rows) {
        if (!std::isfinite(row->layers) || !std::isfinite(row->activation_bytes)) continue;
        const std::string kind = WithoutLayers(line.name);
        const size_t at = line_of.try_emplace({kind, row->length}, chart.series.size()).first->second;
        if (at == chart.series.size())
          chart.series.push_back(
              {lengths.size() > 1 ? fmt::format("{}, {} tokens", kind, FormatNumber(row->length)) : kind, {}});
        chart.series[at].points.emplace_back(row->layers, row->activation_bytes / 1e6);
        depths.insert(row->layers);
      }
    }
    bool deeper = false;
    for (Series& series : chart.series) {
      std::sort(series.points.begin(), series.points.end());
      deeper |= series.points.front().first < series.points.back().first;
    }
    chart.x.ticks = TicksAt({depths.begin(), depths.end()});
    if (deeper) charts.push_back(std::move(chart));
  }
}

BenchmarkSection ModelSection(const std::vector<Named>& rows) {
  const std::vector<Direction> directions = ByDirection(rows);
  const std::vector<double> lengths = Lengths(rows);
  BenchmarkSection section;
  section.title = "Models by length";
  AddCharts(
      "Time", "milliseconds", directions, lengths, [](auto& row) { return row.milliseconds; }, section.charts);
  AddCharts(
      "Speed", "tokens a second", directions, lengths, [](auto& row) { return row.tokens_per_second; }, section.charts);
  AddCharts(
      "Activation memory", "MB", directions, lengths, [](auto& row) { return row.activation_bytes / 1e6; },
      section.charts);
  AddLayerCharts(directions, lengths, section.charts);
  section.summary = SummaryByLength(directions, lengths);
  const auto known = [&](double TimedRow::*value) {
    return std::any_of(rows.begin(), rows.end(), [&](auto& named) { return std::isfinite(named.row->*value); });
  };
  const bool layers = known(&TimedRow::layers), memory = known(&TimedRow::activation_bytes);
  section.details.columns = {"", "direction", "tokens", "median ms", "p10", "p90", "tokens a second"};
  if (layers) section.details.columns.push_back("layers");
  if (memory) section.details.columns.push_back("activations MB");
  for (const auto& [line, row] : rows) {
    std::vector<std::string> cells{line,
                                   Spoken(row->direction),
                                   FormatNumber(row->length),
                                   FormatNumber(row->milliseconds),
                                   FormatNumber(row->p10),
                                   FormatNumber(row->p90),
                                   FormatNumber(row->tokens_per_second)};
    if (layers) cells.push_back(FormatNumber(row->layers));
    if (memory) cells.push_back(FormatNumber(row->activation_bytes / 1e6, 3));
    section.details.Row(std::move(cells));
  }
  return section;
}

BenchmarkSection ThroughputSection(const std::vector<Named>& rows) {
  BenchmarkSection section;
  section.title = "Throughput";
  BarChart chart{"tokens a second", "tokens a second", {""}, {}};
  section.summary.columns = {"", "seconds", "tokens a second"};
  for (const auto& [line, row] : rows) {
    chart.series.push_back({line, {row->tokens_per_second}});
    section.summary.Row({line, FormatNumber(row->milliseconds / 1e3), FormatNumber(row->tokens_per_second)});
  }
  section.bars.push_back(std::move(chart));
  return section;
}

}  // namespace

Benchmark ParseBenchmark(const Json& json, const std::string& path) {
  const std::string file = Shown(path, 120);
  if (!json.is_object() || !HasValue(json, "results") || !json["results"].is_array())
    Fail("{}: expected timings (the JSON of \"lshformer bench\" or of a peer): an object with the list \"results\"",
         file);
  Benchmark benchmark;
  if (HasValue(json, "machine") && json["machine"].is_object()) benchmark.machine = json["machine"];
  std::map<std::string, size_t> places;  // of what tells a row from the others
  for (const Json& json_row : json["results"]) {
    const size_t place = benchmark.rows.size();
    const TimedRow row = ParseRow(json_row, fmt::format("{}: \"results\"[{}]", file, place));
    const auto [first, added] = places.emplace(
        fmt::format("{}\n{}\n{}\n{}\n{}", row.name, row.direction, row.shape, row.length, row.layers), place);
    if (!added)
      Fail("{}: \"results\"[{}]: {} has been timed already at this length, in \"results\"[{}]", file, place,
           Shown(row.name, 60), first->second);
    benchmark.rows.push_back(row);
  }
  if (benchmark.rows.empty()) Fail("{}: \"results\" is empty", file);
  return benchmark;
}

std::vector<BenchmarkSection> BenchmarkSections(const std::vector<Benchmark>& benchmarks) {
  std::vector<BenchmarkSection> sections;
  for (const Kind kind : {Kind::kAttention, Kind::kModel, Kind::kThroughput}) {
    const std::vector<Named> rows = RowsOf(kind, benchmarks);
    if (rows.empty()) continue;
    sections.push_back(kind == Kind::kAttention ? AttentionSection(rows)
                       : kind == Kind::kModel   ? ModelSection(rows)
                                                : ThroughputSection(rows));
  }
  return sections;
}

}  // namespace lshformer
