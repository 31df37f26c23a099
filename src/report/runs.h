// What a finished (or running) run left on disk, and the page that compares several of them.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "report/benchmarks.h"
#include "report/table.h"

namespace lshformer {

// A point of a curve: (step, value).
using Curve = std::vector<std::pair<double, double>>;

struct RunRecord {
  std::string name;  // last part of the path, made unique among the runs of a report
  std::string path;
  std::string attention;                                // "dense", "simhash", or "" where there is no config
  Json config;                                          // config.json, or null
  std::vector<std::pair<std::string, double>> results;  // *_results.json, in the order of their files; a key once
  std::vector<std::pair<std::string, Curve>>
      curves;                         // log_history of trainer_state.json by key, in order of appearance
  std::vector<Benchmark> benchmarks;  // bench*.json
};

// Where a job with several seeds keeps the run of one: DIR/seed-N.
inline constexpr const char* kSeedPrefix = "seed-";
std::string SeedFolder(const std::string& output_dir, uint64_t seed);

// `path` is a run folder (trainer_state.json, *_results.json, config.json, bench*.json; at least one of the first two
// or a benchmark) or the JSON file of a benchmark, ours or a peer's. Error names the file at fault.
RunRecord ReadRun(const std::string& path);
// All of them; of a job with several seeds its runs, for each of "seeds" in all_results.json. Names that would be equal
// get the folders above them in front.
std::vector<RunRecord> ReadRuns(const std::vector<std::string>& paths);

// What to print on a terminal: ResultsTable where a run has results, and the summaries of the benchmarks.
std::vector<Table> SummaryTables(const std::vector<RunRecord>& runs);

// Results side by side: a line per metric, a column per run with results, the best of a line stressed where all models
// have the same head (config.json's "architectures").
Table ResultsTable(const std::vector<RunRecord>& runs);

// Results, curves laid over one another, all benchmarks' timings by length, and where the configs differ.
std::string RunsPage(const std::vector<RunRecord>& runs, const std::string& title);

}  // namespace lshformer
