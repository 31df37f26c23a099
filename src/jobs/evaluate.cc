#include "jobs/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/folder_lock.h"
#include "base/logging.h"
#include "data/glue.h"
#include "data/passages/text_groups.h"
#include "eval/answer_files.h"
#include "eval/cosines.h"
#include "eval/evaluate.h"
#include "io/gzip.h"
#include "jobs/build_info.h"
#include "jobs/data/choice_data.h"
#include "jobs/data/label_data.h"
#include "jobs/data/question_data.h"
#include "jobs/data/text_data.h"
#include "jobs/embedding/evaluate_lists.h"
#include "jobs/model_source.h"
#include "jobs/use_matmul_precision.h"
#include "models/family.h"

namespace lshformer {
namespace {

constexpr const char* kSimilarity = "sentence-similarity";

// Whether exact attention has a figure of its own: sizes are the same, times and shares of pairs say nothing of it.
bool DependsOnAttention(const std::string& key) {
  constexpr std::array kOthers{"runtime", "per_second", "samples", "total", "pairs_fraction", "hashed_fraction"};
  return std::none_of(kOthers.begin(), kOthers.end(),
                      [&](const char* part) { return key.find(part) != std::string::npos; });
}

// What every kind of data is evaluated with.
struct Subject {
  const EvaluateJob& job;
  Model& model;
  ModelPtr exact;  // the same weights under exact attention, to compare with; null: nothing is compared
  const Tokenizer& tokenizer;
  EvaluateOptions options;
  const SentenceModules* modules;  // of sentence-similarity, where the folder has some
  int SequenceLimit() const { return lshformer::SequenceLimit(job.max_seq_length, model.config()); }
  TextEncoding Encoding() const { return {.max_seq_length = SequenceLimit(), .long_text = job.long_text}; }

  // evaluate(model, options) → metrics: the model's, and beside them those of the exact one.
  template <class EvaluateOne>
  Json Compared(const EvaluateOne& evaluate) const {
    if (exact == nullptr) return evaluate(model, options);
    StateCosines cosines;
    EvaluateOptions observed = options;
    observed.observe = [&](const PackedBatch& batch, const ModelOutput& output) { cosines.Keep(batch, output); };
    Json metrics = evaluate(model, observed);
    observed.observe = [&](const PackedBatch& batch, const ModelOutput& output) { cosines.Compare(batch, output); };
    observed.title = "with exact attention";
    const Json figures = evaluate(*exact, observed);
    for (const auto& [key, value] : figures.items())
      if (DependsOnAttention(key)) metrics[key + "_exact"] = value;
    metrics["eval_cosine_to_exact_mean"] = cosines.mean();
    metrics["eval_cosine_to_exact_worst"] = cosines.worst();
    return metrics;
  }
};

TextTable ReadTable(const EvaluateJob& job) {
  return ReadLabelTable(job.task_name, job.data_dir, job.validation_file, Split::kValidation);
}

Json EvaluateLabels(Subject subject) {
  const EvaluateJob& job = subject.job;
  const ModelConfig& config = subject.model.config();
  const GlueTask* task = job.task_name.empty() ? nullptr : &FindGlueTask(job.task_name);
  LabelTables tables;
  tables.task = task;
  tables.multi_label = config.multi_label();
  tables.regression = config.regression();
  if (task != nullptr && tables.multi_label)
    Fail("{} {}: its rows have one label, but {} gives several", OptionName{"task_name"}, job.task_name,
         job.model.model_name_or_path);
  if (task != nullptr && tables.regression && !task->regression())
    Fail("{} {}: its labels are classes, but {} is a regression", OptionName{"task_name"}, job.task_name,
         job.model.model_name_or_path);
  if (task != nullptr && !tables.regression && task->regression())
    Fail("{} {}: its labels are values, but {} has {} classes", OptionName{"task_name"}, job.task_name,
         job.model.model_name_or_path, config.num_labels);
  if (tables.regression && config.num_labels != 1)
    Fail("{}: a regression with {} outputs; labels are one number", job.model.model_name_or_path, config.num_labels);
  if (!tables.regression) tables.labels = LabelsOfModel(config, task, job.model.model_name_or_path);
  ChooseMetrics(tables, subject.options);
  tables.validation.push_back(ReadTable(job));
  tables.validation_other = ReadOtherTable(task, job.data_dir, job.validation_file, Split::kValidation);
  if (task == nullptr) RequireLabelKind(tables.validation, tables.multi_label);
  for (auto* validation : {&tables.validation, &tables.validation_other}) LimitAll(*validation, job.max_eval_samples);
  const auto encoded = [&](const std::vector<TextTable>& validation) {
    return EncodeTables(validation, &tables, subject.tokenizer, subject.Encoding());
  };
  const SequenceSet set = encoded(tables.validation), other = encoded(tables.validation_other);
  RequireTypes(tables.validation, set, config);
  return subject.Compared([&](Model& model, const EvaluateOptions& options) {
    const EvaluateLabelled evaluate = EvaluationOf(tables);
    Json metrics = evaluate(model, set, options).metrics;
    if (!tables.validation_other.empty()) AddOther(evaluate(model, other, options).metrics, metrics);
    return metrics;
  });
}

// The labels as numbers; of a GLUE task of classes the classes' own, 1 for MRPC's and QQP's pairs that say the same.
std::vector<double> Similarities(const TextTable& table, const std::string& task_name) {
  if (task_name.empty() || FindGlueTask(task_name).regression()) return LabelValues(table);
  const std::vector<int32_t> ids = LabelIds(table, FindGlueTask(task_name).labels);
  return {ids.begin(), ids.end()};
}

// How sentences are encoded, and what stands before each of them.
TextEncoding EncodingOfSentences(const Subject& subject, std::string& prompt, int64_t& prompt_tokens) {
  TextEncoding how = subject.Encoding();
  const SentenceModules* modules = subject.modules;
  const std::string& name = subject.job.prompt_name;
  if (modules == nullptr) {
    if (!name.empty()) FailOption("prompt_name", "the folder has no prompts, got \"{}\"", Shown(name));
    return how;
  }
  how.lower_case = modules->lower_cases();
  if (subject.job.max_seq_length == 0 && how.long_text != LongText::kWhole)
    how.max_seq_length = static_cast<int>(modules->LongestText(subject.tokenizer, how.max_seq_length));
  prompt = modules->Prompt(name.empty() ? std::nullopt : std::optional(name));
  if (prompt.empty()) return how;
  prompt_tokens = modules->PromptTokens(subject.tokenizer, prompt, how.max_seq_length);
  if (how.long_text == LongText::kWindows) how.lead = prompt_tokens;
  return how;
}

// Whose first row tells which kind of rows it has.
bool HasOwnFile(const EvaluateJob& job) {
  return job.task_name.empty() && !job.validation_file.empty() && CanBeReadAgain(job.validation_file);
}

struct ScoredSentences {
  TextTable texts;  // 2i and 2i + 1 are pair i
  std::vector<double> similarities;
  void Add(const std::string& first, const std::string& second, int64_t line) {
    texts.texts.insert(texts.texts.end(), {first, second});
    texts.lines.insert(texts.lines.end(), 2, line);
  }
};

// Pairs as a table of labels has them.
ScoredSentences LabelledSentences(const EvaluateJob& job) {
  std::vector<TextTable> tables{ReadTable(job)};
  LimitAll(tables, job.max_eval_samples);
  const TextTable& table = tables.front();
  if (table.pairs.empty()) Fail("{}: expected two columns of text for {}", table.path, kSimilarity);
  RequireLabelKind(tables, /*multi_label=*/false);
  ScoredSentences sentences;
  sentences.texts.path = table.path;
  sentences.similarities = Similarities(table, job.task_name);
  for (int64_t row = 0; row < table.rows(); ++row) {
    if (!table.pairs[row])
      Fail("{}:{}: has no second text (\"{}\")", table.path, table.lines[row], Shown(table.columns.pair));
    sentences.Add(table.texts[row], *table.pairs[row], table.lines[row]);
  }
  return sentences;
}

// Pairs as the training of embeddings reads them.
ScoredSentences GroupedSentences(const EvaluateJob& job) {
  TextGroups groups = ReadTextGroups(job.validation_file);
  groups.KeepFirst(job.max_eval_samples);
  const std::vector<GroupText>& columns = groups.rows.front();
  if (groups.scores.empty())
    Fail(
        "{}: {} and {} have no score, or not in every row, which {} compares with; {} retrieval judges by what is "
        "found",
        Shown(job.validation_file, 120), columns[0].column, columns[1].column, kSimilarity, OptionName{"task"});
  ScoredSentences sentences;
  sentences.texts.path = groups.path;
  sentences.similarities = groups.scores;
  for (size_t row = 0; row < groups.rows.size(); ++row)
    sentences.Add(groups.rows[row][0].text, groups.rows[row][1].text, groups.lines[row]);
  return sentences;
}

Json EvaluateSentences(const Subject& subject) {
  const EvaluateJob& job = subject.job;
  const bool groups = HasOwnFile(job) && HasPairColumns(job.validation_file);
  ScoredSentences sentences = groups ? GroupedSentences(job) : LabelledSentences(job);
  SentenceVectors vectors{subject.modules};
  std::string prompt;
  const TextEncoding how = EncodingOfSentences(subject, prompt, vectors.prompt_tokens);
  if (subject.modules != nullptr) subject.modules->Width(subject.model.config().hidden_size);
  for (std::string& text : sentences.texts.texts) text.insert(0, prompt);
  const std::vector<double>& similarities = sentences.similarities;
  const SequenceSet set = EncodeTables({sentences.texts}, /*known=*/nullptr, subject.tokenizer, how);
  return subject.Compared([&](Model& model, const EvaluateOptions& options) {
    return EvaluateSimilarity(model, set, similarities, options, vectors).metrics;
  });
}

// Of a reranker.
Json EvaluateRanking(const Subject& subject) {
  const EvaluateJob& job = subject.job;
  const ModelConfig& config = subject.model.config();
  if (config.num_labels != 1)
    Fail("{}: lists of passages are for a model of one output, {} has {}", Shown(job.validation_file, 120),
         job.model.model_name_or_path, config.num_labels);
  if (job.compare_exact) FailOption("compare_exact", "is not for lists of passages");
  if (job.long_text != LongText::kCut) FailOption("long_text", "is not for lists of passages, which are cut");
  std::vector<RankedList> lists = ReadRankedLists(job.validation_file);
  if (job.max_eval_samples > 0 && job.max_eval_samples < std::ssize(lists))
    lists.resize(static_cast<size_t>(job.max_eval_samples));
  const ListData data = PrepareLists(lists, subject.tokenizer, subject.SequenceLimit());
  RequireTypes(data.set, config, Shown(job.validation_file, 120));
  return EvaluateLists(subject.model, data, subject.options);
}

Json EvaluateText(Subject subject) {
  const EvaluateJob& job = subject.job;
  TextOptions text{.max_seq_length = subject.SequenceLimit(), .line_by_line = job.line_by_line, .seed = job.seed};
  if (subject.model.task() == Task::kPretraining)
    text.pairs = PairsOf(job.objective).value_or(FamilyOf(subject.model.config()).sentence_pairs.kind);
  if (text.pairs) subject.options.pairs = *text.pairs;
  if (text.pairs) RequireTypesOfPairs(*text.pairs, subject.model.config());
  const Masker masker(subject.tokenizer, job.mlm_probability, job.seed, job.masking);
  if (text.pairs && text.line_by_line) FailOption("line_by_line", "this model is evaluated on pairs of sentences");
  const SequenceSet set = ReadTextToMask({job.validation_file}, subject.tokenizer, text, job.max_eval_samples);
  return subject.Compared([&](Model& model, const EvaluateOptions& options) {
    return EvaluateMaskedLm(model, set, masker, options).metrics;
  });
}

Json EvaluateQuestions(const Subject& subject) {
  const EvaluateJob& job = subject.job;
  const AnswerOptions search = WithThreshold(job.answers);
  const QuestionSet set = ReadQuestions(job.validation_file, LabelledUse(search), job.max_eval_samples,
                                        subject.tokenizer, search.Excerpts(subject.SequenceLimit()));
  RequireTypes(set.excerpts.set, subject.model.config(), set.data.path);
  return subject.Compared([&](Model& model, const EvaluateOptions& options) {
    const AnswerEvaluation result =
        EvaluateQuestionAnswering(model, set.data, set.excerpts, search, options, /*scored=*/true);
    const bool first = options.processes == nullptr || options.processes->first();
    if (!job.output_dir.empty() && &model == &subject.model && first)
      WriteAnswerFiles(set.data, result.answers, search.version_2, job.output_dir, /*prefix=*/"");
    return result.evaluation.metrics;
  });
}

Json EvaluateChoices(const Subject& subject) {
  const EvaluateJob& job = subject.job;
  const std::string path =
      job.validation_file.empty() ? RacePath(job.data_dir, Split::kValidation) : job.validation_file;
  const ChoiceData data = ReadChoices(path, /*labelled=*/true, job.max_eval_samples);
  const SequenceSet set = EncodeWarned(data, /*labelled=*/true, subject.tokenizer,
                                       ChoiceLimit(job.max_seq_length, subject.tokenizer, subject.model.config()));
  RequireTypes(set, subject.model.config(), data.questions.front().where);
  return subject.Compared([&](Model& model, const EvaluateOptions& options) {
    return WithLevels(data, EvaluateMultipleChoice(model, set, options));
  });
}

Json Evaluate(const Subject& subject) {
  switch (subject.model.task()) {
    case Task::kEncoder:
      return EvaluateSentences(subject);
    case Task::kMultipleChoice:
      return EvaluateChoices(subject);
    case Task::kQuestionAnswering:
      return EvaluateQuestions(subject);
    case Task::kMaskedLm:
    case Task::kPretraining:
      return EvaluateText(subject);
    case Task::kSequenceClassification:
      break;
  }
  const EvaluateJob& job = subject.job;
  if (HasOwnFile(job) && HasRankedLists(job.validation_file)) return EvaluateRanking(subject);
  return EvaluateLabels(subject);
}

}  // namespace

Task CheckEvaluateJob(const EvaluateJob& job) {
  ValidateOptions(EvaluateTable(), job);
  ValidateOptions(AnswerTable(), job.answers);
  if (job.model.model_name_or_path.empty()) FailOption("model_name_or_path", "required");
  if (!job.task_name.empty()) FindGlueTask(job.task_name);
  if (job.task == "fill-mask" && !job.task_name.empty())
    FailOption("task_name", "is for {} text-classification", OptionName{"task"});
  if (job.validation_file.empty() && job.data_dir.empty())
    FailUsage("{}, or {} with {}: required", OptionName{"validation_file"}, OptionName{"data_dir"},
              OptionName{"task_name"});
  const bool glue = job.task.empty() && !job.task_name.empty(), similarity = job.task == kSimilarity;
  Task task =
      similarity ? Task::kEncoder : NamedTask(glue ? "text-classification" : job.task, job.model.model_name_or_path);
  if (!job.data_dir.empty() && job.task_name.empty() && task != Task::kMultipleChoice)
    FailOption("data_dir", "needs {}, or {} multiple-choice", OptionName{"task_name"}, OptionName{"task"});
  if (!job.prompt_name.empty() && !similarity)
    FailOption("prompt_name", "is for {} {}", OptionName{"task"}, kSimilarity);
  if (job.long_text != LongText::kCut && !similarity && task != Task::kSequenceClassification)
    FailOption("long_text", "is for {} text-classification and {}", OptionName{"task"}, kSimilarity);
  if (similarity) return task;
  if (task == Task::kEncoder)
    FailOption("task", "{}/config.json names no head to evaluate", job.model.model_name_or_path);
  if (!job.objective.empty()) {
    if (task != Task::kMaskedLm && task != Task::kPretraining)
      FailOption("objective", "is for {} fill-mask", OptionName{"task"});
    task = PairsOf(job.objective) ? Task::kPretraining : Task::kMaskedLm;
  }
  if (task == Task::kMultipleChoice) {
    if (!job.task_name.empty()) FailOption("task_name", "is for {} text-classification", OptionName{"task"});
    return task;
  }
  if (task != Task::kSequenceClassification && job.validation_file.empty())
    FailOption("validation_file", "required for {}",
               task == Task::kQuestionAnswering ? "question-answering" : "fill-mask");
  return task;
}

namespace {

void CheckComparable(const std::string& folder, const ModelConfig& config) {
  if (!FamilyOf(config).encoder_layers)
    FailOption("compare_exact", "a model of type \"{}\" has no self-attention", config.model_type);
  if (std::none_of(config.attention.begin(), config.attention.end(), IsSparse))
    FailOption("compare_exact", "there is nothing to compare, {} has exact attention; {} names another", folder,
               OptionName{"attention"});
}

}  // namespace

namespace {

void RequireSameJob(const EvaluateJob& job, const Model& model, Communicator& processes) {
  std::string weights;
  for (const auto& [name, tensor] : model.NamedParameters())
    weights += DigestOfText({static_cast<const char*>(tensor.data_ptr()), static_cast<size_t>(tensor.nbytes())});
  Json flags = AttentionSettings(job.model.attention);
  WriteOptions(EvaluateTable(), job, flags);
  WriteOptions(AnswerTable(), job.answers, flags);
  flags["seed"] = job.seed;
  flags["bf16"] = job.model.precision == Precision::kBFloat16;
  flags["int8"] = job.model.precision == Precision::kInt8;
  flags["float32_matmul_precision"] = Name(ActiveMatmulPrecision());
  std::vector<std::pair<std::string, std::string>> facts = ProgramFacts();
  for (const auto& [name, value] : flags.items()) facts.emplace_back(name, value.dump());
  facts.emplace_back("what the model's weights are", DigestOfText(weights));
  RequireSame(processes, facts);
}

}  // namespace

Figures RunEvaluate(const EvaluateJob& job) {
  const HeldLog warnings;
  const Task task = CheckEvaluateJob(job);
  CheckPrecision(job.model.precision);
  UseMatmulPrecision(job.model.matmul_precision);
  const std::shared_ptr<Communicator> processes = JoinProcesses(job.meeting);
  const bool first = processes == nullptr || processes->first();
  std::optional<FolderLock> lock;
  if (!job.output_dir.empty() && first) {
    lock.emplace(job.output_dir, Marked("output_dir"));
    MakeFolder(job.output_dir);
  }
  const std::string& folder = job.model.model_name_or_path;
  const std::shared_ptr<const SentenceModules> modules =
      job.task == kSimilarity ? SentenceModules::Read(folder) : nullptr;
  ModelSource source = job.model;
  if (modules) source.model_name_or_path = modules->encoder_folder();
  const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(source);
  std::optional<AttentionChange> change;
  const ModelPtr model = LoadModel(
      source.model_name_or_path, task, job.seed, /*require_head=*/task != Task::kEncoder,
      [&](ModelConfig& config) {
        change = ChangeAttention(folder, job.model.attention, config);
        if (job.compare_exact) CheckComparable(folder, config);
      },
      WeightPlace::kMappedFile);
  CheckTokenizer(FamilyOf(model->config()), *tokenizer, folder);
  WarnOfAttention(*model, change);
  const ModelPtr exact = job.compare_exact ? WithAttention(*model, {AttentionSpec{}}) : nullptr;
  for (const ModelPtr& each : {model, exact})
    if (each != nullptr) each->set_precision(job.model.precision);
  EvaluateOptions options;
  options.batch_size = job.batch_size;
  options.progress = job.progress && first;
  options.window_pooling = job.window_pooling;
  options.processes = processes.get();
  if (job.sequence_parallel && processes != nullptr)
    for (const ModelPtr& each : {model, exact})
      if (each != nullptr) each->ShareTokens(processes.get());
  if (processes != nullptr) RequireSameJob(job, *model, *processes);
  const Json metrics = Evaluate({job, *model, exact, *tokenizer, options, modules.get()});
  if (!first) return {};
  if (!job.output_dir.empty()) WriteFileAtomically(job.output_dir + "/eval_results.json", metrics.dump(2) + "\n");
  return metrics;
}

}  // namespace lshformer
