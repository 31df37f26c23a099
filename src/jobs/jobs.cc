#include "jobs/jobs.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/logging.h"
#include "base/signals.h"
#include "data/corpus.h"
#include "data/masking.h"
#include "data/squad_windows.h"
#include "eval/answer_files.h"
#include "eval/evaluate.h"
#include "eval/metrics.h"
#include "eval/score_file.h"
#include "jobs/label_data.h"
#include "jobs/model_source.h"
#include "jobs/run_folder.h"
#include "jobs/training_display.h"
#include "train/checkpoint.h"
#include "train/schedule.h"
#include "train/tensorboard.h"
#include "train/trainer.h"

namespace lshformer {
namespace {

// One job once its flags are read: what to train on, how to evaluate, where to put it.
struct Job {
  std::string title;
  const RunFolder& folder;
  const TrainingOptions& training;
  bool do_eval = false, dry_run = false, progress = false;
  Json settings = {};
  RunStart start = {};
  std::shared_ptr<const Tokenizer> tokenizer = {};
  ModelPtr model = {};
  const SequenceSet* train_set = nullptr;
  std::function<PackedBatch(int64_t epoch, std::span<const int64_t> examples)> batch = {};
  std::function<Json()> evaluate = {};
  std::vector<std::string> figures = {};  // that `evaluate` writes
  HeldLog* warnings = nullptr;            // let go once nothing can refuse the run any more
};

Json Settings(const TrainingOptions& options) {
  return {{"per_device_train_batch_size", options.per_device_train_batch_size},
          {"gradient_accumulation_steps", options.gradient_accumulation_steps},
          {"learning_rate", options.learning_rate},
          {"weight_decay", options.weight_decay},
          {"adam_beta1", options.adam_beta1},
          {"adam_beta2", options.adam_beta2},
          {"adam_epsilon", options.adam_epsilon},
          {"max_grad_norm", options.max_grad_norm},
          {"num_train_epochs", options.num_train_epochs},
          {"max_steps", options.max_steps},
          {"lr_scheduler_type", Name(options.lr_scheduler_type)},
          {"warmup_steps", options.warmup_steps},
          {"warmup_ratio", options.warmup_ratio},
          {"optim", Name(options.optim)},
          {"ema_decay", options.ema_decay > 0 ? Json(options.ema_decay) : Json()},
          {"load_best_model_at_end", options.load_best_model_at_end},
          {"metric_for_best_model", options.metric_for_best_model},
          {"seed", options.seed}};
}

Json CanonicalPaths(const std::vector<std::string>& paths) {
  Json list = Json::array();
  for (const std::string& path : paths) list.push_back(CanonicalPath(path));
  return list;
}

Json Settings(const PretrainOptions& options) {
  Json settings = {{"command", "pretrain"}, {"save_dtype", options.folder.save_dtype}};
  settings.update(Settings(options.model));
  settings.update(Settings(options.training));
  settings.update({{"train_file", CanonicalPaths(options.train_files)},
                   {"validation_file", CanonicalPath(options.validation_file)},
                   {"validation_split_percentage", options.validation_split_percentage},
                   {"max_train_samples", options.max_train_samples},
                   {"max_eval_samples", options.max_eval_samples},
                   {"max_seq_length", options.max_seq_length},
                   {"line_by_line", options.line_by_line},
                   {"mlm_probability", options.mlm_probability},
                   {"objective", options.objective},
                   {"masking", options.masking.whole_words ? "whole_word" : "token"},
                   {"max_predictions_per_seq", options.masking.max_predictions},
                   {"do_eval", options.do_eval}});
  if (options.objective == "mlm") return settings;
  settings["short_seq_prob"] = options.short_seq_prob;
  settings["dupe_factor"] = options.dupe_factor;
  return settings;
}

Json Settings(const TrainOptions& options) {
  Json settings = {{"command", "train"}, {"task", options.task}, {"save_dtype", options.folder.save_dtype}};
  settings.update(Settings(options.model));
  settings.update(Settings(options.training));
  settings.update({{"task_name", options.task_name},
                   {"data_dir", CanonicalPath(options.data_dir)},
                   {"train_file", CanonicalPaths(options.train_files)},
                   {"validation_file", CanonicalPath(options.validation_file)},
                   {"validation_split_percentage", options.validation_split_percentage},
                   {"test_file", CanonicalPath(options.test_file)},
                   {"max_train_samples", options.max_train_samples},
                   {"max_eval_samples", options.max_eval_samples},
                   {"max_seq_length", options.max_seq_length},
                   {"do_eval", options.do_eval},
                   {"do_predict", options.do_predict}});
  if (!options.question_answering()) {
    settings["do_regression"] = options.do_regression ? Json(*options.do_regression) : Json();
    return settings;
  }
  const AnswerOptions& answers = options.answers;
  settings["doc_stride"] = options.doc_stride;
  settings["version_2_with_negative"] = answers.version_2;
  settings["answers"] = {{"max_answer_length", answers.max_answer_length}, {"n_best_size", answers.n_best_size}};
  if (answers.version_2) settings["answers"]["null_score_diff_threshold"] = answers.null_score_diff_threshold;
  return settings;
}

// What the settings leave out, since it does not change the result; with them a run can be made again. The two about
// checkpoints stand there only where they were given, for that decides what is kept of them.
Json OtherFlags(const TrainingOptions& options, const RunFolder& folder) {
  return {{"per_device_eval_batch_size", options.per_device_eval_batch_size},
          {"logging_steps", options.logging_steps},
          {"eval_steps", options.eval_steps},
          {"save_steps", folder.keep_optimizer_states ? Json(options.save_steps) : Json()},
          {"save_total_limit", folder.keep_optimizer_states ? Json(options.save_total_limit) : Json()},
          {"gradient_checkpointing", options.gradient_checkpointing},
          {"report_to", folder.report_to}};
}

DType SaveType(const std::string& name) {
  for (const auto& [known, dtype] :
       {std::pair("float32", DType::kF32), {"float16", DType::kF16}, {"bfloat16", DType::kBF16}})
    if (name == known) return dtype;
  FailUsage("--save_dtype: expected float32, float16 or bfloat16, got \"{}\"", Shown(name));
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

TrainResult TrainShown(const Job& job, const std::string& title, const TrainingData& data,
                       const TrainingOptions& options, const TrainerPlace& place, TrainerHooks hooks) {
  hooks.warn = [](const std::string& line) { spdlog::warn(line); };
  TrainingDisplay display(title);
  if (job.progress) display.AddTo(hooks);
  return Train(*job.model, data, options, place, hooks);
}

// Time and memory are those of a few real steps, so that the estimate knows this machine, model and data.
Json Plan(const Job& job, const TrainingData& data) {
  constexpr int64_t kTrialSteps = 4;
  TrainingOptions trial = job.training;
  trial.max_steps = kTrialSteps;
  trial.logging_steps = trial.eval_steps = trial.save_steps = 0;
  trial.load_best_model_at_end = false;
  trial.metric_for_best_model = TrainingOptions().metric_for_best_model;
  const double batches = std::ceil(static_cast<double>(data.examples) / job.training.per_device_train_batch_size);
  const int64_t steps_per_epoch = static_cast<int64_t>(std::ceil(batches / job.training.gradient_accumulation_steps));
  const int64_t steps = TotalSteps(job.training, steps_per_epoch);
  const TrainResult tried = TrainShown(job, "trying a few steps", data, trial, {}, {});
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
Json FinalEvaluation(const Job& job, TrainResult& trained) {
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

// Trains, evaluates, writes the folder. `after` is what else a command leaves (predictions).
JobResult RunJob(Job& job, const std::function<void()>& after = {}) {
  if (job.training.gradient_checkpointing && job.model->config().reversible)
    FailUsage("--gradient_checkpointing: the model is reversible and keeps no layer's activations anyway");
  JobResult result;
  result.output_dir = job.folder.output_dir;
  CheckBestMetric(job.training, job.figures);
  TrainingData data{job.train_set->size(), job.batch};
  if (job.dry_run) {
    result.plan = Plan(job, data);
    return result;
  }
  const Json read{{"training data",
                   {{"sequences", job.train_set->size()},
                    {"tokens", job.train_set->tokens()},
                    {"fingerprint", fmt::format("{:016x}", job.train_set->Fingerprint())}}}};
  if (!job.start.resume_from.empty()) CheckSameRun(job.start.resume_from, read);
  job.settings.update(read);
  BeginRun(job.folder, job.start, job.settings, OtherFlags(job.training, job.folder));
  job.warnings->Release();
  const auto save_tokenizer = [&](const std::string& folder) { job.tokenizer->Save(folder); };
  std::optional<EventFile> events;
  if (job.folder.report_to == "tensorboard") events.emplace(job.folder.output_dir + "/" + kEventFolder);
  const auto log = [&](const Json& entry) {
    if (events) events->Add(entry);
  };
  TrainerHooks hooks{job.do_eval ? job.evaluate : nullptr, save_tokenizer, log};
  TrainerPlace place{job.folder.output_dir, job.start.resume_from, job.settings};
  TrainResult trained = TrainShown(job, job.title, data, job.training, place, hooks);
  result.train = TrainResults(trained, data.examples);
  SaveModel(*job.model, job.folder.output_dir, SaveType(job.folder.save_dtype));
  save_tokenizer(job.folder.output_dir);
  Json& history = trained.trainer_state["log_history"];
  Json summary = result.train;
  summary.erase("train_samples");
  summary["step"] = trained.global_step;
  if (job.do_eval) {
    const size_t entries = history.size();
    result.eval = FinalEvaluation(job, trained);
    if (history.size() > entries || trained.step_seconds.empty()) log(history.back());
  }
  history.push_back(summary);
  log(summary);
  if (after) after();
  FinishRun(job.folder.output_dir, result.train, result.eval, trained.trainer_state);
  // A command that only predicted takes nothing from a run that was asked to keep it.
  if (!job.folder.keep_optimizer_states && !trained.step_seconds.empty()) ReleaseOptimizerStates(result.output_dir);
  result.log_history = history;
  return result;
}

EvaluateOptions Evaluating(const Job& job) {
  EvaluateOptions evaluate;
  evaluate.batch_size = job.training.per_device_eval_batch_size;
  evaluate.progress = job.progress;
  return evaluate;
}

struct Corpora {
  SequenceSet train, validation;
};

// The first `limit` sequences of the files; 0: all.
using ReadFiles = std::function<SequenceSet(const std::vector<std::string>& files, int64_t limit)>;

ReadFiles CorpusReader(const PretrainOptions& options, const Tokenizer& tokenizer, const ModelConfig& config) {
  const int limit = SequenceLimit(options.max_seq_length, config);
  if (options.objective == "mlm") {
    return [&, limit](const std::vector<std::string>& files, int64_t sequences) {
      CorpusOptions corpus{.line_by_line = options.line_by_line, .max_seq_length = limit};
      corpus.max_sequences = sequences;
      return ReadCorpus(files, tokenizer, corpus);
    };
  }
  // Second sentences come from anywhere in the text, so all of it is read.
  return [&, limit](const std::vector<std::string>& files, int64_t sequences) {
    SequenceSet pairs = MakeSentencePairs(ReadSentences(files, tokenizer), tokenizer,
                                          {limit, options.short_seq_prob, options.dupe_factor, options.training.seed});
    pairs.KeepFirst(sequences);
    return pairs;
  };
}

Corpora ReadCorpora(const PretrainOptions& options, bool do_eval, const Tokenizer& tokenizer,
                    const ModelConfig& config) {
  const ReadFiles read = CorpusReader(options, tokenizer, config);
  Corpora corpora;
  const bool split = options.validation_file.empty() && do_eval;  // a share of all
  corpora.train = read(options.train_files, split ? 0 : options.max_train_samples);
  if (!options.validation_file.empty()) {
    corpora.validation = read({options.validation_file}, options.max_eval_samples);
  } else if (split) {
    auto [train, validation] = SplitValidation(std::move(corpora.train), options.validation_split_percentage);
    corpora.train = std::move(train);
    corpora.validation = std::move(validation);
  }
  corpora.train.KeepFirst(options.max_train_samples);
  corpora.validation.KeepFirst(options.max_eval_samples);
  return corpora;
}

void CheckSampleLimits(int64_t train, int64_t eval) {
  if (train < 0) FailUsage("--max_train_samples: expected 0 (all) or more, got {}", train);
  if (eval < 0) FailUsage("--max_eval_samples: expected 0 (all) or more, got {}", eval);
}

struct QuestionSets {
  SequenceSet train;
  SquadData validation, test;
  SquadWindows validation_windows, test_windows;
};

// Takes the first questions out of the training data, and limits both.
SquadData SplitQuestions(SquadData& train, const TrainOptions& options) {
  const auto size = static_cast<int64_t>(train.questions.size());
  const auto first = train.questions.begin() + ValidationShare(size, options.validation_split_percentage, "question");
  SquadData validation{train.path, train.contexts, {train.questions.begin(), first}};
  train.questions.erase(train.questions.begin(), first);
  const auto limit = [](std::vector<SquadQuestion>& questions, int64_t most) {
    if (most > 0 && most < static_cast<int64_t>(questions.size())) questions.resize(static_cast<size_t>(most));
  };
  limit(validation.questions, options.max_eval_samples);
  limit(train.questions, options.max_train_samples);
  return validation;
}

QuestionSets ReadQuestions(const TrainOptions& options, bool do_eval, const Tokenizer& tokenizer,
                           const ModelConfig& config) {
  const WindowOptions window{SequenceLimit(options.max_seq_length, config), options.doc_stride};
  const SquadUse use = options.answers.version_2 ? SquadUse::kMayHaveNone : SquadUse::kAnswerable;
  QuestionSets sets;
  const bool split = options.validation_split_percentage > 0;
  SquadWindows train;
  int64_t left = options.max_train_samples;
  for (const std::string& path : options.train_files) {
    if (options.max_train_samples > 0 && left == 0) break;
    SquadData data = ReadSquad(path, use, split ? 0 : left);
    if (split) sets.validation = SplitQuestions(data, options);
    AddSquadWindows(data, tokenizer, window, train);
    left -= std::min(left, static_cast<int64_t>(data.questions.size()));
  }
  sets.train = std::move(train.set);
  const auto read = [&](const std::string& path, SquadUse how, int64_t limit, SquadData& data, SquadWindows& windows) {
    data = ReadSquad(path, how, limit);
    windows.keep_places = true;
    AddSquadWindows(data, tokenizer, window, windows);
  };
  if (split) {
    sets.validation_windows.keep_places = true;
    AddSquadWindows(sets.validation, tokenizer, window, sets.validation_windows);
  } else if (do_eval) {
    read(options.validation_file, use, options.max_eval_samples, sets.validation, sets.validation_windows);
  }
  if (options.do_predict) read(options.test_file, SquadUse::kQuestionsOnly, 0, sets.test, sets.test_windows);
  return sets;
}

JobResult RunTrainQuestions(const TrainOptions& options, Job& job) {
  ValidateAnswerOptions(options.answers);
  job.model = MakeModel(options.model, job.start.resume_from, Task::kQuestionAnswering, *job.tokenizer,
                        options.training.seed, [](ModelConfig& config) {  // labels are those of another head
                          config.num_labels = ModelConfig{}.num_labels;
                          config.labels.clear();
                          config.problem_type.clear();
                        });
  job.figures = EvaluationKeys(job.model->config(), Task::kQuestionAnswering, {}, options.answers.version_2);
  CheckBestMetric(job.training, job.figures);  // before the questions are read
  const QuestionSets data = ReadQuestions(options, job.do_eval, *job.tokenizer, job.model->config());
  ThrowIfStopped("reading the questions");
  job.train_set = &data.train;
  job.batch = [&](int64_t, std::span<const int64_t> examples) { return MakeBatch(data.train, examples); };
  const EvaluateOptions evaluating = Evaluating(job);
  std::vector<FoundAnswer> answers;  // of the last evaluation
  job.evaluate = [&] {
    AnswerEvaluation result = EvaluateQuestionAnswering(*job.model, data.validation, data.validation_windows,
                                                        options.answers, evaluating, /*scored=*/true);
    answers = std::move(result.answers);
    return result.evaluation.metrics;
  };
  const std::string& folder = options.folder.output_dir;
  return RunJob(job, [&] {
    if (job.do_eval) {
      if (answers.empty()) job.evaluate();  // resumed behind the last evaluation
      WriteAnswerFiles(data.validation, answers, options.answers.version_2, folder, /*prefix=*/"");
    }
    if (!options.do_predict) return;
    const AnswerEvaluation predicted = EvaluateQuestionAnswering(*job.model, data.test, data.test_windows,
                                                                 options.answers, evaluating, /*scored=*/false);
    WriteAnswerFiles(data.test, predicted.answers, options.answers.version_2, folder, "predict_");
  });
}

JobResult RunTrainLabels(const TrainOptions& options, Job& job) {
  LabelTables tables = ReadLabelTables(options, job.do_eval);
  job.model = MakeModel(options.model, job.start.resume_from, Task::kSequenceClassification, *job.tokenizer,
                        options.training.seed, [&](ModelConfig& config) { AgreeOnLabels(tables, config); });
  const LabelData data = Encode(tables, *job.tokenizer, SequenceLimit(options.max_seq_length, job.model->config()));
  ThrowIfStopped("reading the training data");
  job.train_set = &data.train;
  job.batch = [&](int64_t, std::span<const int64_t> examples) { return MakeBatch(data.train, examples); };
  EvaluateOptions evaluating = Evaluating(job);
  evaluating.f1 = tables.f1, evaluating.matthews = tables.matthews;
  job.figures = EvaluationKeys(job.model->config(), Task::kSequenceClassification, evaluating);
  const auto evaluate = tables.regression ? EvaluateRegression : EvaluateClassification;
  job.evaluate = [&] { return evaluate(*job.model, data.validation, evaluating).metrics; };
  return RunJob(job, [&] {
    if (!options.do_predict) return;
    const Evaluation predicted = evaluate(*job.model, data.test, evaluating);
    if (tables.regression) return WriteValues(PredictionsPath(options), predicted.values);
    WritePredictions(PredictionsPath(options), predicted.predictions, tables.labels);
  });
}

}  // namespace

JobResult RunPretrain(const PretrainOptions& options) {
  ValidateTrainingOptions(options.training);
  CheckSampleLimits(options.max_train_samples, options.max_eval_samples);
  CheckModelSource(options.model);
  if (options.train_files.empty()) FailUsage("--train_file: required");
  const bool pairs = options.objective == "mlm+nsp";
  if (!pairs && options.objective != "mlm")
    FailUsage("--objective: expected mlm or mlm+nsp, got \"{}\"", Shown(options.objective));
  if (pairs && options.line_by_line) FailUsage("--line_by_line: is for --objective mlm; pairs are made of sentences");
  HeldLog warnings;
  Job job{.title = "pretraining", .folder = options.folder, .training = options.training};
  job.warnings = &warnings;
  job.do_eval = options.do_eval || options.training.eval_steps > 0;
  job.dry_run = options.dry_run;
  job.progress = options.progress;
  job.settings = Settings(options);
  job.start = OpenRunFolder(options.folder, job.settings, options.dry_run);
  if (job.start.finished) return ReadFinishedRun(options.folder.output_dir);
  job.tokenizer = LoadTokenizer(options.model);
  job.model = MakeModel(options.model, job.start.resume_from, pairs ? Task::kPretraining : Task::kMaskedLm,
                        *job.tokenizer, options.training.seed);
  job.figures = EvaluationKeys(job.model->config(), job.model->task(), {});
  CheckBestMetric(job.training, job.figures);  // before the text is read
  const Masker masker(*job.tokenizer, options.mlm_probability, options.training.seed, options.masking);
  const Corpora corpora = ReadCorpora(options, job.do_eval, *job.tokenizer, job.model->config());
  ThrowIfStopped("reading the training text");
  job.train_set = &corpora.train;
  job.batch = [&](int64_t epoch, std::span<const int64_t> examples) {
    return MakeMaskedBatch(corpora.train, examples, masker, static_cast<uint64_t>(epoch));
  };
  job.evaluate = [&] { return EvaluateMaskedLm(*job.model, corpora.validation, masker, Evaluating(job)).metrics; };
  return RunJob(job);
}

JobResult RunTrain(const TrainOptions& options) {
  ValidateTrainingOptions(options.training);
  CheckSampleLimits(options.max_train_samples, options.max_eval_samples);
  CheckModelSource(options.model);
  CheckLabelSource(options);
  HeldLog warnings;
  Job job{.title = "fine-tuning", .folder = options.folder, .training = options.training};
  job.warnings = &warnings;
  job.do_eval = options.do_eval || options.training.eval_steps > 0;
  job.dry_run = options.dry_run;
  job.progress = options.progress;
  job.settings = Settings(options);
  job.start = OpenRunFolder(options.folder, job.settings, options.dry_run);
  if (job.start.finished) return ReadFinishedRun(options.folder.output_dir);
  job.tokenizer = LoadTokenizer(options.model);
  return options.question_answering() ? RunTrainQuestions(options, job) : RunTrainLabels(options, job);
}

}  // namespace lshformer
