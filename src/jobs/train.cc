#include "jobs/train.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/signals.h"
#include "eval/answer_files.h"
#include "eval/score_file.h"
#include "jobs/data/choice_data.h"
#include "jobs/data/label_data.h"
#include "jobs/data/question_data.h"
#include "jobs/data/word_source.h"
#include "jobs/embedding/listwise_training.h"
#include "jobs/embedding/similarity_training.h"
#include "jobs/seed_runs.h"
#include "jobs/training_run.h"
#include "models/config.h"

namespace lshformer {
namespace {

// A checkpoint's labels are those of another head.
void ForgetLabels(ModelConfig& config) {
  config.num_labels = ModelConfig{}.num_labels;
  config.labels.clear();
  config.problem_type.clear();
}

// What the training data and the word vectors decide.
void CheckOverrides(const TrainOptions& options) {
  constexpr const char* kOfTheData[] = {"architectures", "num_labels", "id2label", "label2id", "problem_type"};
  for (const auto& [key, value] : SplitOverrides(options.model.config_overrides, Marked("config_overrides"))) {
    if (std::find(std::begin(kOfTheData), std::end(kOfTheData), key) != std::end(kOfTheData))
      FailOption("config_overrides", "\"{}\" follows from the training data and {}", key, OptionName{"task"});
    if (key == "fixed_word_embeddings" || (key == "embedding_size" && !options.word_vectors.empty()))
      FailOption("config_overrides", "\"{}\" follows from {}", key, OptionName{"word_vectors"});
  }
}

JobResult RunTrainChoices(const TrainOptions& options, TrainingJob& job) {
  const ChoiceTables tables = ReadChoiceTables(options, job.do_eval);
  job.model = MakeModel(options.model, job.start.resume_from, Task::kMultipleChoice, *job.tokenizer, options.training,
                        ForgetLabels);
  const int limit = ChoiceLimit(options.max_seq_length, *job.tokenizer, job.model->config());
  const auto encode = [&](const ChoiceData& data, bool labelled) {
    return EncodeWarned(data, labelled, *job.tokenizer, limit);
  };
  const SequenceSet train = encode(tables.train, true), validation = encode(tables.validation, true),
                    test = encode(tables.test, false);
  ThrowIfStopped("reading the questions");
  RequireTypes(train, job.model->config(), tables.train.questions.front().where);
  job.train_set = &train;
  job.validation_sets = {&validation};
  job.batch = [&](int64_t, std::span<const int64_t> examples) { return MakeBatch(train, examples); };
  const EvaluateOptions evaluating = Evaluating(job);
  job.metrics = EvaluationKeys(job.model->config(), Task::kMultipleChoice, evaluating);
  for (std::string& key : LevelKeys(tables.validation)) job.metrics.push_back(std::move(key));
  job.evaluate = [&] {
    return WithLevels(tables.validation, EvaluateMultipleChoice(*job.model, validation, evaluating));
  };
  return RunTrainingJob(job, [&] {
    if (!options.do_predict) return;
    const Evaluation predicted = EvaluateMultipleChoice(*job.model, test, evaluating);
    if (!job.first()) return;
    WritePredictions(PredictionsPath(options.folder.output_dir, /*task=*/nullptr), predicted.predictions,
                     OptionNumbers());
  });
}

// The model, and for a new one that reads words the vocabulary.
void MakeQuestionModel(const TrainOptions& options, TrainingJob& job) {
  std::optional<WordSource> words;
  if (MakesVocabulary(options.model)) {
    words = ReadWordSource(options.train_files, LabelledUse(options.answers), options.word_vectors);
    job.tokenizer = words->tokenizer;
  } else if (!options.word_vectors.empty()) {
    FailOption("word_vectors", "is for a model that reads words (bidaf, qanet)");
  }
  job.model = MakeModel(options.model, job.start.resume_from, Task::kQuestionAnswering, *job.tokenizer,
                        options.training, [&](ModelConfig& config) {
                          ForgetLabels(config);
                          if (words && words->vectors) TakeVectors(*words, config);
                        });
  if (words && words->vectors && job.start.resume_from.empty()) CopyVectors(*words->vectors, *job.model);
}

JobResult RunTrainQuestions(const TrainOptions& options, TrainingJob& job) {
  const AnswerOptions& search = options.answers;
  MakeQuestionModel(options, job);
  job.metrics = EvaluationKeys(job.model->config(), Task::kQuestionAnswering, {}, search.version_2);
  CheckBestMetric(job.training, job.metrics);  // before the questions are read
  const QuestionData data = ReadQuestionData(options, job.do_eval, *job.tokenizer, job.model->config());
  ThrowIfStopped("reading the questions");
  RequireTypes(data.train, job.model->config(), Shown(options.train_files.front(), 120));
  job.train_set = &data.train;
  job.validation_sets = {&data.validation.excerpts.set};
  job.batch = [&](int64_t, std::span<const int64_t> examples) { return MakeBatch(data.train, examples); };
  const EvaluateOptions evaluating = Evaluating(job);
  std::vector<FoundAnswer> answers;  // of the last evaluation
  job.evaluate = [&] {
    AnswerEvaluation result = EvaluateQuestionAnswering(*job.model, data.validation.data, data.validation.excerpts,
                                                        search, evaluating, /*scored=*/true);
    answers = std::move(result.answers);
    return result.evaluation.metrics;
  };
  const std::string& folder = options.folder.output_dir;
  return RunTrainingJob(job, [&] {
    if (job.do_eval) {
      if (answers.empty()) job.evaluate();  // resumed behind the last evaluation
      if (job.first()) WriteAnswerFiles(data.validation.data, answers, search.version_2, folder, /*prefix=*/"");
    }
    if (!options.do_predict) return;
    const AnswerEvaluation predicted =
        EvaluateQuestionAnswering(*job.model, data.test.data, data.test.excerpts, search, evaluating, /*scored=*/false);
    if (job.first()) WriteAnswerFiles(data.test.data, predicted.answers, search.version_2, folder, "predict_");
  });
}

// HF's file of predictions, and for a GLUE task the benchmark's.
void WritePredicted(const std::string& folder, const LabelTables& tables, const GlueTask* task,
                    const Evaluation& predicted) {
  const std::string path = PredictionsPath(folder, task);
  if (tables.multi_label) {
    WriteLabelSets(path, predicted.flags, tables.labels);
  } else if (tables.regression) {
    WriteValues(path, predicted.values);
    if (task != nullptr) WriteSubmission(folder, *task, predicted.values);
  } else {
    WritePredictions(path, predicted.predictions, tables.labels);
    if (task != nullptr) WriteSubmission(folder, *task, predicted.predictions, tables.labels);
  }
}

JobResult RunTrainLabels(const TrainOptions& options, TrainingJob& job) {
  LabelTables tables = ReadLabelTables(options, job.do_eval);
  job.model = MakeModel(options.model, job.start.resume_from, Task::kSequenceClassification, *job.tokenizer,
                        options.training, [&](ModelConfig& config) { AgreeOnLabels(tables, config); });
  if (options.do_predict) RequireWritable(tables);
  const LabelData data = Encode(tables, *job.tokenizer, SequenceLimit(options.max_seq_length, job.model->config()));
  for (const auto& [read, set] :
       {std::pair(&tables.train, &data.train), {&tables.validation, &data.validation}, {&tables.test, &data.test}})
    RequireTypes(*read, *set, job.model->config());
  ThrowIfStopped("reading the training data");
  job.train_set = &data.train;
  job.validation_sets = {&data.validation, &data.validation_other};
  job.batch = [&](int64_t, std::span<const int64_t> examples) { return MakeBatch(data.train, examples); };
  EvaluateOptions evaluating = Evaluating(job);
  ChooseMetrics(tables, evaluating);
  const bool other = data.validation_other.size() > 0;
  job.metrics = EvaluationKeys(job.model->config(), Task::kSequenceClassification, evaluating);
  if (other) job.metrics = WithOther(std::move(job.metrics));
  const EvaluateLabelled evaluate = EvaluationOf(tables);
  job.evaluate = [&] {
    Json metrics = evaluate(*job.model, data.validation, evaluating).metrics;
    if (other) AddOther(evaluate(*job.model, data.validation_other, evaluating).metrics, metrics);
    return metrics;
  };
  const std::string& folder = options.folder.output_dir;
  return RunTrainingJob(job, [&] {
    if (!options.do_predict) return;
    const auto predict = [&](const SequenceSet& test, const GlueTask* task) {
      const Evaluation predicted = evaluate(*job.model, test, evaluating);
      if (job.first()) WritePredicted(folder, tables, task, predicted);
    };
    predict(data.test, tables.task);
    if (data.test_other.size() > 0) predict(data.test_other, &FindGlueTask(tables.task->mismatched));
  });
}

std::vector<OptionFile> FilesOf(const TrainOptions& options) {
  std::vector<OptionFile> files;
  for (const std::string& file : options.train_files) files.emplace_back("train_file", file);
  if (options.folder.seeds.empty()) return files;
  files.emplace_back("validation_file", options.validation_file);
  files.emplace_back("test_file", options.test_file);
  files.emplace_back("word_vectors", options.word_vectors);
  return files;
}

}  // namespace

JobResult RunTrain(const TrainOptions& given) {
  CheckTrainingJob(given, TrainTable());
  TrainOptions options = given;
  // Read once, for all seeds; training_args.json has the number.
  options.answers = WithThreshold(given.answers);
  CheckLabelSource(options);
  CheckOverrides(options);
  if (!options.question_answering() && MakesVocabulary(options.model))
    FailOption("model_type", "a model that reads words is for {} question-answering", OptionName{"task"});
  if (options.training.sequence_parallel && (options.embeddings() || options.listwise()))
    FailOption("sequence_parallel", "is not for {} {}, whose texts are many and short", OptionName{"task"},
               options.task);
  const std::vector<OptionFile> files = FilesOf(options);
  const std::shared_ptr<Communicator> processes = JoinTraining(options);
  if (!options.folder.seeds.empty()) return RunEachSeed(options, files, RunTrain);
  if (MakesVocabulary(options.model)) RequireReadAgain(files, "model_type");  // the words, then the questions
  HeldLog warnings;
  TrainingJob job =
      BeginTrainingJob("fine-tuning", options, TrainTable(), {{"command", "train"}, {"task", options.task}}, processes);
  job.warnings = &warnings;
  if (job.start.finished) return FinishedBefore(job);
  if (options.multiple_choice()) return RunTrainChoices(options, job);
  if (options.embeddings()) return RunTrainEmbeddings(options, job);
  if (options.listwise()) return RunTrainLists(options, job);
  return options.question_answering() ? RunTrainQuestions(options, job) : RunTrainLabels(options, job);
}

}  // namespace lshformer
