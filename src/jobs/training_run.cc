#include "jobs/training_run.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "data/sampler.h"
#include "eval/metrics.h"
#include "jobs/build_info.h"
#include "jobs/training_display.h"
#include "train/checkpoint.h"
#include "train/schedule.h"
#include "train/tensorboard.h"
#include "train/trainer.h"

namespace lshformer {
namespace {

// What the settings leave out, since it does not change the result; with them a run can be made again. The two about
// checkpoints stand there only where they were given, for that decides what is kept of them.
Json OtherFlags(const TrainingOptions& options, const RunFolder& folder) {
  Json flags = Json::object();
  for (const Option<TrainingOptions>& option : TrainingTable().options) {
    if (option.effect != Effect::kNone) continue;
    const bool given = folder.keep_optimizer_states || !option.name.starts_with("save_");
    flags[option.name] = given ? option.write(options) : Json();
  }
  flags["report_to"] = folder.report_to;
  return flags;
}

DType SaveType(const std::string& name) {
  for (const auto& [known, dtype] :
       {std::pair("float32", DType::kF32), {"float16", DType::kF16}, {"bfloat16", DType::kBF16}})
    if (name == known) return dtype;
  FailOption("save_dtype", "expected float32, float16 or bfloat16, got \"{}\"", Shown(name));
}

int64_t CountParameters(const Model& model) {
  int64_t count = 0;
  for (const auto& [name, parameter] : model.NamedParameters()) count += parameter.numel();
  return count;
}

int64_t PeakBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

int64_t StepsPerEpoch(const TrainingJob& job) {
  return SamplerOf(job.training, job.train_set->size()).steps_per_epoch();
}

// By which a resumed run knows its data again.
Json FactsOf(const std::vector<const SequenceSet*>& sets) {
  int64_t sequences = 0, tokens = 0;
  std::vector<std::string> fingerprints;
  for (const SequenceSet* set : sets) {
    sequences += set->size();
    tokens += set->tokens();
    if (set->size() > 0) fingerprints.push_back(fmt::format("{:016x}", set->Fingerprint()));
  }
  return {
      {"sequences", sequences}, {"tokens", tokens}, {"fingerprint", fmt::format("{}", fmt::join(fingerprints, " "))}};
}

// What was read must be that of the checkpoint's run, which must not have made more updates than this run has.
RunSettings CheckedData(const TrainingJob& job) {
  RunSettings read;
  read.values["training data"] = FactsOf({job.train_set});
  // Evaluations in between are part of the log, and with load_best_model_at_end decide what the result is.
  if (job.training.eval_steps > 0) {
    read.values["evaluation data"] = FactsOf(job.validation_sets);
    read.effects["evaluation data"] = Effect::kCourse;
  }
  if (job.start.resume_from.empty() || !job.first()) return read;
  RunSettings compared = read;
  const int64_t left = StepsLeft(job.start.resume_from, TotalSteps(job.training, StepsPerEpoch(job)),
                                 job.training.max_steps > 0 ? "max_steps" : "num_train_epochs");
  if (left == 0) compared.values.erase("evaluation data");  // other data for the last evaluation alone
  CheckSameRun(job.start.resume_from, compared);
  return read;
}

// What decides the bits of every process, or when they talk to each other.
void RequireSameRun(const TrainingJob& job) {
  const RunSettings read = CheckedData(job);
  std::string weights;
  for (const auto& [name, tensor] : job.model->NamedParameters())
    weights += DigestOfText({static_cast<const char*>(tensor.data_ptr()), static_cast<size_t>(tensor.nbytes())});
  std::vector<std::pair<std::string, std::string>> facts = ProgramFacts();
  const Json other = OtherFlags(job.training, job.folder);
  for (const Json* flags : {&job.settings.values, &other, &read.values})
    for (const auto& [name, value] : flags->items()) facts.emplace_back(name, value.dump());
  // A checkpoint's are told by rank 0.
  if (job.resumed.empty()) facts.emplace_back("what the model's weights are", DigestOfText(weights));
  RequireSame(*job.processes, facts);
}

TrainResult TrainShown(const TrainingJob& job, const std::string& title, const TrainingData& data,
                       const TrainingOptions& options, const TrainerPlace& place, TrainerHooks hooks) {
  TrainingDisplay display(title);
  if (job.progress && job.first()) display.AddTo(hooks);
  return Train(*job.model, data, options, place, hooks, job.loss);
}

// Time and memory are those of a few real steps, so that the estimate knows this machine, model and data.
Json Plan(const TrainingJob& job, const TrainingData& data) {
  constexpr int64_t kTrialSteps = 4, kManyParameters = 50'000'000;  // of many a step takes long enough to tell
  TrainingOptions trial = job.training;
  trial.max_steps = CountParameters(*job.model) > kManyParameters ? 2 : kTrialSteps;
  trial.logging_steps = trial.eval_steps = trial.save_steps = 0;
  trial.load_best_model_at_end = false;
  trial.metric_for_best_model = TrainingOptions().metric_for_best_model;
  const int64_t steps_per_epoch = StepsPerEpoch(job);
  const int64_t steps = TotalSteps(job.training, steps_per_epoch);
  TrainerPlace nowhere;
  nowhere.processes = job.processes.get();
  const TrainResult tried = TrainShown(job, "trying a few steps", data, trial, nowhere, {});
  // The first step allocates and packs; the fastest of the others is what the machine can do.
  const double step_seconds = *std::min_element(tried.step_seconds.begin() + 1, tried.step_seconds.end());
  const double epochs = static_cast<double>(steps) / static_cast<double>(steps_per_epoch);
  return {{"train_samples", data.examples},
          {"tokens_per_epoch", job.train_set->tokens()},
          {"tokens", std::llround(epochs * static_cast<double>(job.train_set->tokens()))},
          {"steps_per_epoch", steps_per_epoch},
          {"steps", steps},
          {"parameters", CountParameters(*job.model)},
          {"memory_bytes", PeakBytes()},
          {"seconds_per_step", step_seconds},
          {"seconds", step_seconds * static_cast<double>(steps)}};
}

Json TrainResults(const TrainResult& result, int64_t train_samples) {
  return {{"epoch", result.epoch},
          {"total_flos", result.total_flos},
          {"train_loss", result.train_loss},
          {"train_runtime", Rounded(result.train_runtime, 4)},
          {"train_samples", train_samples},
          {"train_samples_per_second", Rounded(result.samples_per_second, 3)},
          {"train_steps_per_second", Rounded(result.steps_per_second, 3)}};
}

// The evaluation at the last step where eval_steps made one of these weights, else a fresh one.
Json FinalEvaluation(const TrainingJob& job, TrainResult& trained) {
  const int64_t step = trained.global_step;
  Json& history = trained.trainer_state["log_history"];
  const bool logged =
      !history.empty() && history.back().contains("eval_loss") && history.back().value("step", int64_t{-1}) == step;
  // Not where the best model was loaded after it, nor where a checkpoint brought it: that was another command's data.
  if (logged && trained.best_step == 0 && !trained.step_seconds.empty()) {
    Json metrics = history.back();
    metrics.erase("step");
    return metrics;
  }
  if (logged && trained.best_step == 0) history.erase(history.size() - 1);
  Json metrics = {{"epoch", trained.trainer_state["epoch"]}};
  metrics.update(job.evaluate());
  Json entry = metrics;
  entry["step"] = step;
  history.push_back(entry);
  return metrics;
}

// The figures of the training and of the evaluation, in the log too.
void AddResults(const TrainingJob& job, TrainResult& trained, const std::function<void(const Json&)>& log,
                JobResult& result) {
  result.train = TrainResults(trained, job.train_set->size());
  Json& history = trained.trainer_state["log_history"];
  if (job.do_eval) {
    const size_t entries = history.size();
    result.eval = FinalEvaluation(job, trained);
    if (history.size() > entries || trained.step_seconds.empty()) log(history.back());
  }
  Json summary = result.train;
  summary.erase("train_samples");
  summary["step"] = trained.global_step;
  history.push_back(summary);
  log(summary);
  result.log_history = FiguresOfEach(history);
}

}  // namespace

RunStart OpenSharedFolder(TrainingJob& job, bool dry_run) {
  RunStart start;
  if (job.first()) start = OpenRunFolder(job.folder, job.settings, dry_run);
  if (job.processes != nullptr) {
    const Json told = Json::parse(job.processes->Broadcast(
        Json{{"finished", start.finished}, {"was_finished", start.was_finished}, {"resume_from", start.resume_from}}
            .dump(),
        0));
    start.finished = told["finished"];
    start.was_finished = told["was_finished"];
    start.resume_from = told["resume_from"];
  }
  job.resumed = start.resume_from;
  if (!job.first() && !std::filesystem::exists(start.resume_from + "/config.json")) start.resume_from.clear();
  return start;
}

JobResult FinishedBefore(const TrainingJob& job) {
  if (job.first()) return ReadFinishedRun(job.folder.output_dir);
  JobResult result;
  result.finished_before = true;
  result.first_process = false;
  return result;
}

EvaluateOptions Evaluating(const TrainingJob& job) {
  EvaluateOptions evaluate;
  evaluate.batch_size = job.training.per_device_eval_batch_size;
  evaluate.progress = job.progress && job.first();
  evaluate.processes = job.processes.get();
  return evaluate;
}

JobResult RunTrainingJob(TrainingJob& job, const std::function<void()>& after) {
  if (job.training.gradient_checkpointing && job.model->config().reversible)
    FailOption("gradient_checkpointing", "the model is reversible and keeps no layer's activations anyway");
  if (job.training.sequence_parallel) job.model->ShareTokens(job.processes.get());
  JobResult result;
  result.output_dir = job.folder.output_dir;
  CheckBestMetric(job.training, job.metrics);
  TrainingData data{job.train_set->size(), job.batch};
  result.first_process = job.first();
  if (job.processes != nullptr) RequireSameRun(job);
  if (job.dry_run) {
    result.plan = Plan(job, data);
    return result;
  }
  job.settings.values.update(CheckedData(job).values);
  if (job.first()) BeginRun(job.folder, job.start, job.settings.values, OtherFlags(job.training, job.folder));
  job.warnings->Release();
  const int64_t max_length = SavedMaxLength(job.new_model, *job.tokenizer, job.model->config());
  const auto save_tokenizer = [&](const std::string& folder) {
    job.tokenizer->Save(folder, max_length);
    if (job.save_extra) job.save_extra(folder);
  };
  std::optional<EventFile> events;
  if (job.folder.report_to == "tensorboard" && job.first()) events.emplace(job.folder.output_dir + "/" + kEventFolder);
  const auto log = [&](const Json& entry) {
    if (events) events->Add(entry);
  };
  TrainerHooks hooks{job.do_eval ? job.evaluate : nullptr, save_tokenizer, log};
  hooks.finish = [&](TrainResult& trained) {
    if (job.first()) {
      SaveModel(*job.model, job.folder.output_dir, SaveType(job.folder.save_dtype));
      save_tokenizer(job.folder.output_dir);
    }
    AddResults(job, trained, log, result);
    if (after) after();
    if (job.first()) FinishRun(job.folder.output_dir, result.train, result.eval, trained.trainer_state);
  };
  TrainerPlace place{job.folder.output_dir, job.resumed, job.settings.values, job.processes.get()};
  const TrainResult trained = TrainShown(job, job.title, data, job.training, place, hooks);
  // A command that only adds to a finished run takes nothing from one that was asked to keep it.
  const bool adds = job.start.was_finished && trained.step_seconds.empty();
  if (!job.folder.keep_optimizer_states && !adds && job.first()) ReleaseOptimizerStates(result.output_dir);
  return result;
}

}  // namespace lshformer
