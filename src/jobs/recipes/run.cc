#include "jobs/recipes/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/folder_lock.h"
#include "base/logging.h"
#include "base/signals.h"
#include "jobs/recipes/entry.h"
#include "jobs/recipes/process.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

std::string FolderOf(const RecipeRun& run, const ReproduceOptions& options) {
  return RunsFolder(options) + "/" + run.key;
}

bool Resumes(const RecipeRun& run) { return run.flags.contains("resume_from_checkpoint"); }

// What the command leaves last.
bool HasResult(const RecipeRun& run, const ReproduceOptions& options) {
  std::error_code error;
  if (run.command == "info" || run.command.starts_with("bench ")) return fs::exists(LogPath(run, options), error);
  const char* last = Resumes(run)                       ? "/all_results.json"
                     : run.command == "evaluate"        ? "/eval_results.json"
                     : run.command == "tokenizer train" ? "/tokenizer_config.json"
                     : run.command == "convert"         ? "/convert_report.json"
                                                        : "";
  return fs::exists(run.result + last, error);
}

// A disk that is all but full makes every command fail in words of its own; here it is said once.
void RequireSpace(const std::string& folder) {
  constexpr uintmax_t kLeast = uintmax_t{16} << 20;
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (!error && space.available < kLeast)
    Fail("{}: {:.1f} MB of disk space are left, {:.0f} are the least to begin a run with", folder,
         static_cast<double>(space.available) / (1 << 20), static_cast<double>(kLeast) / (1 << 20));
}

// What a command that cannot go on has left half done would be in its way.
void RemoveHalf(const RecipeRun& run, const RunEntry& entry, const ReproduceOptions& options) {
  if (!entry.started || Resumes(run)) return;
  std::error_code error;
  fs::remove_all(FolderOf(run, options), error);
  if (error) Fail("{}: {}", FolderOf(run, options), error.message());
}

std::vector<std::string> WordsOf(const RecipeRun& run, const std::string& flags, const ReproduceOptions& options) {
  std::vector<std::string> words = run.CommandWords();
  words.insert(words.begin(), fs::read_symlink("/proc/self/exe").string());
  words.push_back(flags);
  for (const std::string& word : run.Positionals()) words.push_back(word);
  words.insert(words.end(), options.common_flags.begin(), options.common_flags.end());
  return words;
}

void RunOne(const RecipeRun& run, const ReproduceOptions& options, const std::string& commit) {
  const std::string folder = FolderOf(run, options), flags = folder + ".flags.json", log = LogPath(run, options);
  FolderLock(folder, Marked("output_dir"));  // where another process is at work, its flags and log stay as they are
  RequireSpace(options.output_dir);
  RemoveHalf(run, ReadEntry(run, options), options);
  if (const std::string of_file = FolderOfFile(run); !of_file.empty()) MakeFolder(of_file);
  RunEntry entry = NewEntry(run, commit);
  WriteFileAtomically(flags, run.Flags().dump(2) + "\n");
  WriteEntry(run, entry, options);
  const auto [status, error] = RunProcess(WordsOf(run, flags, options), log);
  ThrowIfStopped("reproduce");
  if (status != 0)
    Fail("{}: {}{}lshformer {} ended with status {}; its output is {}", run.name, error, error.empty() ? "" : "; ",
         run.command, status, log);
  entry.finished = true;
  entry.finished_at = std::time(nullptr);
  WriteEntry(run, entry, options);
}

// Processes that share a folder, rows of one table on a core each, take different runs. A step of another process is
// waited for.
std::unique_ptr<const FolderLock> Lock(const RecipeRun& run, const ReproduceOptions& options) {
  constexpr auto kPause = std::chrono::milliseconds(200);
  const std::string folder = FolderOf(run, options);
  for (bool told = false;; told = true) {
    try {
      return std::make_unique<const FolderLock>(folder + ".lock", Marked("output_dir"), folder);
    } catch (const FolderInUse&) {
      if (!run.is_step) throw;
    }
    if (!told) Warn("{}: another process is making it, and is waited for", run.name);
    std::this_thread::sleep_for(kPause);
    ThrowIfStopped("reproduce");
  }
}

}  // namespace

bool IsFinished(const RecipePlan& plan, const RecipeRun& run, const ReproduceOptions& options) {
  const RunEntry entry = ReadEntry(run, options);
  if (!entry.finished || entry.flags != run.flags || !HasResult(run, options)) return false;
  return std::none_of(run.needs.begin(), run.needs.end(), [&](const std::string& key) {
    return ReadEntry(plan.run(key), options).finished_at > entry.finished_at;
  });
}

void CheckEntries(const RecipePlan& plan, const ReproduceOptions& options) {
  for (const RecipeRun& run : plan.runs) ReadEntry(run, options);
}

void RunPlan(const RecipePlan& plan, const ReproduceOptions& options, const std::string& commit,
             const std::function<void(const RecipeRun& run)>& begins) {
  MakeFolder(RunsFolder(options));
  for (const RecipeRun& run : plan.runs) {
    ThrowIfStopped("reproduce");
    const std::unique_ptr<const FolderLock> lock = Lock(run, options);
    if (IsFinished(plan, run, options)) continue;
    if (begins) begins(run);
    RunOne(run, options, commit);
  }
}

}  // namespace lshformer
