// lshformer evaluate: a model on data, without training; or a file of predictions, without a model.
#include "jobs/evaluate.h"

#include <memory>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/precision_flags.h"
#include "data/file_kind.h"
#include "data/glue.h"
#include "eval/score_file.h"
#include "eval/squad_score.h"
#include "jobs/search/retrieval.h"

namespace lshformer::cli {
namespace {

struct EvaluateFlags {
  EvaluateJob job;
  RetrievalJob retrieval;
  PrecisionFlags precision;
  std::string references, predictions, na_prob_file, output = "-";
  double na_prob_thresh = SquadScoring{}.na_prob_thresh;
};

constexpr const char* kQuestionAnswering = "question-answering";
constexpr const char* kSimilarity = "sentence-similarity";
constexpr const char* kRetrieval = "retrieval";

constexpr std::initializer_list<const char*> kMaskingFlags = {
    "--line_by_line", "--mlm_probability", "--objective", "--masking", "--max_predictions_per_seq", "--max_ngram"};

void CheckScoringFlags(const CLI::App& command, const EvaluateFlags& flags) {
  constexpr const char* kNoModel = "--predictions are scored without a model and its data";
  RefuseFlags(command,
              {"--model_name_or_path", "--tokenizer_name", "--validation_file", "--data_dir", "--max_eval_samples",
               "--max_seq_length", "--per_device_eval_batch_size", "--output_dir", "--doc_stride", "--max_query_length",
               "--max_answer_length", "--n_best_size", "--null_score_diff_threshold",
               "--null_score_diff_threshold_from", "--bf16", "--int8", "--float32_matmul_precision", "--compare_exact"},
              kNoModel);
  RefuseFlags(command, kMaskingFlags, kNoModel);
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && (name.starts_with("--lsh_") || name == "--attention"))
      FailUsage("{}: {}", name, kNoModel);
  }
  if (flags.job.task == kQuestionAnswering) {
    RefuseFlags(command, {"--task_name"}, "is for --task text-classification");
    if (!flags.job.answers.version_2)
      RefuseFlags(command, {"--na_prob_file", "--na_prob_thresh"}, "needs --version_2_with_negative");
    if (flags.na_prob_file.empty()) RefuseFlags(command, {"--na_prob_thresh"}, "needs --na_prob_file");
    return;
  }
  RefuseFlags(command, {"--version_2_with_negative", "--na_prob_file", "--na_prob_thresh"},
              "is for --task question-answering");
  if (flags.job.task == "fill-mask" || flags.job.task == "multiple-choice" || flags.job.task == kSimilarity ||
      flags.job.task == kRetrieval)
    FailUsage("--task {}: has no --predictions to score", flags.job.task);
  if (flags.job.task_name.empty() && flags.job.task.empty())
    FailUsage(
        "--task_name: required to score --predictions of a GLUE task; --task text-classification scores files of one's "
        "own, --task question-answering answers");
}

Json ScoreFiles(const EvaluateFlags& flags) {
  if (flags.job.task == kQuestionAnswering)
    return ScoreSquadFiles(flags.predictions, flags.references, flags.na_prob_file,
                           {flags.job.answers.version_2, flags.na_prob_thresh});
  if (flags.job.task_name.empty()) return ScoreOwnFiles(flags.predictions, flags.references);
  return ScoreClassificationFiles(FindGlueTask(flags.job.task_name), flags.predictions, flags.references);
}

// Flags of retrieval: those of its files and those of passages.
void RefuseRetrievalFlags(const CLI::App& command) {
  constexpr const char* kReason = "is for --task retrieval";
  RefuseFlags(command, {"--corpus", "--queries", "--qrels", "--index"}, kReason);
  for (const Option<PassageOptions>& option : PassageTable().options)
    if (command.count("--" + option.name) > 0) FailUsage("--{}: {}", option.name, kReason);
}

Json JudgeRetrieval(const CLI::App& command, EvaluateFlags& flags) {
  constexpr const char* kReason = "has no meaning for --task retrieval";
  RefuseFlags(command,
              {"--validation_file", "--task_name", "--data_dir", "--per_device_eval_batch_size", "--compare_exact",
               "--predictions", "--references", "--na_prob_file", "--na_prob_thresh", "--window_pooling",
               "--prompt_name", "--sequence_parallel"},
              kReason);
  RefuseFlags(command, kMaskingFlags, kReason);
  CheckAnswerFlags(command, flags.job.answers, /*question_answering=*/false);
  RefuseMeaningless(command, PassageTable(), flags.retrieval.passages);
  RetrievalJob& job = flags.retrieval;
  job.model = flags.job.model;
  job.passages.max_seq_length = flags.job.max_seq_length;
  job.passages.long_text = command.count("--long_text") > 0 ? flags.job.long_text : LongTextFor(job.passages.chunking);
  job.max_eval_samples = flags.job.max_eval_samples;
  job.output_dir = flags.job.output_dir;
  job.progress = true;
  CheckRetrievalJob(job);
  return Json(RunRetrieval(job));
}

void CheckFlags(const CLI::App& command, const EvaluateFlags& flags) {
  RefuseRetrievalFlags(command);
  if (flags.predictions.empty() != flags.references.empty())
    FailUsage("--predictions and --references: expected both, got one");
  if (!flags.predictions.empty()) return CheckScoringFlags(command, flags);
  RefuseFlags(command, {"--na_prob_file", "--na_prob_thresh"}, "is for --predictions of --task question-answering");
  if (flags.job.model.model_name_or_path.empty())
    FailUsage("--model_name_or_path, or --predictions and --references: required");
  const Task task = CheckEvaluateJob(flags.job);
  const bool text = task == Task::kMaskedLm || task == Task::kPretraining, questions = task == Task::kQuestionAnswering;
  CheckAnswerFlags(command, flags.job.answers, questions);
  if (text || questions) RefuseFlags(command, {"--task_name", "--data_dir"}, "is for --task text-classification");
  if (!text) RefuseFlags(command, kMaskingFlags, "is for --task fill-mask");
  RefuseMeaningless(command, EvaluateTable(), flags.job);
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
      ->check(NumberIn({}))
      ->group(group);
}

void AddRetrievalFlags(CLI::App& command, RetrievalJob& job) {
  const char* group = "Retrieval";
  command
      .add_option("--corpus", job.corpus, "JSON lines {\"_id\", \"title\", \"text\"}, or lines of text; plain or .gz")
      ->type_name("FILE")
      ->group(group);
  command.add_option("--queries", job.queries, "JSON lines {\"_id\", \"text\"}")->type_name("FILE")->group(group);
  command.add_option("--qrels", job.qrels, "TSV: query-id, corpus-id, score")->type_name("FILE")->group(group);
  command.add_option("--index", job.index, "where the corpus's vectors are kept, to be used again")
      ->type_name("FILE")
      ->group(group);
  AddTableFlags(command, PassageTable(), job.passages, group);
}

}  // namespace

void AddEvaluate(CLI::App& app, CommonFlags& common) {
  CLI::App* command =
      app.add_subcommand("evaluate", "a model on labelled data or text; or predictions against references");
  auto flags = std::make_shared<EvaluateFlags>();
  const char* group = "Model";
  command->add_option("--model_name_or_path", flags->job.model.model_name_or_path, "checkpoint folder")
      ->type_name("DIR")
      ->group(group);
  command->add_option("--tokenizer_name", flags->job.model.tokenizer_name, "tokenizer folder, if not the checkpoint")
      ->type_name("DIR")
      ->group(group);
  AddTableFlags(*command, EvaluateTable(), flags->job);
  AddTableFlags(*command, AnswerTable(), flags->job.answers,
                "Question answering (of files alone: --version_2_with_negative)");
  AddScoringFlags(*command, *flags);
  AddRetrievalFlags(*command, flags->retrieval);
  group = "Output";
  command->add_option("--output", flags->output, "results as JSON; - is stdout")->type_name("FILE")->group(group);
  AddTableFlags(*command, MeetingTable(), flags->job.meeting);
  AddPrecisionFlags(*command, flags->precision, /*inference=*/true);
  AddAttentionFlags(*command, flags->job.model.attention);
  command->callback([=, &common] {
    flags->job.seed = common.seed;
    flags->job.progress = true;
    flags->job.meeting.join = true;
    flags->job.model.precision = flags->precision.Chosen();
    flags->job.model.matmul_precision = flags->precision.ChosenMatmulPrecision();
    RefuseOtherKind(flags->output, {"json", "jsonl"}, "results as JSON (.json)");
    const bool first = PlaceFrom(ProcessEnvironment()).rank == 0;
    if (flags->job.task == kRetrieval) {
      if (first) WriteFileAtomically(flags->output, JudgeRetrieval(*command, *flags).dump(2) + "\n");
      return;
    }
    CheckFlags(*command, *flags);
    if (!first && !flags->predictions.empty()) return;
    const Json results = flags->predictions.empty() ? Json(RunEvaluate(flags->job)) : ScoreFiles(*flags);
    if (!first) return;
    WriteFileAtomically(flags->output, results.dump(2) + "\n");
  });
}

}  // namespace lshformer::cli
