#include "train/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/parallel.h"
#include "base/signals.h"
#include "data/sampler.h"
#include "models/stored_directions.h"
#include "train/checkpoint.h"
#include "train/directions.h"
#include "train/schedule.h"
#include "train/shards.h"
#include "train/step.h"
#include "train/weight_average.h"

namespace lshformer {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// What a token of a forward is multiplied with, as far as it is trained.
int64_t ParametersOutsideEmbeddings(const NamedTensors& parameters, const std::vector<ParameterRole>& roles) {
  int64_t count = 0;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!roles[i].embedding) count += roles[i].uses * parameters[i].second.numel();
  return count;
}

// While it lives, the model's weights are their average, if there is one.
class Averaged {
 public:
  explicit Averaged(std::optional<WeightAverage>& average) : average_(average) { Swap(); }
  ~Averaged() { Swap(); }
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

 private:
  void Swap() {
    if (average_) average_->Swap();
  }
  std::optional<WeightAverage>& average_;
};

class Trainer {
 public:
  Trainer(Model& model, const TrainingData& data, const TrainingOptions& options, const TrainerPlace& place,
          const TrainerHooks& hooks, const TrainingLoss& loss)
      : model_(model),
        data_(data),
        options_(options),
        place_(place),
        hooks_(hooks),
        step_(model, options, loss, place.processes),
        sampler_(SamplerOf(options, data.examples)),
        flos_per_token_(6.0 * static_cast<double>(ParametersOutsideEmbeddings(step_.parameters(), step_.roles()))) {
    state_.max_steps = TotalSteps(options, sampler_.steps_per_epoch());
    state_.threads = Threads();
    state_.run_settings = place.run_settings;
    schedule_ = MakeSchedule(options, state_.max_steps);
  }

  TrainResult Run() {
    if (options_.ema_decay > 0) average_.emplace(options_.ema_decay, step_.parameters());
    if (!place_.resume_from.empty()) Resume();
    begin_ = Clock::now();
    runtime_before_ = state_.train_runtime;
    TellProgress(std::nullopt);
    if (EvaluateIfDue()) CompleteCheckpoint();
    while (state_.global_step < state_.max_steps) {
      StopIfAsked();
      TakeStep();
      LogIfDue();
      EvaluateIfDue();
      SaveIfDue();
    }
    StopIfAsked();
    if (average_) average_->Swap();  // the result is the average
    if (options_.load_best_model_at_end && state_.best_global_step > 0 && !place_.output_dir.empty()) {
      if (IsFirst()) LoadBestModel(place_.output_dir, state_, model_);
      TakeFromFirst(step_.parameters());
      result_.best_step = state_.best_global_step;
    }
    Summarize();
    if (saved_step_ != state_.global_step) step_.GatherState();  // a signal to rank 0 alone may ask for it
    finishing_ = true;
    Finish();
    return result_;
  }

 private:
  // Of several processes the one that reads and writes files.
  bool IsFirst() const { return place_.processes == nullptr || place_.processes->first(); }

  // Rank 0's, to all.
  void TakeFromFirst(const NamedTensors& tensors) {
    if (place_.processes == nullptr) return;
    const torch::NoGradGuard no_grad;
    for (const auto& [name, tensor] : tensors) {
      place_.processes->Broadcast(
          std::span(static_cast<std::byte*>(tensor.data_ptr()), static_cast<size_t>(tensor.nbytes())), 0);
      tensor.unsafeGetTensorImpl()->bump_version();  // a packed copy of the weight is out of date
    }
  }
  Json TakeFromFirst(const Json& json) {
    return place_.processes == nullptr ? json : Json::parse(place_.processes->Broadcast(json.dump(), 0));
  }

  // Whether any process was asked to stop: a call of all, which all answer alike.
  int AgreedStop(int own) const {
    return place_.processes == nullptr ? own : static_cast<int>(place_.processes->Max(own));
  }

  void Load() {
    const NamedTensors averages = average_ ? average_->State() : NamedTensors();
    if (IsFirst()) {
      state_ = LoadCheckpoint(place_.resume_from, model_, step_.optimizer(), averages);
      released_ = !HasOptimizerState(place_.resume_from);
    }
    if (place_.processes == nullptr) return;
    const Json told = TakeFromFirst(
        Json{{"state", ToJson(state_, options_)}, {"steps", step_.optimizer().steps()}, {"released", released_}});
    state_ = ParseTrainerState(told["state"], place_.resume_from);
    step_.optimizer().set_steps(told["steps"]);
    released_ = told["released"];
    NamedTensors parameters;
    for (const auto& [name, tensor] : model_.NamedParameters()) parameters.emplace_back(name, tensor);
    TakeFromFirst(parameters);
    if (released_) return;
    TakeFromFirst(step_.optimizer().State());
    step_.ForgetState();
    TakeFromFirst(averages);
  }

  void Resume() {
    const int threads = state_.threads;
    const int64_t max_steps = state_.max_steps;
    Load();
    if (released_) {
      if (state_.global_step < max_steps)
        Fail("{}: the optimizer's state was released when the run was finished; it cannot make another step",
             place_.resume_from);
      average_.reset();  // nothing is trained any more, and the model is the average
    }
    if (average_) average_->Swap();  // a checkpoint's model is the average
    if (IsFirst() && options_.load_best_model_at_end && state_.best_global_step > 0 && !place_.output_dir.empty()) {
      const std::string best = BestCheckpoint(place_.output_dir, state_);
      // Resumed into another folder, it would be missed only at the very end.
      if (const std::string reason = IncompleteReason(best); !reason.empty())
        Fail(
            "{}: the best model of {} so far is {}, which cannot be used ({}); resume in the folder where it is, or "
            "from a checkpoint before it",
            OptionName{"load_best_model_at_end"}, place_.resume_from, best, reason);
    }
    saved_step_ = state_.global_step;
    last_good_ = place_.resume_from;
    // A kill right behind the write of this checkpoint left those that it pushes out.
    std::error_code ignored;
    if (IsFirst() && std::filesystem::equivalent(std::filesystem::path(place_.resume_from).parent_path() / ".",
                                                 place_.output_dir + "/.", ignored))
      RemoveOldCheckpoints(place_.output_dir, state_, options_.save_total_limit);
    state_.threads = threads;
    state_.max_steps = max_steps;
    state_.run_settings = place_.run_settings;
  }

  void TakeStep() {
    const auto begin = Clock::now();
    const int64_t step = state_.global_step;
    RefreshDirectionsIfDue(step);
    std::vector<int> parts;
    const std::vector<PackedBatch> batches = Batches(step, &parts);
    step_.Begin(batches, std::move(parts));
    for (const PackedBatch& batch : batches) {
      Count(batch);
      const double sum = step_.Accumulate(batch);
      if (!std::isfinite(sum) && place_.processes == nullptr) FailDiverged(step + 1, "the loss", sum);
    }
    step_.Reduce();
    const double loss = step_.loss();
    if (!std::isfinite(loss)) FailDiverged(step + 1, "the loss", loss);
    learning_rate_ = LearningRate(schedule_, step);
    gradient_norm_ = step_.Update(learning_rate_);
    if (!std::isfinite(gradient_norm_)) FailDiverged(step + 1, "the gradient's norm", gradient_norm_);
    if (average_) average_->Update(step);

    ++state_.global_step;
    state_.loss_sum += loss;
    state_.epoch = EpochAfter(step);
    result_.step_seconds.push_back(SecondsSince(begin));
    TellProgress(loss);
  }

  // The micro-batches of an update, as it and its refresh of directions see them, and the part of each.
  std::vector<PackedBatch> Batches(int64_t step, std::vector<int>* parts = nullptr) {
    std::vector<PackedBatch> batches;
    for (const Piece& piece : PiecesOf(sampler_.Batches(step), options_)) {
      batches.push_back(data_.batch(sampler_.Epoch(step), piece.examples));
      if (parts != nullptr) parts->push_back(piece.part);
    }
    return batches;
  }

  // From the sequences of this update and of those that follow, before it: a checkpoint that lies here holds the
  // directions before, and whoever goes on from it does the same again.
  void RefreshDirectionsIfDue(int64_t step) {
    if (options_.refresh_directions_steps == 0 || step % options_.refresh_directions_steps != 0) return;
    int64_t first = 0, update = step;  // number of the first micro-batch of `update`
    std::vector<PackedBatch> batches = Batches(update);
    const NamedTensors before = DirectionsBefore();
    int stopped = 0;
    try {  // reads texts, and is stopped between layers; nothing is changed until its end
      RefreshDirections(model_, [&](int64_t number) {
        for (; number - first >= static_cast<int64_t>(batches.size()); batches = Batches(++update))
          first += static_cast<int64_t>(batches.size());
        return batches[static_cast<size_t>(number - first)];
      });
    } catch (const Interrupted& interrupted) {
      stopped = interrupted.signal();
    }
    if (stopped = AgreedStop(stopped); stopped == 0) return;
    // Other processes may have come to their end.
    const torch::NoGradGuard no_grad;
    size_t next = 0;
    for (const auto& [name, tensor] : model_.NamedParameters())
      if (next < before.size() && before[next].first == name) torch::Tensor(tensor).copy_(before[next++].second);
    StopWith(stopped);
  }

  // What is not trained, as it is; nothing where this process is alone.
  NamedTensors DirectionsBefore() const {
    NamedTensors copies;
    if (place_.processes == nullptr) return copies;
    const std::vector<ParameterRole> roles = Roles(model_);
    const NamedTensors all = model_.NamedParameters();
    for (size_t i = 0; i < all.size(); ++i)
      if (!roles[i].trained) copies.emplace_back(all[i].first, all[i].second.detach().clone());
    return copies;
  }

  void Count(const PackedBatch& batch) {
    state_.train_samples += batch.examples();
    state_.tokens_seen += batch.tokens.size();
    state_.total_flos += flos_per_token_ * static_cast<double>(batch.tokens.size());
  }

  void TellProgress(std::optional<double> loss) const {
    if (hooks_.progress && IsFirst()) hooks_.progress({state_.global_step, state_.max_steps, loss});
  }

  double EpochAfter(int64_t step) const {
    const int64_t in_epoch = step % sampler_.steps_per_epoch() + 1;
    const int64_t done =
        std::min(in_epoch * options_.gradient_accumulation_steps, sampler_.batches_per_epoch());  // micro-batches
    return static_cast<double>(sampler_.Epoch(step)) +
           static_cast<double>(done) / static_cast<double>(sampler_.batches_per_epoch());
  }

  void LogIfDue() {
    if (options_.logging_steps == 0 || state_.global_step % options_.logging_steps != 0) return;
    const int64_t steps = state_.global_step - state_.logged_step;
    const double mean = (state_.loss_sum - state_.logged_loss_sum) / static_cast<double>(steps);
    state_.logged_loss_sum = state_.loss_sum;
    state_.logged_step = state_.global_step;
    Log({{"epoch", state_.epoch},
         {"grad_norm", gradient_norm_},
         {"learning_rate", learning_rate_},
         {"loss", mean},
         {"step", state_.global_step}});
  }

  // Also makes up for an evaluation that a signal cut short, so that a resumed run logs what an uninterrupted one does.
  // Returns whether there was one to make.
  bool EvaluateIfDue() {
    const int64_t step = state_.global_step;
    if (!hooks_.evaluate || options_.eval_steps == 0 || step == 0 || step % options_.eval_steps != 0) return false;
    for (const Json& entry : state_.log_history) {
      if (entry.contains("eval_loss") && entry.value("step", int64_t{-1}) == step) return false;
    }
    Json metrics;
    int stopped = 0;
    try {
      const Averaged averaged(average_);
      metrics = hooks_.evaluate();
    } catch (const Interrupted& interrupted) {
      stopped = interrupted.signal();
    }
    if (stopped = AgreedStop(stopped); stopped != 0) StopWith(stopped);
    metrics = TakeFromFirst(metrics);
    if (metrics.contains("eval_loss") && !std::isfinite(metrics["eval_loss"].get<double>()))
      FailDiverged(step, "the evaluation's loss", metrics["eval_loss"].get<double>());
    Json entry = {{"epoch", state_.epoch}};
    entry.update(metrics);
    entry["step"] = step;
    Log(std::move(entry));
    return true;
  }

  void Log(Json entry) {
    if (hooks_.log && IsFirst()) hooks_.log(entry);
    state_.log_history.push_back(std::move(entry));
  }

  // The checkpoint that the run was resumed from lacks an evaluation that is there now, and may be the best by it.
  void CompleteCheckpoint() {
    saved_step_ = kNeverSaved;
    SaveIfDue();
  }

  void SaveIfDue() {
    if (options_.save_steps == 0) return;
    if (options_.load_best_model_at_end) NoteBest();
    if (state_.global_step % options_.save_steps == 0 || state_.global_step == state_.max_steps) Save();
  }

  // Only a checkpoint can be the best model: at other steps nothing would be left of it.
  void NoteBest() {
    if (state_.log_history.empty() || state_.global_step % options_.save_steps != 0) return;
    const Json& entry = state_.log_history.back();
    if (!entry.contains("eval_loss") || entry["step"] != state_.global_step) return;
    const std::string& name = options_.metric_for_best_model;
    std::vector<std::string> keys;
    for (const auto& [metric, value] : entry.items())
      if (metric != "epoch" && metric != "step") keys.push_back(metric);
    CheckBestMetric(options_, keys);
    const std::string key = entry.contains(name) ? name : "eval_" + name;
    if (!entry[key].is_number()) return;  // undefined for these outputs, so no better than any other
    const double metric = entry[key].get<double>();
    const bool better = state_.best_global_step == 0 ||
                        (GreaterIsBetter(name) ? metric > state_.best_metric : metric < state_.best_metric);
    if (!better) return;
    state_.best_metric = metric;
    state_.best_global_step = state_.global_step;
  }

  void Save() {
    if (place_.output_dir.empty() || saved_step_ == state_.global_step || released_) return;
    if (!finishing_) step_.GatherState();  // what the end of the run gathered is there
    saved_step_ = state_.global_step;
    if (!IsFirst()) return step_.ForgetState();
    if (!AllFinite(step_.parameters()))
      FailDiverged(state_.global_step, "a weight", std::numeric_limits<double>::quiet_NaN());
    state_.train_runtime = runtime_before_ + SecondsSince(begin_);
    const Averaged averaged(average_);
    last_good_ = SaveCheckpoint(place_.output_dir, {model_, step_.optimizer(), state_, options_, hooks_.save_extra,
                                                    average_ ? average_->State() : NamedTensors()});
    step_.ForgetState();
  }

  void StopIfAsked() {
    if (const int signal = AgreedStop(StopSignal()); signal != 0) StopWith(signal);
  }

  [[noreturn]] void StopWith(int signal) {
    Save();
    const std::string name = signal == SIGINT ? "SIGINT" : "SIGTERM";
    if (place_.output_dir.empty() || !IsFirst())
      throw Interrupted(signal, fmt::format("stopped by {} after step {}", name, state_.global_step));
    throw Interrupted(signal, fmt::format("stopped by {} after step {}; {} holds the state, {} auto goes on", name,
                                          state_.global_step, last_good_, OptionName{"resume_from_checkpoint"}));
  }

  [[noreturn]] void FailDiverged(int64_t step, const char* what, double value) {
    const std::string good =
        last_good_.empty() ? "no checkpoint had been written" : "the last good checkpoint is " + last_good_;
    Fail("step {}: {} is {} (learning rate {:.3g}); {}", step, what, std::isnan(value) ? "not a number" : "infinite",
         LearningRate(schedule_, std::max<int64_t>(0, step - 1)), good);
  }

  // With best_step > 0 the model is an earlier one; but then the checkpoint of the last step has been written.
  void Finish() {
    if (!hooks_.finish) return;
    try {
      hooks_.finish(result_);
    } catch (const Interrupted& interrupted) {
      if (average_) average_->Swap();
      StopWith(interrupted.signal());
    }
  }

  void Summarize() {
    if (!AllFinite(step_.parameters()))
      FailDiverged(state_.global_step, "a weight", std::numeric_limits<double>::quiet_NaN());
    result_.global_step = state_.global_step;
    result_.total_steps = state_.max_steps;
    result_.epoch = state_.epoch;
    result_.train_loss = state_.loss_sum / static_cast<double>(std::max<int64_t>(1, state_.global_step));
    const double seconds = std::max(1e-9, state_.train_runtime = runtime_before_ + SecondsSince(begin_));
    result_.train_runtime = seconds;
    result_.samples = state_.train_samples;
    result_.samples_per_second = static_cast<double>(state_.train_samples) / seconds;
    result_.steps_per_second = static_cast<double>(state_.global_step) / seconds;
    result_.total_flos = state_.total_flos;
    result_.trainer_state = ToJson(state_, options_);
  }

  Model& model_;
  const TrainingData& data_;
  const TrainingOptions& options_;
  const TrainerPlace& place_;
  const TrainerHooks& hooks_;
  TrainingStep step_;
  std::optional<WeightAverage> average_;
  TrainSampler sampler_;
  double flos_per_token_;
  Schedule schedule_;
  TrainerState state_;
  TrainResult result_;
  Clock::time_point begin_;
  double runtime_before_ = 0;  // seconds before the resume
  static constexpr int64_t kNeverSaved = -1;
  int64_t saved_step_ = kNeverSaved;  // that the checkpoint of this step is on disk, whole
  bool finishing_ = false;            // no update follows, and no call of all processes is sure to be one
  bool released_ = false;             // resumed without an optimizer's state: there is none to write
  std::string last_good_;             // checkpoint
  double gradient_norm_ = 0, learning_rate_ = 0;
};

}  // namespace

TrainResult Train(Model& model, const TrainingData& data, const TrainingOptions& options, const TrainerPlace& place,
                  const TrainerHooks& hooks, const TrainingLoss& loss) {
  ValidateTrainingOptions(options);
  if (options.refresh_directions_steps > 0 && !AnyStoresDirections(model.config().attention))
    FailOption("refresh_directions_steps", "the model stores no directions (models/stored_directions.h)");
  return Trainer(model, data, options, place, hooks, loss).Run();
}

}  // namespace lshformer
