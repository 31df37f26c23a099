// What is known of a run that was started, in OUTPUT/runs/KEY.json: its command, by which program on which machine, and
// whether it is finished. Results are trusted where this says so.
#pragma once
#include <cstdint>
#include <string>

#include "base/json.h"
#include "jobs/recipes/plan.h"

namespace lshformer {

struct RunEntry {
  bool started = false;  // an entry is there
  bool finished = false;
  std::string version, commit;              // of the program
  Json machine = Json::object();            // {"cpu", "cores", "threads", "isa"}
  Json flags = Json::object();              // of the command
  int64_t started_at = 0, finished_at = 0;  // seconds since 1970
};

std::string EntryPath(const RecipeRun& run, const ReproduceOptions& options);
std::string LogPath(const RecipeRun& run, const ReproduceOptions& options);

// Not started where there is none. Error where it cannot be read as a whole, or is another version's.
RunEntry ReadEntry(const RecipeRun& run, const ReproduceOptions& options);
// `commit` of the program that runs: "" where it is not known.
RunEntry NewEntry(const RecipeRun& run, const std::string& commit);
void WriteEntry(const RecipeRun& run, const RunEntry& entry, const ReproduceOptions& options);

// "2026-01-31T12:00:00Z"
std::string TimeText(int64_t seconds);

}  // namespace lshformer
