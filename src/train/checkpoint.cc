#include "train/checkpoint.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "io/safetensors.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kPartial = ".partial";

std::string CheckpointName(int64_t step) { return std::string(kPrefix) + std::to_string(step); }

// "checkpoint-120" → 120
std::optional<int64_t> StepOf(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

bool IsPartial(std::string_view name) { return name.starts_with(".checkpoint-") && name.ends_with(kPartial); }

std::vector<fs::path> Entries(const std::string& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    entries.push_back(entry->path());
  return entries;
}

// Ascending by step.
std::vector<std::pair<int64_t, std::string>> Checkpoints(const std::string& output_dir) {
  std::vector<std::pair<int64_t, std::string>> found;
  for (const fs::path& entry : Entries(output_dir)) {
    const auto step = StepOf(entry.filename().string());
    if (step && fs::is_directory(entry)) found.emplace_back(*step, entry.string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void SyncFolder(const std::string& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) Fail("{}: cannot be opened: {}", folder, std::strerror(errno));
  // Some network file systems cannot sync a folder; they say so, and nothing better can be done there.
  const bool failed = fsync(file) != 0 && errno != EINVAL && errno != ENOTSUP;
  const int cause = errno;
  close(file);
  if (failed) Fail("{}: cannot be written: {}", folder, std::strerror(cause));
}

void Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) Fail("{}: cannot be renamed to {}: {}", from, to, error.message());
}

// First out of sight, then away: a half-deleted checkpoint never looks like one.
void RemoveCheckpoint(const std::string& folder) {
  const fs::path path(folder);
  const std::string hidden =
      fmt::format("{}/.{}.old{}", path.parent_path().string(), path.filename().string(), kPartial);
  std::error_code ignored;
  fs::remove_all(hidden, ignored);
  Rename(folder, hidden);
  fs::remove_all(hidden, ignored);
}

// `from` takes the place of `to` in one instant, so that a kill never finds neither. Where the file system cannot
// exchange two folders, there is a moment without.
void Replace(const std::string& from, const std::string& to) {
  if (!fs::exists(to)) return Rename(from, to);
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    std::error_code ignored;
    fs::remove_all(from, ignored);
    return;
  }
  RemoveCheckpoint(to);
  Rename(from, to);
}

TensorView ViewOf(const torch::Tensor& tensor) {
  TensorView view;
  view.dtype = DType::kF32;
  view.shape = tensor.sizes().vec();
  view.bytes = {static_cast<const std::byte*>(tensor.data_ptr()), static_cast<size_t>(tensor.numel()) * sizeof(float)};
  return view;
}

void CopyInto(const NamedTensors& tensors, const SafetensorsFile& file) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    const std::vector<int64_t> shape = tensor.sizes().vec();
    const TensorView& view = file.Get(name, DType::kF32, shape);
    std::memcpy(tensor.data_ptr(), view.bytes.data(), view.bytes.size());
    tensor.unsafeGetTensorImpl()->bump_version();  // a packed copy of the weight is out of date
  }
}

// A model's weights out of its file, which names those of a model without a head otherwise than the model does.
void CopyWeights(Model& model, const std::string& folder) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : model.NamedParameters()) tensors.emplace_back(FileWeightName(model, name), tensor);
  CopyInto(tensors, SafetensorsFile(folder + "/model.safetensors"));
}

std::string OptimizerPath(const std::string& folder) { return folder + "/optimizer.safetensors"; }

void WriteOptimizer(const std::string& folder, const CheckpointParts& parts) {
  const Optimizer& optimizer = parts.optimizer;
  const TrainingOptions& options = parts.options;
  std::vector<NamedTensor> tensors;
  const NamedTensors state = optimizer.State();
  for (const NamedTensors* list : {&state, &parts.more_state})
    for (const auto& [name, tensor] : *list) tensors.push_back({name, ViewOf(tensor)});
  WriteSafetensors(OptimizerPath(folder), tensors, {{"format", "pt"}});
  Json json = {{"type", Name(options.optim)}, {"steps", optimizer.steps()}};
  if (options.optim == OptimizerType::kAdadelta) {
    json.update({{"adadelta_rho", options.adadelta_rho}, {"adadelta_epsilon", options.adadelta_epsilon}});
  } else {
    json.update({{"adam_beta1", options.adam_beta1},
                 {"adam_beta2", options.adam_beta2},
                 {"adam_epsilon", options.adam_epsilon}});
  }
  json["weight_decay"] = options.weight_decay;
  WriteFileAtomically(folder + "/optimizer.json", json.dump(2) + "\n");
}

// Deletes checkpoints of later steps than the one just written, and the oldest beyond save_total_limit.
void RemoveOutdated(const std::string& output_dir, const CheckpointParts& parts) {
  const int64_t step = parts.state.global_step;
  auto all = Checkpoints(output_dir);
  if (std::none_of(all.begin(), all.end(), [&](const auto& checkpoint) { return checkpoint.first == step; }))
    Fail("{}/{}: vanished right after it was written; does another program delete files there?", output_dir,
         CheckpointName(step));
  // Later steps are of a course that was left by resuming before them; "the newest" must not mean them.
  for (; all.back().first > step; all.pop_back()) RemoveCheckpoint(all.back().second);
  RemoveOldCheckpoints(output_dir, parts.state, parts.options.save_total_limit);
}

}  // namespace

Json ToJson(const TrainerState& state, const TrainingOptions& options) {
  const bool best = state.best_global_step > 0;
  return {{"best_global_step", best ? Json(state.best_global_step) : Json()},
          {"best_metric", best ? Json(state.best_metric) : Json()},
          {"best_model_checkpoint", best ? Json(CheckpointName(state.best_global_step)) : Json()},
          {"epoch", state.epoch},
          {"eval_steps", options.eval_steps > 0 ? options.eval_steps : options.logging_steps},
          {"global_step", state.global_step},
          {"is_hyper_param_search", false},
          {"is_local_process_zero", true},
          {"is_world_process_zero", true},
          {"log_history", state.log_history},
          {"logging_steps", options.logging_steps},
          {"max_steps", state.max_steps},
          {"num_input_tokens_seen", state.tokens_seen},
          {"num_train_epochs", options.num_train_epochs},
          {"save_steps", options.save_steps},
          {"stateful_callbacks", Json::object()},
          {"total_flos", state.total_flos},
          {"train_batch_size", options.per_device_train_batch_size},
          {"trial_name", nullptr},
          {"trial_params", nullptr},
          {"lshformer",
           {{"loss_sum", state.loss_sum},
            {"logged_loss_sum", state.logged_loss_sum},
            {"logged_step", state.logged_step},
            {"train_runtime", state.train_runtime},
            {"train_samples", state.train_samples},
            {"threads", state.threads},
            {"run_settings", state.run_settings}}}};
}

TrainerState ParseTrainerState(const Json& json, std::string_view where) {
  TrainerState state;
  state.global_step = GetInt(json, "global_step", where, 0);
  state.max_steps = GetInt(json, "max_steps", where, 0);
  state.epoch = GetNumber(json, "epoch", where);
  state.total_flos = GetNumber(json, "total_flos", where);
  state.tokens_seen = GetInt(json, "num_input_tokens_seen", where, 0);
  if (HasValue(json, "best_global_step")) {
    state.best_global_step = GetInt(json, "best_global_step", where, 0);
    state.best_metric = GetNumber(json, "best_metric", where);
  }
  if (!json.contains("log_history") || !json["log_history"].is_array())
    Fail("{}: \"log_history\": expected an array", where);
  state.log_history = json["log_history"];
  if (!json.contains("lshformer") || !json["lshformer"].is_object())
    Fail("{}: \"lshformer\": missing, so another program wrote this; start from its weights with {}", where,
         OptionName{"model_name_or_path"});
  const Json& own = json["lshformer"];
  state.loss_sum = GetNumber(own, "loss_sum", where);
  state.logged_loss_sum = GetNumber(own, "logged_loss_sum", where);
  state.logged_step = GetInt(own, "logged_step", where, 0);
  state.train_runtime = GetNumber(own, "train_runtime", where);
  state.train_samples = GetInt(own, "train_samples", where, 0);
  state.threads = static_cast<int>(GetInt(own, "threads", where, 0, 1 << 20));
  if (own.contains("run_settings") && own["run_settings"].is_object()) state.run_settings = own["run_settings"];
  return state;
}

std::string SaveCheckpoint(const std::string& output_dir, const CheckpointParts& parts) {
  const std::string name = CheckpointName(parts.state.global_step);
  const std::string folder = output_dir + "/" + name;
  const std::string partial = output_dir + "/." + name + std::string(kPartial);
  std::error_code ignored;
  fs::remove_all(partial, ignored);
  try {
    MakeFolder(partial);
    SaveModel(parts.model, partial);
    if (parts.save_extra) parts.save_extra(partial);
    WriteOptimizer(partial, parts);
    WriteFileAtomically(partial + "/trainer_state.json", ToJson(parts.state, parts.options).dump(2) + "\n");
    SyncFolder(partial);
    Replace(partial, folder);
  } catch (...) {
    fs::remove_all(partial, ignored);
    throw;
  }
  SyncFolder(output_dir);
  RemoveOutdated(output_dir, parts);
  return folder;
}

void RemoveOldCheckpoints(const std::string& output_dir, const TrainerState& state, int limit) {
  auto all = Checkpoints(output_dir);
  std::erase_if(all, [&](const auto& checkpoint) { return checkpoint.first > state.global_step; });
  if (limit == 0 || all.empty() || all.back().first != state.global_step) return;
  for (size_t i = 0; i + static_cast<size_t>(limit) < all.size(); ++i)
    if (all[i].first != state.best_global_step) RemoveCheckpoint(all[i].second);
}

TrainerState LoadCheckpoint(const std::string& folder, Model& model, Optimizer& optimizer,
                            const NamedTensors& more_state) {
  const std::string state_path = folder + "/trainer_state.json", optimizer_path = folder + "/optimizer.json";
  TrainerState state = ParseTrainerState(ReadJsonFile(state_path), state_path);
  const int64_t steps = GetInt(ReadJsonFile(optimizer_path), "steps", optimizer_path, 0);
  CopyWeights(model, folder);
  optimizer.set_steps(steps);
  if (!HasOptimizerState(folder)) return state;
  const SafetensorsFile optimizer_file(OptimizerPath(folder));
  CopyInto(optimizer.State(), optimizer_file);
  CopyInto(more_state, optimizer_file);
  return state;
}

std::string BestCheckpoint(const std::string& output_dir, const TrainerState& state) {
  return output_dir + "/" + CheckpointName(state.best_global_step);
}

void LoadBestModel(const std::string& output_dir, const TrainerState& state, Model& model) {
  CopyWeights(model, BestCheckpoint(output_dir, state));
}

std::string IncompleteReason(const std::string& folder) {
  try {
    for (const char* name : {"config.json", "optimizer.json"}) ReadJsonFile(folder + "/" + name);
    SafetensorsFile(folder + "/model.safetensors");
    if (HasOptimizerState(folder)) SafetensorsFile{OptimizerPath(folder)};
    const std::string path = folder + "/trainer_state.json";
    const TrainerState state = ParseTrainerState(ReadJsonFile(path), path);
    const auto step = StepOf(fs::path(folder).filename().string());
    if (step && *step != state.global_step) Fail("{}: global_step is {}", path, state.global_step);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void ReleaseOptimizerStates(const std::string& output_dir) {
  for (const auto& [step, folder] : Checkpoints(output_dir)) {
    const std::string path = folder + "/optimizer.json";
    try {
      Json json = ReadJsonFile(path);
      if (!json.is_object()) continue;
      json["released"] = true;  // first: killed in between, the checkpoint is still known for what it is
      WriteFileAtomically(path, json.dump(2) + "\n");
    } catch (const Error&) {
      continue;  // damaged, or a folder that cannot be written: all of it stays
    }
    std::error_code ignored;
    fs::remove(OptimizerPath(folder), ignored);
  }
}

bool HasOptimizerState(const std::string& folder) {
  const Json json = ReadJsonFile(folder + "/optimizer.json");
  return !json.is_object() || json.value("released", Json()) != true;
}

std::string NewestCheckpoint(const std::string& output_dir) {
  auto found = Checkpoints(output_dir);
  for (auto checkpoint = found.rbegin(); checkpoint != found.rend(); ++checkpoint) {
    const std::string reason = IncompleteReason(checkpoint->second);
    if (reason.empty()) return checkpoint->second;
    spdlog::warn("{}: skipped, it is not complete ({})", checkpoint->second, reason);
  }
  return "";
}

bool IsCheckpointName(std::string_view name) { return StepOf(name).has_value(); }

bool HasCheckpoints(const std::string& output_dir) { return !Checkpoints(output_dir).empty(); }

void RemoveCheckpoints(const std::string& output_dir) {
  for (const auto& [step, folder] : Checkpoints(output_dir)) RemoveCheckpoint(folder);
  RemovePartialCheckpoints(output_dir);
}

void RemovePartialCheckpoints(const std::string& output_dir) {
  std::error_code ignored;
  for (const fs::path& entry : Entries(output_dir)) {
    if (IsPartial(entry.filename().string())) fs::remove_all(entry, ignored);
  }
}

}  // namespace lshformer
