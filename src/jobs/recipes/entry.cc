#include "jobs/recipes/entry.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/parallel.h"
#include "jobs/build_info.h"
#include "kernels/isa.h"
#include "lshformer/version.h"

namespace lshformer {

std::string EntryPath(const RecipeRun& run, const ReproduceOptions& options) {
  return fmt::format("{}/{}.json", RunsFolder(options), run.key);
}

std::string LogPath(const RecipeRun& run, const ReproduceOptions& options) {
  return fmt::format("{}/{}.log", RunsFolder(options), run.key);
}

RunEntry ReadEntry(const RecipeRun& run, const ReproduceOptions& options) {
  const std::string path = EntryPath(run, options);
  RunEntry entry;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return entry;
  try {
    const Json json = ReadJsonObject(path);
    const Json& program = json.at("lshformer");
    entry.started = true;
    entry.version = GetString(program, "version", path);
    entry.commit = GetString(program, "commit", path);
    entry.machine = json.at("machine");
    entry.flags = json.at("flags");
    entry.started_at = GetInt(json, "started_at", path);
    entry.finished = HasValue(json, "finished_at");
    if (entry.finished) entry.finished_at = GetInt(json, "finished_at", path);
  } catch (const std::exception&) {
    Fail("{}: is no whole entry of a run; remove it, and the run is made again", path);
  }
  if (entry.version != LSHFORMER_VERSION)
    Fail("{}: the run was made by lshformer {}, and this is {}; remove {} or give another {}", path, entry.version,
         LSHFORMER_VERSION, RunsFolder(options), OptionName{"output_dir"});
  return entry;
}

RunEntry NewEntry(const RecipeRun& run, const std::string& commit) {
  RunEntry entry;
  entry.started = true;
  entry.version = LSHFORMER_VERSION;
  entry.commit = commit;
  entry.machine = Json{{"cpu", CpuName()}, {"cores", HardwareThreads()}, {"threads", Threads()}, {"isa", ActiveIsa()}};
  entry.flags = run.flags;
  entry.started_at = std::time(nullptr);
  return entry;
}

void WriteEntry(const RecipeRun& run, const RunEntry& entry, const ReproduceOptions& options) {
  Json json{{"command", CommandLine(run)},
            {"lshformer", {{"version", entry.version}, {"commit", entry.commit}}},
            {"machine", entry.machine},
            {"flags", entry.flags},
            {"started_at", entry.started_at}};
  if (entry.finished) json["finished_at"] = entry.finished_at;
  WriteFileAtomically(EntryPath(run, options), json.dump(2) + "\n");
}

std::string TimeText(int64_t seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

}  // namespace lshformer
