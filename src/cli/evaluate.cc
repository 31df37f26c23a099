// lshformer evaluate: a model on data, without training; or a file of predictions, without a model.
#include "eval/evaluate.h"

#include <spdlog/spdlog.h>

#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/precision_flags.h"
#include "cli/training_flags.h"
#include "data/classification.h"
#include "data/corpus.h"
#include "data/sentence_pairs.h"
#include "data/squad_windows.h"
#include "eval/answer_files.h"
#include "eval/score_file.h"
#include "eval/squad_score.h"
#include "jobs/model_source.h"

namespace lshformer::cli {
namespace {

struct EvaluateFlags {
  ModelSource model;
  PrecisionFlags precision;
  std::string task, task_name, data_dir, validation_file, references, predictions, na_prob_file, output = "-";
  int64_t max_eval_samples = 0;
  int max_seq_length = 0, batch_size = 8;
  bool line_by_line = false;
  double mlm_probability = 0.15;
  MaskedChoice masking;
  int doc_stride = -1;
  AnswerOptions answers;
  double na_prob_thresh = SquadScoring{}.na_prob_thresh;
  std::string output_dir;
};

constexpr const char* kQuestionAnswering = "question-answering";
constexpr const char* kSimilarity = "sentence-similarity";

Task TaskOf(const EvaluateFlags& flags) {
  if (flags.task == "fill-mask") return Task::kMaskedLm;
  if (flags.task == kSimilarity) return Task::kEncoder;
  if (flags.task == "text-classification" || !flags.task_name.empty()) return Task::kSequenceClassification;
  if (flags.task == kQuestionAnswering) return Task::kQuestionAnswering;
  const std::string path = flags.model.model_name_or_path + "/config.json";
  const Task task = TaskFromArchitectures(ReadModelConfig(path), path);
  if (task == Task::kEncoder) FailUsage("--task: {} names no head to evaluate", path);
  return task;
}

TextTable ReadTable(const EvaluateFlags& flags) {
  if (flags.data_dir.empty()) return ReadTextTable(flags.validation_file, /*need_label=*/true);
  const GlueTask& task = FindGlueTask(flags.task_name);
  if (!flags.validation_file.empty()) return ReadGlueFile(task, flags.validation_file, /*need_label=*/true);
  return ReadGlue(task, flags.data_dir, Split::kValidation);
}

SequenceSet Encoded(const EvaluateFlags& flags, const TextTable& table, std::span<const int32_t> labels,
                    const Model& model, const Tokenizer& tokenizer) {
  const int limit = SequenceLimit(flags.max_seq_length, model.config());
  int64_t truncated = 0;
  SequenceSet set = EncodeTable(table, labels, tokenizer, limit, &truncated);
  if (truncated > 0) spdlog::warn("{} of {} texts were cut at --max_seq_length {}", truncated, set.size(), limit);
  return set;
}

Json EvaluateValues(const EvaluateFlags& flags, Model& model, const Tokenizer& tokenizer,
                    const EvaluateOptions& options) {
  if (!flags.task_name.empty() && !FindGlueTask(flags.task_name).regression())
    Fail("--task_name {}: its labels are classes, but {} is a regression", flags.task_name,
         flags.model.model_name_or_path);
  if (model.config().num_labels != 1)
    Fail("{}: a regression with {} outputs; labels are one number", flags.model.model_name_or_path,
         model.config().num_labels);
  const TextTable table = ReadTable(flags);
  const std::vector<double> values = LabelValues(table);
  SequenceSet set = Encoded(flags, table, {}, model, tokenizer);
  for (const double value : values) set.AddValue(static_cast<float>(value));
  set.KeepFirst(flags.max_eval_samples);
  return EvaluateRegression(model, set, options).metrics;
}

Json EvaluateLabels(const EvaluateFlags& flags, Model& model, const Tokenizer& tokenizer, EvaluateOptions options) {
  if (model.config().regression()) return EvaluateValues(flags, model, tokenizer, options);
  const GlueTask* task = flags.task_name.empty() ? nullptr : &FindGlueTask(flags.task_name);
  if (task != nullptr && task->regression())
    Fail("--task_name {}: its labels are values, but {} has {} classes", flags.task_name,
         flags.model.model_name_or_path, model.config().num_labels);
  std::vector<std::string> labels = model.config().labels;
  if (labels.empty() && task != nullptr) labels = task->labels;
  for (int64_t id = static_cast<int64_t>(labels.size()); id < model.config().num_labels; ++id)
    labels.push_back(model.config().label_name(id));
  const TextTable table = ReadTable(flags);
  SequenceSet set = Encoded(flags, table, LabelIds(table, labels), model, tokenizer);
  set.KeepFirst(flags.max_eval_samples);
  options.f1 = task == nullptr || task->f1;
  options.matthews = task != nullptr && task->matthews;
  return EvaluateClassification(model, set, options).metrics;
}

Json EvaluateSentences(const EvaluateFlags& flags, Model& model, const Tokenizer& tokenizer,
                       const EvaluateOptions& options) {
  const TextTable table = ReadTable(flags);
  if (table.pairs.empty()) Fail("{}: expected two columns of text for {}", table.path, kSimilarity);
  std::vector<double> similarities = LabelValues(table);
  TextTable sentences;
  sentences.path = table.path;
  for (int64_t row = 0; row < table.rows(); ++row) {
    sentences.texts.push_back(table.texts[row]);
    sentences.texts.push_back(table.pairs[row]);
  }
  SequenceSet set = Encoded(flags, sentences, {}, model, tokenizer);
  set.KeepFirst(2 * flags.max_eval_samples);
  similarities.resize(static_cast<size_t>(set.size() / 2));
  return EvaluateSimilarity(model, set, similarities, options).metrics;
}

Json EvaluateText(const EvaluateFlags& flags, Model& model, const Tokenizer& tokenizer, const EvaluateOptions& options,
                  uint64_t seed) {
  CorpusOptions reading;
  reading.line_by_line = flags.line_by_line;
  reading.max_seq_length = SequenceLimit(flags.max_seq_length, model.config());
  reading.max_sequences = flags.max_eval_samples;
  const Masker masker(tokenizer, flags.mlm_probability, seed, flags.masking);
  const bool pairs = model.task() == Task::kPretraining;
  if (pairs && flags.line_by_line) FailUsage("--line_by_line: this model is evaluated on pairs of sentences");
  SequenceSet set = pairs ? MakeSentencePairs(ReadSentences({flags.validation_file}, tokenizer), tokenizer,
                                              {.max_seq_length = reading.max_seq_length, .seed = seed})
                          : ReadCorpus({flags.validation_file}, tokenizer, reading);
  set.KeepFirst(flags.max_eval_samples);
  return EvaluateMaskedLm(model, set, masker, options).metrics;
}

Json EvaluateQuestions(const EvaluateFlags& flags, Model& model, const Tokenizer& tokenizer,
                       const EvaluateOptions& options) {
  const SquadUse use = flags.answers.version_2 ? SquadUse::kMayHaveNone : SquadUse::kAnswerable;
  const SquadData data = ReadSquad(flags.validation_file, use, flags.max_eval_samples);
  SquadWindows windows;
  windows.keep_places = true;
  AddSquadWindows(data, tokenizer, {SequenceLimit(flags.max_seq_length, model.config()), flags.doc_stride}, windows);
  const AnswerEvaluation result =
      EvaluateQuestionAnswering(model, data, windows, flags.answers, options, /*scored=*/true);
  if (!flags.output_dir.empty())
    WriteAnswerFiles(data, result.answers, flags.answers.version_2, flags.output_dir, /*prefix=*/"");
  return result.evaluation.metrics;
}

constexpr std::initializer_list<const char*> kMaskingFlags = {"--line_by_line", "--mlm_probability", "--masking",
                                                              "--max_predictions_per_seq"};

void CheckScoringFlags(const CLI::App& command, const EvaluateFlags& flags) {
  constexpr const char* kNoModel = "--predictions are scored without a model and its data";
  RefuseFlags(command,
              {"--model_name_or_path", "--tokenizer_name", "--validation_file", "--data_dir", "--max_eval_samples",
               "--max_seq_length", "--per_device_eval_batch_size", "--output_dir", "--doc_stride",
               "--max_answer_length", "--n_best_size", "--null_score_diff_threshold", "--bf16", "--int8"},
              kNoModel);
  RefuseFlags(command, kMaskingFlags, kNoModel);
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && (name.starts_with("--lsh_") || name == "--attention"))
      FailUsage("{}: {}", name, kNoModel);
  }
  if (flags.task == kQuestionAnswering) {
    RefuseFlags(command, {"--task_name"}, "is for --task text-classification");
    if (!flags.answers.version_2)
      RefuseFlags(command, {"--na_prob_file", "--na_prob_thresh"}, "needs --version_2_with_negative");
    if (flags.na_prob_file.empty()) RefuseFlags(command, {"--na_prob_thresh"}, "needs --na_prob_file");
    return;
  }
  RefuseFlags(command, {"--version_2_with_negative", "--na_prob_file", "--na_prob_thresh"},
              "is for --task question-answering");
  if (flags.task == "fill-mask" || flags.task == kSimilarity)
    FailUsage("--task {}: has no --predictions to score", flags.task);
  if (flags.task_name.empty() && flags.task.empty())
    FailUsage(
        "--task_name: required to score --predictions of a GLUE task; --task text-classification scores files of one's "
        "own, --task question-answering answers");
}

Json ScoreFiles(const EvaluateFlags& flags) {
  if (flags.task == kQuestionAnswering)
    return ScoreSquadFiles(flags.predictions, flags.references, flags.na_prob_file,
                           {flags.answers.version_2, flags.na_prob_thresh});
  if (flags.task_name.empty()) return ScoreOwnFiles(flags.predictions, flags.references);
  return ScoreClassificationFiles(FindGlueTask(flags.task_name), flags.predictions, flags.references);
}

void CheckFlags(const CLI::App& command, const EvaluateFlags& flags) {
  if (flags.predictions.empty() != flags.references.empty())
    FailUsage("--predictions and --references: expected both, got one");
  if (!flags.predictions.empty()) return CheckScoringFlags(command, flags);
  RefuseFlags(command, {"--na_prob_file", "--na_prob_thresh"}, "is for --predictions of --task question-answering");
  if (flags.model.model_name_or_path.empty())
    FailUsage("--model_name_or_path, or --predictions and --references: required");
  if (!flags.task_name.empty()) FindGlueTask(flags.task_name);
  if (!flags.data_dir.empty() && flags.task_name.empty()) FailUsage("--data_dir: needs --task_name");
  constexpr int64_t kMostPairs = INT64_MAX / 2;
  if (flags.task == kSimilarity && flags.max_eval_samples > kMostPairs)
    FailUsage("--max_eval_samples: expected at most {}, got {}", kMostPairs, flags.max_eval_samples);
  if (flags.task == "fill-mask" && !flags.task_name.empty())
    FailUsage("--task_name: is for --task text-classification");
  if (flags.validation_file.empty() && flags.data_dir.empty())
    FailUsage("--validation_file, or --data_dir with --task_name: required");
}

Json Evaluate(const CLI::App& command, EvaluateFlags flags, uint64_t seed) {
  CheckFlags(command, flags);
  if (!flags.predictions.empty()) return ScoreFiles(flags);
  const Task task = TaskOf(flags);
  const bool text = task == Task::kMaskedLm || task == Task::kPretraining, questions = task == Task::kQuestionAnswering;
  CheckAnswerFlags(command, flags.answers, questions);
  if (text) {
    if (flags.validation_file.empty()) FailUsage("--validation_file: required for fill-mask");
    RefuseFlags(command, {"--task_name", "--data_dir"}, "is for --task text-classification");
  } else if (questions) {
    if (flags.validation_file.empty()) FailUsage("--validation_file: required for question-answering");
    RefuseFlags(command, {"--task_name", "--data_dir"}, "is for --task text-classification");
    RefuseFlags(command, kMaskingFlags, "is for --task fill-mask");
  } else {
    RefuseFlags(command, kMaskingFlags, "is for --task fill-mask");
  }
  flags.model.precision = flags.precision.Chosen();
  CheckPrecision(flags.model.precision);
  if (!flags.output_dir.empty()) MakeFolder(flags.output_dir);
  const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(flags.model);
  const ModelPtr model = LoadModel(
      flags.model.model_name_or_path, task, seed, /*require_head=*/task != Task::kEncoder,
      [&](ModelConfig& config) { flags.model.attention.Apply(config.attention); }, WeightPlace::kMappedFile);
  model->set_precision(flags.model.precision);
  EvaluateOptions options;
  options.batch_size = flags.batch_size;
  options.progress = true;
  if (task == Task::kEncoder) return EvaluateSentences(flags, *model, *tokenizer, options);
  if (questions) return EvaluateQuestions(flags, *model, *tokenizer, options);
  return text ? EvaluateText(flags, *model, *tokenizer, options, seed)
              : EvaluateLabels(flags, *model, *tokenizer, options);
}

void AddScoringFlags(CLI::App& command, EvaluateFlags& flags) {
  const char* group = "Files alone (with --task_name or --task)";
  command
      .add_option("--predictions", flags.predictions,
                  "predict_results_TASK.txt: index, prediction; or JSON: question id to answer")
      ->type_name("FILE")
      ->group(group);
  command.add_option("--references", flags.references, "the task's dev.tsv, a table of one's own, or SQuAD JSON")
      ->type_name("FILE")
      ->group(group);
  command.add_option("--na_prob_file", flags.na_prob_file, "JSON: question id to probability of no answer")
      ->type_name("FILE")
      ->group(group);
  command.add_option("--na_prob_thresh", flags.na_prob_thresh, "above it the answer is none")
      ->check(AnyNumber())
      ->group(group);
}

}  // namespace

void AddEvaluate(CLI::App& app, CommonFlags& common) {
  CLI::App* command =
      app.add_subcommand("evaluate", "a model on labelled data or text; or predictions against references");
  auto flags = std::make_shared<EvaluateFlags>();
  const char* group = "Model";
  command->add_option("--model_name_or_path", flags->model.model_name_or_path, "checkpoint folder")
      ->type_name("DIR")
      ->group(group);
  command->add_option("--tokenizer_name", flags->model.tokenizer_name, "tokenizer folder, if not the checkpoint")
      ->type_name("DIR")
      ->group(group);
  command
      ->add_option("--task", flags->task,
                   "which head; default: the one that the model has; sentence-similarity: the cosine of mean "
                   "embeddings of two texts")
      ->check(OneOf({"fill-mask", "text-classification", kQuestionAnswering, kSimilarity}))
      ->group(group);
  group = "Data";
  command
      ->add_option("--validation_file", flags->validation_file,
                   "text (fill-mask); TSV or JSONL with labels; SQuAD JSON; plain or .gz")
      ->type_name("FILE")
      ->group(group);
  command->add_option("--task_name", flags->task_name, "GLUE task")->type_name("NAME")->group(group);
  command->add_option("--data_dir", flags->data_dir, "its folder, with dev.tsv")->type_name("DIR")->group(group);
  command->add_option("--max_eval_samples", flags->max_eval_samples, "first sequences only; 0: all")
      ->check(IntegerIn(0, INT64_MAX))
      ->group(group);
  command->add_option("--max_seq_length", flags->max_seq_length, "tokens per sequence; 0: the position table")
      ->check(IntegerIn(0, INT32_MAX))
      ->group(group);
  command->add_option("--per_device_eval_batch_size", flags->batch_size, "sequences per forward")
      ->check(IntegerIn(1, INT32_MAX))
      ->group(group);
  command->add_flag("--line_by_line", flags->line_by_line, "fill-mask: every line is a sequence")->group(group);
  AddMaskingFlags(*command, flags->mlm_probability, flags->masking, group);
  AddAnswerFlags(*command, flags->answers, flags->doc_stride,
                 "Question answering (of files alone: --version_2_with_negative)");
  AddScoringFlags(*command, *flags);
  group = "Output";
  command->add_option("--output", flags->output, "results as JSON; - is stdout")->type_name("FILE")->group(group);
  command
      ->add_option("--output_dir", flags->output_dir,
                   "folder for eval_results.json, which report reads; question answering: for predictions.json, "
                   "nbest_predictions.json, null_odds.json too")
      ->type_name("DIR")
      ->group(group);
  AddPrecisionFlags(*command, flags->precision, /*inference=*/true);
  AddAttentionFlags(*command, flags->model.attention);
  command->callback([=, &common] {
    const std::string results = Evaluate(*command, *flags, common.seed).dump(2) + "\n";
    if (!flags->output_dir.empty()) WriteFileAtomically(flags->output_dir + "/eval_results.json", results);
    WriteFileAtomically(flags->output, results);
  });
}

}  // namespace lshformer::cli
