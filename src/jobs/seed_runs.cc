#include "jobs/seed_runs.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "io/gzip.h"
#include "jobs/seed_summary.h"
#include "report/runs.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

// Made by these commands: a run of one of the seeds is there, or nothing but what a lock leaves.
bool HoldsSeeds(const std::string& folder) {
  if (IsEmptyButForLock(folder)) return true;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unreadable;
    if (entry->path().filename().string().starts_with(kSeedPrefix) && entry->is_directory(unreadable)) return true;
  }
  return false;
}

void CheckFolder(const RunFolder& folder) {
  if (HoldsRun(folder.output_dir))
    Fail("{} {}: holds a single run; the runs of {} need a folder of their own", OptionName{"output_dir"},
         folder.output_dir, OptionName{"seeds"});
  CheckOutputDir(folder, HoldsSeeds);
}

}  // namespace

void RequireReadAgain(const std::vector<OptionFile>& files, std::string_view reader) {
  for (const auto& [option, path] : files)
    if (!path.empty() && !CanBeReadAgain(path))
      FailOption(option, "{} can be read only once, but {} reads it again; expected a regular file", InputName(path),
                 OptionName{reader});
}

JobResult RunSeeds(const RunFolder& folder, const std::string& metric, bool dry_run, const RunSeed& run) {
  ValidateOptions(RunFolderTable(), folder);
  const std::string& output_dir = folder.output_dir;
  if (!folder.resume_from_checkpoint.empty() && folder.resume_from_checkpoint != "auto")
    FailOption("resume_from_checkpoint", "expected auto beside {}, whose runs each have checkpoints of their own",
               OptionName{"seeds"});
  const auto run_one = [&](uint64_t seed) {
    RunFolder own = folder;
    own.output_dir = SeedFolder(output_dir, seed);
    own.seeds.clear();
    return run(own, seed);
  };
  JobResult all;
  all.output_dir = output_dir;
  if (dry_run) {
    Json plan = run_one(folder.seeds.front()).plan;
    plan["runs"] = folder.seeds.size();
    all.plan = plan;
    return all;
  }
  if (fs::exists(output_dir) && !fs::is_directory(output_dir))
    Fail("{} {}: exists and is not a folder", OptionName{"output_dir"}, output_dir);
  const FolderLock lock(output_dir, Marked("output_dir"));
  CheckFolder(folder);
  const std::string path = output_dir + "/all_results.json";
  std::vector<SeedResult> results;
  all.finished_before = true;
  for (const uint64_t seed : folder.seeds) {
    const JobResult result = run_one(seed);
    if (!result.finished_before) {
      std::error_code ignored;
      fs::remove(path, ignored);
      all.finished_before = false;
    }
    SeedResult& kept = results.emplace_back(SeedResult{seed, result.train});
    if (!result.eval.empty()) kept.metrics.update(Json(result.eval));
  }
  WriteSeedsArguments(folder, SeedFolder(output_dir, folder.seeds.front()));
  all.summary = SummarizeSeeds(results, metric, output_dir);
  WriteFileAtomically(path, nlohmann::json(all.summary).dump(4) + "\n");
  return all;
}

}  // namespace lshformer
