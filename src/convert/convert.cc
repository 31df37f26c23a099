#include "convert/convert.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/logging.h"
#include "base/progress.h"
#include "convert/calibration.h"
#include "convert/choice.h"
#include "convert/converted_folder.h"
#include "convert/head_policy.h"
#include "convert/kept_choice.h"
#include "convert/quality.h"
#include "convert/recovery.h"
#include "eval/evaluate.h"
#include "jobs/measure.h"
#include "jobs/training_display.h"
#include "models/family.h"
#include "models/stored_directions.h"
#include "models/weights.h"
#include "nn/sentence/modules.h"
#include "report/conversion_page.h"

namespace lshformer {
namespace {

constexpr int kSeeds = 5;  // where directions are drawn

// Whether the model keeps the attention that it has: only its table of positions is to be longer.
bool KeepsAttention(const ConvertOptions& options) {
  return options.attention.attention.empty() && options.attention.keys.empty() && options.budget_pairs == 0 &&
         options.budget_time == 0 && options.extend_positions > 0;
}

bool MeasuresTask(const ConvertOptions& options) {
  return !options.validation_file.empty() || !options.data_dir.empty();
}

// The head whose forward gives hidden states with the least around them; to recover answers it is the model's own.
Task TaskToRun(const ModelConfig& config, const std::string& path, bool recover) {
  if (recover && FindTask(config) == Task::kQuestionAnswering) return Task::kQuestionAnswering;
  for (const Head& head : FamilyOf(config).heads)
    if (head.task == Task::kEncoder) return head.task;
  return TaskFromArchitectures(config, path);
}

// The attention that is asked for, by layer; before a budget chooses.
std::vector<AttentionSpec> WantedAttention(const ConvertOptions& options, const ModelConfig& config) {
  if (KeepsAttention(options)) return config.attention;
  AttentionChanges changes = options.attention;
  if (changes.attention.empty()) changes.attention = ClusteredAttention::kName;
  ModelConfig wanted = config;
  wanted.attention = ExactAttention(config.attention);
  ApplyAttention(changes, wanted);
  const bool told = !changes.Given("directions").is_null();
  return told ? wanted.attention : WithDirections(wanted.attention, Directions::kStored);
}

// What a conversion knows by and by.
struct Work {
  const ConvertOptions& options;
  std::string folder, source;   // the model's, or a copy of it with more positions; the encoder's, which may lie in it
  std::string unfinished = "";  // the folder of what is kept while the recovery goes on; "": nothing is
  std::shared_ptr<const Tokenizer> tokenizer = {};
  ModelPtr exact = {};
  CalibrationTexts texts{};
  std::optional<MaskedWords> masked = {};  // of a model that has a head for them
  LayerDirections directions = {};
  AnswersFrom from = AnswersFrom::kMeanState;
  std::vector<AttentionSpec> wanted = {};  // what the options ask for, one or by layer
  Candidate result{};
  ModelPtr recovered = {};  // with weights of its own
  Json report = Json::object();

  bool HasBudget() const { return options.budget_pairs > 0 || options.budget_time > 0; }
};

// Heads that read the states of single words: questions', masked words'.
bool AnswersWithWords(std::optional<Task> task) {
  return task == Task::kQuestionAnswering || task == Task::kMaskedLm || task == Task::kPretraining;
}

// The model with exact attention where a conversion changes it.
ModelPtr LoadAsExact(const Work& work, Task task, bool require_head) {
  return LoadModel(
      work.source, task, work.options.seed, require_head,
      [](ModelConfig& loaded) { loaded.attention = ExactAttention(loaded.attention); }, WeightPlace::kMappedFile);
}

void LoadExact(Work& work) {
  const std::string path = work.source + "/config.json";
  const ModelConfig config = ReadModelConfig(path);
  if (!FamilyOf(config).encoder_layers)
    FailOption("model_name_or_path", "a model of type \"{}\" has no self-attention to convert", config.model_type);
  for (const AttentionSpec& spec : config.attention)
    if (!KeepsAttention(work.options) && IsConverted(spec) && !Is<DenseAttention>(spec) &&
        !Is<ClusteredAttention>(spec))
      FailOption("model_name_or_path", "{} was made with {} attention; a conversion begins with an exact model",
                 Shown(work.options.model_name_or_path, 120), Name(spec));
  work.wanted = WantedAttention(work.options, config);
  work.tokenizer = Tokenizer::Load(work.source);
  if (AnswersWithWords(FindTask(config)) || work.options.task == "question-answering")
    work.from = AnswersFrom::kTokenStates;
  const Task task = TaskToRun(config, path, work.options.recover_steps > 0);
  work.exact = LoadAsExact(work, task, /*require_head=*/task != Task::kEncoder);
  CheckTokenizer(FamilyOf(config), *work.tokenizer, work.source);
  work.texts = ReadCalibrationTexts(work.options.calibrate, *work.tokenizer, config, work.options.max_seq_length);
  if (!KeepsAttention(work.options)) CheckTexts(work.texts, *work.tokenizer);
  if (const std::optional<Task> own = FindTask(config); own == Task::kMaskedLm || own == Task::kPretraining)
    work.masked.emplace(LoadAsExact(work, Task::kMaskedLm, /*require_head=*/true), work.texts, *work.tokenizer,
                        work.options.seed);
  Json files = Json::array();
  for (const std::string& file : work.texts.files) files.push_back(Shown(file, PATH_MAX));
  work.report["texts"] = {{"files", std::move(files)},      {"embedded", work.texts.files.empty()},
                          {"count", work.texts.set.size()}, {"tokens", work.texts.set.tokens()},
                          {"cut", work.texts.cut},          {"held_out", work.texts.held_out.size()}};
}

Json NumbersOf(const Json& report) {
  Json numbers = Json::object();
  for (const auto& [name, value] : report.items())
    if (value.is_number()) numbers[name] = value;
  return numbers;
}

std::vector<AttentionSpec> ByLayer(const std::vector<AttentionSpec>& attention, const ModelConfig& config) {
  return attention.size() == 1 ? PerLayer(attention[0], config) : attention;
}

// Beyond what can be told, of one text, is null.
Json NumberOrNull(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }

Json ToJson(const Candidate& candidate) {
  Json json{{"name", candidate.name},
            {"pairs_fraction", candidate.pairs_fraction},
            {"time_fraction", candidate.time_fraction},
            {"time_spread", candidate.time_spread},
            {"cosine_mean", candidate.cosine.mean},
            {"cosine_worst", candidate.cosine.worst},
            {"cosine_spread", NumberOrNull(candidate.cosine.spread)},
            {"token_cosine_mean", candidate.token_cosine.mean},
            {"token_cosine_worst", candidate.token_cosine.worst}};
  if (std::isfinite(candidate.masked_loss_change)) json["masked_loss_change"] = candidate.masked_loss_change;
  if (candidate.budget > 0) json["budget"] = candidate.budget;
  if (!candidate.setting.empty()) json["setting"] = candidate.setting;
  return json;
}

// The same attention with other seeds, where directions are drawn; the first is its own.
Json Seeds(Work& work, QualityMeter& meter) {
  Json seeds = Json::array();
  for (int i = 0; i < kSeeds; ++i) {
    Candidate candidate = work.result;
    for (AttentionSpec& layer : candidate.attention)
      ForEachSpec(layer, [&](AttentionSpec& spec) { spec.seed += static_cast<uint64_t>(i); });
    if (i > 0) {
      meter.Measure(work.directions, candidate);
      candidate.pairs_fraction = meter.PairsFraction(work.directions, candidate.attention, QualityMeter::Texts::kAll);
    }
    seeds.push_back({{"seed", candidate.attention.front().seed},
                     {"pairs_fraction", candidate.pairs_fraction},
                     {"cosine_mean", candidate.cosine.mean},
                     {"cosine_worst", candidate.cosine.worst}});
  }
  return seeds;
}

// Layer by layer, head by head.
Json Layers(Work& work) {
  const std::vector<AttentionSpec>& attention = work.result.attention;
  const std::vector<std::vector<double>> recall = MassRecall(*work.exact, work.texts, work.directions, attention);
  const HeadCosts costs = MeasureCosts(*work.exact, work.texts, work.directions, attention);
  Json layers = Json::array();
  for (size_t layer = 0; layer < attention.size(); ++layer) {
    Json heads = Json::array();
    for (size_t head = 0; head < recall[layer].size(); ++head)
      heads.push_back({{"head", head},
                       {"setting", ShortName(OfHead(attention[layer], static_cast<int>(head)))},
                       {"pairs_fraction", costs.pairs[layer][head]},
                       {"mass_recall", recall[layer][head]},
                       {"error", costs.error[layer][head]}});
    layers.push_back({{"layer", layer}, {"heads", std::move(heads)}});
  }
  return layers;
}

// The figure of a task's results that counts, and whether more is better.
std::pair<std::string, double> MainMetric(const Json& results) {
  for (const char* key : {"f1", "eval_f1", "eval_f1_micro", "eval_accuracy", "eval_matthews_correlation",
                          "eval_spearmanr", "eval_mlm_accuracy", "eval_cosine_spearman"})
    if (results.contains(key) && results[key].is_number()) return {key, results[key].get<double>()};
  Fail("the task has no metric to compare: {}", Shown(results.dump(), 120));
}

void MeasureTask(Work& work, const std::string& folder) {
  const ConvertOptions& options = work.options;
  EvaluateJob job;
  job.task = options.task;
  job.task_name = options.task_name;
  job.data_dir = options.data_dir;
  job.validation_file = options.validation_file;
  job.max_eval_samples = options.max_eval_samples;
  job.max_seq_length = options.max_seq_length;
  job.answers = options.answers;
  job.seed = options.seed;
  job.progress = true;
  job.model.model_name_or_path = job.task == "sentence-similarity" ? work.folder : work.source;
  job.model.attention.attention = Name(AttentionSpec{});
  work.report["task_results_exact"] = RunEvaluate(job);
  job.model.model_name_or_path = folder;
  job.model.attention = {};
  HeldLog same_warnings;
  work.report["task_results"] = RunEvaluate(job);
  same_warnings.Drop();
  const auto [name, exact] = MainMetric(work.report["task_results_exact"]);
  work.report["metric_name"] = name;
  work.report["metric_exact"] = exact;
  work.report["metric"] = MainMetric(work.report["task_results"]).second;
}

// Why the result is not to be written.
std::string Refusal(const Work& work) {
  const double wanted = work.options.min_quality;
  if (wanted <= 0) return "";
  const Json& report = work.report;
  if (!report.contains("metric")) {
    const double reached = report["cosine_mean"].get<double>();
    if (reached >= wanted) return "";
    return fmt::format("the mean cosine to the exact model is {:.7g}, less than {}", std::floor(reached * 1e7) / 1e7,
                       wanted);  // down: to nearest it may be what was asked
  }
  const double exact = report["metric_exact"].get<double>(), reached = report["metric"].get<double>();
  const std::string& name = report["metric_name"].get_ref<const std::string&>();
  if (exact <= 0) return fmt::format("the exact model's {} is {:.4f}: there is no share of it to keep", name, exact);
  if (reached >= wanted * exact) return "";
  return fmt::format("{} is {:.4f}, {:.4f} of the exact model's {:.4f}, less than {}", name, reached, reached / exact,
                     exact, wanted);
}

void CheckFinite(const Candidate& candidate) {
  if (!std::isfinite(candidate.cosine.mean)) Fail("the converted model's output is not finite");
}

std::optional<ConversionBudget> BudgetOf(const ConvertOptions& options) {
  if (options.budget_time > 0) return ConversionBudget{HeadCost::kTime, options.budget_time};
  if (options.budget_pairs > 0) return ConversionBudget{HeadCost::kPairs, options.budget_pairs};
  return {};
}

// Clustered attention, of which settings keep what they do not set.
AttentionSpec BaseOf(const Work& work) {
  const auto first_of = [](const std::vector<AttentionSpec>& specs) {
    return *std::find_if(specs.begin(), specs.end(), Is<ClusteredAttention>);
  };
  if (work.HasBudget()) return first_of(work.wanted);
  AttentionSpec base = first_of(AttentionKinds());
  base.min_length = 0;
  base.seed = work.options.seed;
  As<ClusteredAttention>(base).directions = Directions::kStored;
  return base;
}

// The rows of the report, this conversion first.
std::vector<Candidate> MeasureAll(Work& work, QualityMeter& meter) {
  const std::optional<ConversionBudget> budget = BudgetOf(work.options);
  const ConversionField field{*work.exact,
                              work.texts,
                              work.directions,
                              meter,
                              BaseOf(work),
                              work.from,
                              work.options.seed,
                              /*only_clustered=*/!work.options.attention.attention.empty()};
  return budget ? ChooseWithin(field, *budget) : CompareBeside(field, ByLayer(work.wanted, work.exact->config()));
}

// Trains towards the exact model, and measures what that makes of the conversion. `keep` is called once there is
// something to go on from.
void RecoverAnswers(Work& work, QualityMeter& meter, const Json& record, const std::function<void()>& keep) {
  const ConvertOptions& options = work.options;
  work.report["recover_steps"] = options.recover_steps;
  work.report["recover_learning_rate"] = options.learning_rate;
  work.report["cosine_mean_before_recovery"] = work.result.cosine.mean;
  const CalibrationTexts texts =
      ReadTrainingTexts(options.train_file, *work.tokenizer, work.exact->config(), options.max_seq_length);
  if (!work.unfinished.empty()) keep();
  TrainerHooks hooks;
  TrainingDisplay display("recovering");
  display.AddTo(hooks);
  work.recovered = Recover(*work.exact, work.result.attention, work.directions, texts,
                           {.steps = options.recover_steps,
                            .learning_rate = options.learning_rate,
                            .precision = options.bf16 ? Precision::kBFloat16 : Precision::kFloat32,
                            .seed = options.seed,
                            .folder = work.unfinished,
                            .settings = record},
                           hooks);
  meter.MeasureRecovered(*work.recovered, work.result);
  CheckFinite(work.result);
}

void Choose(Work& work, QualityMeter& meter) {
  const std::optional<ConversionBudget> budget = BudgetOf(work.options);
  work.report["budget"] =
      budget ? Json{{budget->of == HeadCost::kTime ? "time" : "pairs", budget->share}} : Json(nullptr);
  const bool recovers = work.options.recover_steps > 0;
  const Json record = recovers ? ConversionRecord(work.options, work.texts) : Json();
  const std::optional<std::vector<Candidate>> kept = KeptChoice(work.unfinished, record);
  std::vector<Candidate> rows = kept ? *kept : MeasureAll(work, meter);
  work.result = rows.front();
  CheckFinite(work.result);
  if (recovers) RecoverAnswers(work, meter, record, [&] { KeepChoice(work.unfinished, record, rows); });
  rows.front() = work.result;
  const Json measured = ToJson(work.result);
  for (const char* key : {"pairs_fraction", "time_fraction", "time_spread", "cosine_mean", "cosine_worst",
                          "cosine_spread", "token_cosine_mean", "token_cosine_worst", "masked_loss_change"})
    if (measured.contains(key)) work.report[key] = measured[key];
  work.report["chosen"] = work.HasBudget() ? Json(work.result.setting) : Json(nullptr);
  work.report["frontier"] = Json::array();
  for (const Candidate& candidate : rows) work.report["frontier"].push_back(ToJson(candidate));
  const bool drawn = std::any_of(work.result.attention.begin(), work.result.attention.end(), IsSparse) &&
                     !AnyStoresDirections(work.result.attention);
  if (drawn && !work.recovered) work.report["seeds"] = Seeds(work, meter);
  work.report["layers"] = Layers(work);
}

// A list of layers, or one object where they are alike.
Json AttentionOfConfig(const std::vector<AttentionSpec>& attention) {
  const bool alike = attention.front().heads.empty() &&
                     std::all_of(attention.begin(), attention.end(), [&](auto& own) { return own == attention[0]; });
  return ToJson(alike ? std::vector<AttentionSpec>{attention.front()} : attention);
}

FolderChanges Changes(const Work& work) {
  FolderChanges changes;
  if (KeepsAttention(work.options)) return changes;
  changes.attention = work.HasBudget() ? AttentionOfConfig(work.result.attention) : ToJson(work.wanted);
  if (AnyStoresDirections(work.result.attention)) changes.tensors = DirectionTensors(work.directions);
  if (work.recovered)
    for (auto& named : ParametersByNamesOf(work.source, *work.recovered)) changes.tensors.push_back(std::move(named));
  return changes;
}

// A copy of the model with more positions, where they are asked for.
void Extend(Work& work, std::optional<StagedFolder>& extended) {
  const int64_t positions = work.options.extend_positions;
  if (positions == 0) return;
  const int64_t own = ReadModelConfig(work.source + "/config.json").max_position_embeddings;
  if (positions <= own) FailOption("extend_positions", "the model has {} positions already, got {}", own, positions);
  extended.emplace(StagedFolder::Temporary());
  WriteChangedModel(
      work.folder,
      {.attention = nullptr, .tensors = {}, .positions = positions, .extension = work.options.position_extension},
      extended->path());
  work.folder = work.source = extended->path();
  work.report["extended_from"] = own;
}

// Where there are more positions: what the new model, under its new attention, makes of texts as long as the old one
// takes, beside that.
void CompareShortTexts(Work& work) {
  const std::string folder = SentenceModules::EncoderFolder(work.options.model_name_or_path);
  const ModelConfig config = ReadModelConfig(folder + "/config.json");
  const CalibrationTexts texts =
      ReadCalibrationTexts(work.options.calibrate, *work.tokenizer, config, config.max_position_embeddings);
  const ModelPtr before = LoadModel(
      folder, work.exact->task(), work.options.seed, /*require_head=*/false,
      [](ModelConfig& loaded) { loaded.attention = ExactAttention(loaded.attention); }, WeightPlace::kMappedFile);
  const ModelPtr now = WithAttention(*work.exact, work.result.attention, DirectionTensors(work.directions));
  const char* const title = "short texts";
  const Cosines cosines =
      Compare(MeanStates(*before, texts, texts.held_out, title), MeanStates(*now, texts, texts.held_out, title));
  work.report["short_texts"] = {
      {"max_tokens", config.max_position_embeddings}, {"cosine_mean", cosines.mean}, {"cosine_worst", cosines.worst}};
}

// Those of a model whose attention stays what it is, where it has some; else what the texts give.
void FindDirections(Work& work) {
  if (KeepsAttention(work.options) && AnyStoresDirections(work.wanted)) {
    work.directions = DirectionsOf(*LoadModel(work.source, work.exact->task(), work.options.seed,
                                              /*require_head=*/false, {}, WeightPlace::kMappedFile));
  } else {
    work.directions = CalibrateDirections(*work.exact, work.texts);
  }
}

// All that takes time, for the bar.
std::vector<ProgressPhase> Phases(const Work& work) {
  constexpr double kTraining = 3, kRecoveryTexts = 8;  // a step beside a forward, and its texts
  const ConversionWork reading{work.exact->config(), work.texts};
  const double held_out = reading.Forward(work.texts.held_out), all = held_out + reading.Forward(work.texts.fitted);
  std::vector<ProgressPhase> phases{{"exact answers", held_out}};
  phases.push_back({"directions", all - held_out});
  const std::optional<ConversionBudget> budget = BudgetOf(work.options);
  std::optional<HeadCost> budget_of;
  if (budget) budget_of = budget->of;
  for (ProgressPhase& phase : PhasesOfChoice(reading, BaseOf(work), budget_of)) phases.push_back(std::move(phase));
  if (work.options.recover_steps > 0) {
    const double text = all / static_cast<double>(work.texts.set.size());
    phases.push_back(
        {"recovering", (kTraining + 1) * kRecoveryTexts * text * static_cast<double>(work.options.recover_steps)});
    phases.push_back({"recovered answers", held_out});
  }
  phases.push_back({"mass recall", held_out / static_cast<double>(work.texts.held_out.size())});
  phases.push_back({"heads", held_out / 2});
  if (work.options.extend_positions > 0) phases.push_back({"short texts", held_out, 2});
  if (MeasuresTask(work.options)) phases.push_back({EvaluateOptions().title, 2 * all, 2});
  return phases;
}

}  // namespace

bool MeasuresQuestions(const ConvertOptions& options) {
  if (!MeasuresTask(options)) return false;
  if (!options.task.empty()) return options.task == "question-answering";
  const std::string path = SentenceModules::EncoderFolder(options.model_name_or_path) + "/config.json";
  return FindTask(ReadModelConfig(path)) == Task::kQuestionAnswering;
}

void CheckConvert(const ConvertOptions& options) {
  ValidateOptions(ConvertTable(), options);
  ValidateOptions(AnswerTable(), options.answers);
  if (options.position_extension != PositionExtension::kTile && options.extend_positions == 0)
    FailOption("position_extension", "says how {} is done, got it alone", OptionName{"extend_positions"});
  if (options.output_dir.empty() && !options.dry_run)
    FailOption("output_dir", "required, but with {}", OptionName{"dry_run"});
  if (options.budget_pairs > 0 && options.budget_time > 0)
    FailOption("budget_time", "not with {}: one of the two is kept to", OptionName{"budget_pairs"});
  const bool budget = options.budget_pairs > 0 || options.budget_time > 0;
  const std::string& kind = options.attention.attention;
  if (budget && !kind.empty() && kind != ClusteredAttention::kName)
    FailOption("attention", "a budget chooses settings of {} attention alone", ClusteredAttention::kName);
  for (const auto& [key, value] : options.attention.keys)
    if (budget && key != "seed" && key != "directions" && key != "groups" && key != "global")
      FailOption("lsh_" + key, "a budget chooses it, head by head");
  if ((options.recover_steps > 0) != !options.train_file.empty())
    FailOption("recover_steps", "needs {}, and the reverse", OptionName{"train_file"});
  if (options.recover_steps == 0 && (options.bf16 || options.learning_rate != ConvertOptions().learning_rate))
    FailOption(options.bf16 ? "bf16" : "learning_rate", "is of the recovery: needs {}", OptionName{"recover_steps"});
  if (options.bf16) CheckPrecision(Precision::kBFloat16);
  const bool data = MeasuresTask(options);
  if (!data && (!options.task.empty() || !options.task_name.empty() || options.max_eval_samples > 0))
    FailOption(options.max_eval_samples > 0 ? "max_eval_samples" : "task",
               "needs data to measure on: {}, or {} with {}", OptionName{"validation_file"}, OptionName{"data_dir"},
               OptionName{"task_name"});
  if (KeepsAttention(options) && options.recover_steps > 0)
    FailOption("recover_steps", "the attention stays as it is; name {} or a budget too", OptionName{"attention"});
}

ConvertResult RunConvert(const ConvertOptions& options) {
  const HeldLog warnings;
  CheckConvert(options);
  const std::string& model = options.model_name_or_path;
  if (SentenceModules::MakeVectors(model)) SentenceModules::Read(model);  // what does not serve is told before the work
  Work work{.options = options, .folder = model, .source = SentenceModules::EncoderFolder(model)};
  work.report = {{"model", Shown(options.model_name_or_path, PATH_MAX)},
                 {"output", Shown(options.output_dir, PATH_MAX)},
                 {"seed", options.seed}};
  const bool task = MeasuresTask(options);
  std::optional<StagedFolder> staged, extended;
  if (!options.dry_run) {
    staged.emplace(options.output_dir);
    work.unfinished = staged->unfinished();
  } else if (task) {
    staged.emplace(StagedFolder::Temporary());
  }
  Extend(work, extended);
  ConvertResult result;
  LoadExact(work);
  work.report["machine"] = DescribeMachine(/*probes=*/false);
  PhasedProgress progress("converting", Phases(work));
  QualityMeter meter(*work.exact, work.texts, work.masked ? &*work.masked : nullptr);
  FindDirections(work);
  Choose(work, meter);
  if (options.extend_positions > 0) CompareShortTexts(work);
  if (staged) WriteChangedModel(work.folder, Changes(work), staged->path());
  if (task) MeasureTask(work, staged->path());
  progress.Finish();
  result.refused = Refusal(work);
  result.page = ConversionPage(work.report);
  result.report = work.report;
  result.figures = NumbersOf(work.report);
  if (!result.refused.empty() && staged) staged->RemoveUnfinished();
  if (options.dry_run || !result.refused.empty()) return result;
  WriteFileAtomically(staged->path() + "/convert_report.json", work.report.dump(2) + "\n");
  WriteFileAtomically(staged->path() + "/report.html", result.page);
  staged->Commit();
  return result;
}

}  // namespace lshformer
