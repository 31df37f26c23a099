#include "report/benchmarks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"

namespace lshformer {
namespace {

enum class Kind { kAttention, kModel, kThroughput };

Kind KindOf(const TimedRow& row) {
  if (row.length == 0) return Kind::kThroughput;
  return std::isnan(row.tokens_per_second) ? Kind::kAttention : Kind::kModel;
}

bool IsNumber(const Json& row, const char* key) { return HasValue(row, key) && row[key].is_number(); }
double NumberOr(const Json& row, const char* key) {
  return IsNumber(row, key) ? row[key].get<double>() : TimedRow::kUnknown;
}
std::string TextOr(const Json& row, const char* key) {
  return HasValue(row, key) && row[key].is_string() ? row[key].get<std::string>() : "";
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
  constexpr size_t kLongestName = 100;
  row.name = Shown(row.name, kLongestName);  // no line breaks in a table
  const bool timed = IsNumber(json, "length") && IsNumber(json, "median_ms");
  if (!timed && !(IsNumber(json, "seconds") && IsNumber(json, "tokens_per_second")))
    Fail("{}: expected the numbers \"length\" and \"median_ms\", or \"seconds\" and \"tokens_per_second\"", where);
  row.direction = TextOr(json, "direction");
  row.shape = ShapeOf(json);
  row.length = timed ? GetNumber(json, "length", where) : 0;
  row.milliseconds = timed ? GetNumber(json, "median_ms", where) : 1000 * GetNumber(json, "seconds", where);
  row.p10 = NumberOr(json, "p10_ms");
  row.p90 = NumberOr(json, "p90_ms");
  row.pairs_fraction = NumberOr(json, "pairs_fraction");
  row.work_bytes = NumberOr(json, "work_bytes");
  row.gemm_share = NumberOr(json, "gemm_share");
  row.memory_share = NumberOr(json, "memory_share");
  row.tokens_per_second = NumberOr(json, "tokens_per_second");
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

template <class Value>
void AddOnce(std::vector<Value>& list, const Value& value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

std::vector<std::string> Lines(const std::vector<Named>& rows) {
  std::vector<std::string> lines;
  for (const Named& named : rows) AddOnce(lines, named.line);
  return lines;
}

std::vector<std::string> Directions(const std::vector<Named>& rows) {
  std::vector<std::string> directions;
  for (const Named& named : rows) AddOnce(directions, named.row->direction);
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

// Log-log, one line per name; lines without a value keep their place and so their colour. Nothing to draw: no chart.
template <class Value>
void AddChart(const std::string& title, const std::string& direction, const std::string& unit,
              const std::vector<Named>& rows, const Value& value, std::vector<LineChart>& charts) {
  LineChart chart{direction.empty() ? title : title + ", " + Spoken(direction), {"tokens", true}, {unit, true}, {}};
  constexpr size_t kMostTicks = 16;
  if (const std::vector<double> lengths = Lengths(rows); lengths.size() <= kMostTicks) chart.x.ticks = lengths;
  bool any = false;
  for (const std::string& line : Lines(rows)) {
    Series series{line, {}};
    for (const Named& named : rows) {
      const double y = value(*named.row);
      if (named.line != line || named.row->direction != direction || !std::isfinite(y)) continue;
      series.points.emplace_back(named.row->length, y);
      any = true;
    }
    std::sort(series.points.begin(), series.points.end());
    chart.series.push_back(std::move(series));
  }
  if (any) charts.push_back(std::move(chart));
}

std::string Percent(double share) { return std::isnan(share) ? "–" : FormatNumber(100 * share, 3) + " %"; }

// Milliseconds: a line per name, a column per length, a section per direction.
Table SummaryByLength(const std::vector<Named>& rows) {
  Table table{{"median ms"}, {}};
  const std::vector<double> lengths = Lengths(rows);
  for (const double length : lengths) table.columns.push_back(FormatNumber(length));
  for (const std::string& direction : Directions(rows)) {
    if (!direction.empty()) table.Section(Spoken(direction));
    for (const std::string& line : Lines(rows)) {
      std::vector<std::string> cells{line};
      bool any = false;
      for (const double length : lengths) {
        const auto at = std::find_if(rows.begin(), rows.end(), [&](const Named& named) {
          return named.line == line && named.row->direction == direction && named.row->length == length;
        });
        any |= at != rows.end();
        cells.push_back(FormatNumber(at == rows.end() ? TimedRow::kUnknown : at->row->milliseconds));
      }
      if (any) table.Row(std::move(cells));
    }
  }
  return table;
}

BenchmarkSection AttentionSection(const std::vector<Named>& rows) {
  BenchmarkSection section;
  section.title = "Attention by length";
  for (const std::string& direction : Directions(rows))
    AddChart(
        "Time", direction, "milliseconds", rows, [](auto& row) { return row.milliseconds; }, section.charts);
  for (const std::string& direction : Directions(rows))
    AddChart(
        "Work memory", direction, "MB", rows, [](auto& row) { return row.work_bytes / 1e6; }, section.charts);
  section.summary = SummaryByLength(rows);
  section.details.columns = {"",    "direction",      "tokens",  "median ms",     "p10",
                             "p90", "share of pairs", "work MB", "share of GEMM", "share of memory"};
  for (const auto& [line, row] : rows)
    section.details.Row({line, Spoken(row->direction), FormatNumber(row->length), FormatNumber(row->milliseconds),
                         FormatNumber(row->p10), FormatNumber(row->p90), Percent(row->pairs_fraction),
                         FormatNumber(row->work_bytes / 1e6, 3), Percent(row->gemm_share), Percent(row->memory_share)});
  return section;
}

BenchmarkSection ModelSection(const std::vector<Named>& rows) {
  BenchmarkSection section;
  section.title = "Models by length";
  for (const std::string& direction : Directions(rows))
    AddChart(
        "Time", direction, "milliseconds", rows, [](auto& row) { return row.milliseconds; }, section.charts);
  for (const std::string& direction : Directions(rows))
    AddChart(
        "Speed", direction, "tokens a second", rows, [](auto& row) { return row.tokens_per_second; }, section.charts);
  section.summary = SummaryByLength(rows);
  section.details.columns = {"", "direction", "tokens", "median ms", "p10", "p90", "tokens a second"};
  for (const auto& [line, row] : rows)
    section.details.Row({line, Spoken(row->direction), FormatNumber(row->length), FormatNumber(row->milliseconds),
                         FormatNumber(row->p10), FormatNumber(row->p90), FormatNumber(row->tokens_per_second)});
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
  for (const Json& row : json["results"])
    benchmark.rows.push_back(ParseRow(row, fmt::format("{}: \"results\"[{}]", file, benchmark.rows.size())));
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
