// Timings of several files side by side: what `bench` prints, and what the scripts of peers print.
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"
#include "report/chart.h"
#include "report/table.h"

namespace lshformer {

struct TimedRow {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::string name, direction;  // direction "" where there is none
  std::string shape;            // "12 × 64", or "" where the file does not say
  double length = 0;            // tokens a sequence; 0: texts with lengths of their own
  double milliseconds = kUnknown, p10 = kUnknown, p90 = kUnknown;
  double pairs_fraction = kUnknown, work_bytes = kUnknown;
  double gemm_share = kUnknown, memory_share = kUnknown;
  double tokens_per_second = kUnknown;                    // known of whole models only
  double layers = kUnknown, activation_bytes = kUnknown;  // of training steps
};

struct Benchmark {
  std::string source;  // how a report calls the file or folder
  Json machine;        // {"cpu", "threads", …}, or null
  std::vector<TimedRow> rows;
};

// {"results": [{"name", "length", "direction", "median_ms", …}]}, as `bench --json` and peers' attention timings have
// them, or {"results": [{"name", "seconds", "tokens_per_second"}]}, as peers' encoders do. Error names file and row.
Benchmark ParseBenchmark(const Json& json, const std::string& path);

// One part of a report: rows of one kind from all files, with the same line (and colour) for the same name everywhere.
struct BenchmarkSection {
  std::string title;
  std::vector<LineChart> charts;
  std::vector<BarChart> bars;
  Table summary;  // a line per name, a column per length; of many lengths a line per row
  Table details;  // every row with all that is known of it; no lines where the summary says it all
};
// Attention operators by length, whole models by length, throughput on texts; only those that have rows.
std::vector<BenchmarkSection> BenchmarkSections(const std::vector<Benchmark>& benchmarks);

}  // namespace lshformer
