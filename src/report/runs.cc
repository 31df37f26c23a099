#include "report/runs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "attention/spec.h"
#include "base/error.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

bool StartsWith(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }
bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void AddResults(const Json& json, const std::string& path, RunRecord& run) {
  if (!json.is_object()) {
    Fail("{}: expected an object of metrics, got {}", path, json.type_name());
  }
  for (const auto& [key, value] : json.items()) {
    const bool known = std::any_of(run.results.begin(), run.results.end(),
                                   [&k = key](const auto& result) { return result.first == k; });
    if (value.is_number() && !known) {
      run.results.emplace_back(key, value.get<double>());
    }
  }
}

void AddCurves(const Json& state, const std::string& path, RunRecord& run) {
  if (!state.is_object() || !HasValue(state, "log_history") || !state["log_history"].is_array()) {
    Fail("{}: expected an object with the list \"log_history\"", path);
  }
  for (const Json& entry : state["log_history"]) {
    if (!entry.is_object() || !HasValue(entry, "step") || !entry["step"].is_number()) {
      Fail("{}: an entry of \"log_history\" has no number \"step\"", path);
    }
    const double step = entry["step"].get<double>();
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_number() || key == "step" || key == "epoch" || key == "total_flos") {
        continue;
      }
      auto curve =
          std::find_if(run.curves.begin(), run.curves.end(), [&k = key](const auto& c) { return c.first == k; });
      if (curve == run.curves.end()) {
        curve = run.curves.insert(run.curves.end(), {key, {}});
      }
      curve->second.emplace_back(step, value.get<double>());
    }
  }
}

std::string AttentionOf(const Json& config, const std::string& path) {
  if (!HasValue(config, "attention")) {
    return "dense";
  }
  const Json& attention = config["attention"];
  const Json& first = attention.is_array() && !attention.empty() ? attention[0] : attention;
  std::string name = Name(ParseAttentionSpec(first, path));
  const bool mixed = attention.is_array() && std::any_of(attention.begin(), attention.end(), [&](const Json& layer) {
                       return !SameKind(ParseAttentionSpec(layer, path), ParseAttentionSpec(first, path));
                     });
  return mixed ? "mixed" : name;
}

void ReadFolder(RunRecord& run) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(run.path, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->is_regular_file(error)) {
      files.push_back(entry->path().filename().string());
    }
  }
  if (error) {
    Fail("{}: {}", run.path, error.message());
  }
  // train before eval before the rest: the order in which a person reads them.
  const auto rank = [](const std::string& name) {
    return StartsWith(name, "train_") ? 0 : StartsWith(name, "eval_") ? 1 : StartsWith(name, "all_") ? 3 : 2;
  };
  std::sort(files.begin(), files.end(),
            [&](const auto& a, const auto& b) { return std::pair(rank(a), a) < std::pair(rank(b), b); });
  bool found = false;
  for (const std::string& file : files) {
    const std::string path = (fs::path(run.path) / file).string();
    if (EndsWith(file, "_results.json")) {
      AddResults(ReadJsonFile(path), path, run);
    } else if (file == "trainer_state.json") {
      AddCurves(ReadJsonFile(path), path, run);
    } else if (StartsWith(file, "bench") && EndsWith(file, ".json")) {
      run.benchmarks.push_back(ParseBenchmark(ReadJsonFile(path), path));
    } else {
      continue;
    }
    found = true;
  }
  if (!found) {
    Fail("{}: not a run folder: it has no trainer_state.json, *_results.json or bench*.json", run.path);
  }
  if (std::find(files.begin(), files.end(), "config.json") != files.end()) {
    const std::string path = (fs::path(run.path) / "config.json").string();
    run.config = ReadJsonFile(path);
    if (!run.config.is_object()) {
      Fail("{}: expected an object, got {}", path, run.config.type_name());
    }
    run.attention = AttentionOf(run.config, path);
  }
}

fs::path Normal(const std::string& path) {
  fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

// The last `parts` parts of the path.
std::string Tail(const std::string& path, int parts) {
  fs::path rest = Normal(path), tail;
  for (int i = 0; i < parts && rest.has_filename(); ++i) {
    tail = tail.empty() ? rest.filename() : rest.filename() / tail;
    rest = rest.parent_path();
  }
  return tail.empty() ? path : tail.string();
}

// A folder of several seeds stands for its runs.
std::vector<std::string> WithRunsOfSeeds(const std::vector<std::string>& paths) {
  std::vector<std::string> all;
  for (const std::string& path : paths) {
    const fs::path summary = fs::path(path) / "all_results.json";
    std::error_code error;
    const Json results = fs::is_regular_file(summary, error) ? ReadJsonFile(summary.string()) : Json();
    if (!results.is_object() || !HasValue(results, "seeds") || !results["seeds"].is_array()) {
      all.push_back(path);
      continue;
    }
    for (const Json& seed : results["seeds"]) {
      if (!seed.is_number_unsigned()) Fail("{}: \"seeds\": expected seeds, got {}", summary.string(), ShownValue(seed));
      all.push_back(SeedFolder(path, seed.get<uint64_t>()));
    }
  }
  return all;
}

}  // namespace

std::string SeedFolder(const std::string& output_dir, uint64_t seed) {
  return (fs::path(output_dir) / fmt::format("{}{}", kSeedPrefix, seed)).string();
}

RunRecord ReadRun(const std::string& path) {
  RunRecord run;
  run.path = path;
  run.name = Tail(path, 1);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    Fail("{}: no such run folder", path);
  }
  if (fs::is_directory(status)) {
    ReadFolder(run);
  } else {
    run.benchmarks.push_back(ParseBenchmark(ReadJsonFile(path), path));
  }
  return run;
}

std::vector<RunRecord> ReadRuns(const std::vector<std::string>& paths) {
  std::vector<RunRecord> runs;
  for (const std::string& path : WithRunsOfSeeds(paths)) {
    runs.push_back(ReadRun(path));
  }
  constexpr int kDeepest = 16;
  for (int parts = 1; parts <= kDeepest; ++parts) {
    std::multiset<std::string> names;
    for (const RunRecord& run : runs) {
      names.insert(run.name);
    }
    for (RunRecord& run : runs) {
      if (names.count(run.name) > 1) {
        run.name = Tail(run.path, parts + 1);
      }
    }
  }
  for (RunRecord& run : runs) {
    // A folder may hold several.
    for (size_t i = 0; i < run.benchmarks.size(); ++i) {
      run.benchmarks[i].source = i == 0 ? run.name : fmt::format("{} {}", run.name, i + 1);
    }
  }
  return runs;
}

}  // namespace lshformer
