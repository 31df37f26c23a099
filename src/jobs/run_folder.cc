#include "jobs/run_folder.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "base/leftovers.h"
#include "base/logging.h"
#include "io/weight_files.h"
#include "train/checkpoint.h"
#include "train/options.h"
#include "train/tensorboard.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kArguments = "training_args.json";
constexpr const char* kSeeds = "seeds";  // in it: of a job with several runs
constexpr const char* kState = "trainer_state.json";
constexpr const char* kResults[] = {"train_results.json", "eval_results.json",      "all_results.json",
                                    "predictions.json",   "nbest_predictions.json", "null_odds.json"};

constexpr const char* kLengthOfRun[] = {"max_steps", "num_train_epochs"};

Effect EffectOf(const RunSettings& settings, const std::string& key) {
  const auto found = settings.effects.find(key);
  return found == settings.effects.end() ? Effect::kRun : found->second;
}

// Whether it has the first file that a run writes, and that is no other program's; or only what a run leaves that was
// killed while it wrote that file.
bool MadeHere(const std::string& folder) {
  if (HoldsRun(folder)) return true;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name != kLockFile && !IsTemporaryFile(name)) return false;
  }
  return true;
}

void RequireWritable(const std::string& folder) {
  MakeFolder(folder);
  try {
    AtomicFile(folder + "/" + kArguments).Flush();  // and never committed
  } catch (const Error& error) {
    Fail("{}: {}", OptionName{"output_dir"}, error.Spelled(kOptionMark));
  }
}

void RemoveLeftoversOfRun(const std::string& output_dir) {
  for (const std::string& folder : {output_dir, output_dir + "/" + kEventFolder}) RemoveLeftovers(folder);
}

// A run that begins anew deletes what an older one left, so what it is told to read must not lie there.
void RefuseInputsToBeDeleted(const std::string& output_dir, const std::string& flag, const Json& value) {
  if (value.is_array())
    for (const Json& item : value) RefuseInputsToBeDeleted(output_dir, flag, item);
  if (!value.is_string() || !value.get_ref<const std::string&>().starts_with('/')) return;
  const fs::path path = fs::path(value.get<std::string>()).lexically_relative(CanonicalPath(output_dir));
  const std::string first = path.empty() ? "" : path.begin()->string();
  const bool result = first == path && (first == kState || std::find(std::begin(kResults), std::end(kResults), first) !=
                                                               std::end(kResults));
  const bool event = first == kEventFolder && std::next(path.begin()) != path.end() &&
                     std::next(path.begin())->string().starts_with(kEventFilePrefix);
  if (result || event || IsCheckpointName(first))
    Fail("{} {}: would be deleted with the older run in {}; move it or give another {}", OptionName{flag},
         Shown(value.get<std::string>(), 120), OptionName{"output_dir"}, OptionName{"output_dir"});
}

// The settings of a finished run, null if the folder holds none.
Json FinishedSettings(const std::string& output_dir) {
  const std::string path = output_dir + "/" + kState;
  if (!fs::exists(path)) return nullptr;
  try {
    const WeightFiles whole(output_dir);  // an Error where the model is missing or cut off
    return ParseTrainerState(ReadJsonFile(path), path).run_settings;
  } catch (const Error& error) {
    spdlog::warn("{}; taken as not finished", error.what());
    return nullptr;
  }
}

// What an earlier run had; null where nothing tells.
Json Earlier(const Json& before, const RunSettings& now, const std::string& key) {
  return before.value(key, now.defaults.value(key, Json()));
}

// Every setting is as it was, or was asked for then and is not now, or would have been heeded by steps that are done.
bool NothingLeftToDo(const Json& before, const RunSettings& now) {
  for (const auto& [key, value] : now.values.items()) {
    const Effect effect = EffectOf(now, key);
    const bool of_steps = effect == Effect::kCourse && key != "max_steps" && key != "num_train_epochs";
    const bool needless = effect == Effect::kAfter && (value == false || value == "");
    if (!of_steps && !needless && Earlier(before, now, key) != value) return false;
  }
  return true;
}

// "--max_steps", or what is no flag: "training data".
std::string Called(const std::string& key) { return key.find(' ') == std::string::npos ? Marked(key) : key; }

// Of an option that was not given.
bool IsAbsent(const Json& value) { return value.is_null() || IsEmpty(value); }

std::string ShownSetting(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

void CheckSettings(const std::string& where, const Json& before, const RunSettings& now, bool finished) {
  for (const auto& [key, value] : now.values.items()) {
    const Effect effect = EffectOf(now, key);
    if (!before.contains(key) && !now.defaults.contains(key)) continue;
    const Json earlier = Earlier(before, now, key);
    if (earlier == value || effect == Effect::kAfter) continue;
    if (effect == Effect::kCourse) {
      Warn("{}: {} was made {}, now {}: {}", Called(key), where, SettingThen(Called(key), earlier),
           IsAbsent(value) ? "without" : ShownSetting(value),
           finished ? "it is finished and stays as it is" : "the result will not be that of one uninterrupted run");
    } else {
      const std::string named = key == "command" ? Marked("output_dir") : Called(key);
      FailUsage("{}: {} was made {}, {}; resume with the same, or start anew in another {}", named, where,
                SettingThen(named, earlier), SettingNow(named, value), OptionName{"output_dir"});
    }
  }
}

// A list of numbers is one text of its flag, "128,32"; a list of files is a flag that is given several times.
Json FlagValue(const Json& value) {
  const auto is_number = [](const Json& item) { return item.is_number(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_number)) return value;
  std::vector<std::string> numbers;
  for (const Json& number : value) numbers.push_back(number.dump());
  return fmt::format("{}", fmt::join(numbers, ","));
}

void AddFlags(const Json& settings, Json& flags) {
  for (const auto& [key, value] : settings.items()) {
    if (value.is_null() || value == "" || key == "command" || key.find(' ') != key.npos) continue;
    if (value.is_object()) {
      AddFlags(value, flags);  // "answers"
    } else if (!value.is_array() || !value.empty()) {
      flags[key] = FlagValue(value);
    }
  }
}

std::string FindCheckpoint(const RunFolder& folder) {
  if (folder.resume_from_checkpoint == "auto") {
    const std::string newest = NewestCheckpoint(folder.output_dir);
    if (newest.empty() && HasCheckpoints(folder.output_dir) && !folder.overwrite_output_dir)
      Fail("{} {}: has checkpoints, but none is complete; {} starts anew", OptionName{"output_dir"}, folder.output_dir,
           OptionName{"overwrite_output_dir"});
    return newest;
  }
  std::string path = folder.resume_from_checkpoint;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (!fs::is_directory(path))
    FailOption("resume_from_checkpoint", "expected \"auto\" or a checkpoint folder, got \"{}\"", path);
  const std::string reason = IncompleteReason(path);
  if (!reason.empty()) Fail("{} {}: not a complete checkpoint: {}", OptionName{"resume_from_checkpoint"}, path, reason);
  return path;
}

// Where a finished run released its optimizer's state, no step may be left to make.
void CheckStepsLeft(const std::string& checkpoint, const RunSettings& settings) {
  if (HasOptimizerState(checkpoint)) return;
  const std::string path = checkpoint + "/" + kState;
  const TrainerState state = ParseTrainerState(ReadJsonFile(path), path);
  const int64_t max_steps = settings.values.value("max_steps", int64_t{-1});  // where given, epochs decide nothing
  const bool same_length = std::all_of(std::begin(kLengthOfRun), std::end(kLengthOfRun), [&](const char* key) {
    return state.run_settings.value(key, Json()) == settings.values.value(key, Json());
  });
  const int64_t steps = max_steps > 0 ? max_steps : same_length ? state.max_steps : INT64_MAX;
  if (state.global_step >= steps) return;
  Fail(
      "{}: {} is a finished run's, which released the optimizer's state; only runs with {} or {} keep it for further "
      "steps",
      OptionName{"resume_from_checkpoint"}, checkpoint, OptionName{"save_steps"}, OptionName{"save_total_limit"});
}

}  // namespace

std::string SettingThen(const std::string& option, const Json& value, const std::string& before) {
  return IsAbsent(value) ? "without " + option : "with " + before + ShownSetting(value);
}

std::string SettingNow(const std::string& option, const Json& value) {
  return IsAbsent(value) ? "now without " + option : "got " + ShownSetting(value);
}

Json FlagsFromSettings(const Json& settings) {
  Json flags = Json::object();
  AddFlags(settings, flags);
  return flags;
}

bool HoldsRun(const std::string& folder) {
  const std::string path = folder + "/" + kArguments;
  return fs::exists(path) && !HasValue(ReadJsonFile(path), kSeeds);
}

void WriteSeedsArguments(const RunFolder& folder, const std::string& run) {
  Json flags = ReadJsonObject(run + "/" + kArguments);
  flags.erase("seed");
  flags[kSeeds] = FlagValue(folder.seeds);
  WriteFileAtomically(folder.output_dir + "/" + kArguments, flags.dump(2) + "\n");
}

void CheckOutputDir(const RunFolder& folder, bool (*made_here)(const std::string& output_dir)) {
  if (IsEmptyButForLock(folder.output_dir) || folder.overwrite_output_dir) return;
  if (folder.resume_from_checkpoint.empty())
    Fail("{} {}: not empty; {} replaces an older run, {} auto continues it", OptionName{"output_dir"},
         folder.output_dir, OptionName{"overwrite_output_dir"}, OptionName{"resume_from_checkpoint"});
  if (!made_here(folder.output_dir))
    Fail("{} {}: has files, but not of a training run to resume", OptionName{"output_dir"}, folder.output_dir);
}

RunStart OpenRunFolder(const RunFolder& folder, const RunSettings& settings, bool dry_run) {
  RunStart start;
  ValidateOptions(RunFolderTable(), folder);
  const bool resume = !folder.resume_from_checkpoint.empty();
  if (fs::exists(folder.output_dir) && !fs::is_directory(folder.output_dir))
    Fail("{} {}: exists and is not a folder", OptionName{"output_dir"}, folder.output_dir);
  if (!dry_run) start.lock = std::make_unique<FolderLock>(folder.output_dir, Marked("output_dir"));
  if (!dry_run && !start.lock->held())
    spdlog::info("{}: cannot be locked, so nothing keeps another run out of it", folder.output_dir);
  if (!dry_run) CheckOutputDir(folder, MadeHere);
  if (resume) {
    const Json before = FinishedSettings(folder.output_dir);
    start.was_finished = before.is_object();
    if (folder.resume_from_checkpoint == "auto" && before.is_object()) {
      start.finished = NothingLeftToDo(before, settings);
      CheckSettings(folder.output_dir, before, settings, start.finished);
      if (start.finished && !dry_run) RemoveLeftoversOfRun(folder.output_dir);
      if (start.finished) return start;
    }
    start.resume_from = FindCheckpoint(folder);
    if (!start.resume_from.empty()) {
      CheckSameRun(start.resume_from, settings);
      CheckStepsLeft(start.resume_from, settings);
    }
  }
  if (!dry_run && start.resume_from.empty())
    for (const auto& [flag, value] : settings.values.items()) RefuseInputsToBeDeleted(folder.output_dir, flag, value);
  if (!dry_run) RequireWritable(folder.output_dir);
  if (!dry_run && folder.report_to == "tensorboard") {
    // Before an older run is cleared away, not after.
    const fs::path events = fs::path(folder.output_dir) / kEventFolder;
    if (fs::is_symlink(events) ? !fs::is_directory(events) : fs::exists(events) && !fs::is_directory(events))
      Fail("{}: is no folder, TensorBoard's files go there; {} none writes none", events.string(),
           OptionName{"report_to"});
    if (fs::exists(events)) AtomicFile((events / ".probe").string()).Flush();  // and never committed
  }
  return start;
}

void CheckSameRun(const std::string& checkpoint, const RunSettings& settings) {
  const std::string path = checkpoint + "/" + kState;
  CheckSettings(checkpoint, ParseTrainerState(ReadJsonFile(path), path).run_settings, settings,
                /*finished=*/false);
}

int64_t StepsLeft(const std::string& checkpoint, int64_t steps, const char* length) {
  const std::string path = checkpoint + "/" + kState;
  const int64_t made = ParseTrainerState(ReadJsonFile(path), path).global_step;
  if (made > steps)
    FailOption(length, "asks for {} updates, but {} has made {}; go on from an earlier one, or start in another {}",
               steps, checkpoint, made, OptionName{"output_dir"});
  return steps - made;
}

void BeginRun(const RunFolder& folder, const RunStart& start, const Json& settings, const Json& more_flags) {
  MakeFolder(folder.output_dir);
  RemoveLeftoversOfRun(folder.output_dir);
  std::error_code ignored;
  // The state says "finished", so it goes first: killed in between, the run counts as unfinished.
  fs::remove(folder.output_dir + "/" + kState, ignored);
  for (const char* name : kResults) fs::remove(folder.output_dir + "/" + name, ignored);
  if (start.resume_from.empty()) {
    RemoveCheckpoints(folder.output_dir);
    // The curves of the replaced run would be drawn into those of the new one.
    for (fs::directory_iterator entry(folder.output_dir + "/" + kEventFolder, ignored), end; !ignored && entry != end;
         entry.increment(ignored)) {
      std::error_code kept;
      if (entry->path().filename().string().starts_with(kEventFilePrefix)) fs::remove(entry->path(), kept);
    }
  } else {
    RemovePartialCheckpoints(folder.output_dir);
  }
  Json flags = FlagsFromSettings(settings);
  flags.update(FlagsFromSettings(more_flags));
  WriteFileAtomically(folder.output_dir + "/" + kArguments, flags.dump(2) + "\n");
}

void FinishRun(const std::string& output_dir, const Json& train, const Json& eval, const Json& trainer_state) {
  Json all = train;
  if (eval.is_object()) all.update(eval);
  // HF writes sorted keys, indented by 4.
  const auto write = [&](const std::string& name, const Json& results) {
    WriteFileAtomically(output_dir + "/" + name, nlohmann::json(results).dump(4) + "\n");
  };
  write("train_results.json", train);
  if (eval.is_object()) write("eval_results.json", eval);
  write("all_results.json", all);
  WriteFileAtomically(output_dir + "/" + kState, trainer_state.dump(2) + "\n");
}

JobResult ReadFinishedRun(const std::string& output_dir) {
  JobResult result;
  result.output_dir = output_dir;
  result.finished_before = true;
  result.train = ReadJsonFile(output_dir + "/train_results.json");
  if (fs::exists(output_dir + "/eval_results.json")) result.eval = ReadJsonFile(output_dir + "/eval_results.json");
  result.log_history = FiguresOfEach(ReadJsonFile(output_dir + "/" + kState)["log_history"]);
  return result;
}

}  // namespace lshformer
