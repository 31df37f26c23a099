#include "jobs/convert.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/logging.h"
#include "io/weight_files.h"
#include "io/weight_names.h"
#include "jobs/calibration.h"
#include "jobs/conversion_quality.h"
#include "jobs/converted_folder.h"
#include "jobs/head_policy.h"
#include "jobs/measure.h"
#include "jobs/recovery.h"
#include "models/family.h"
#include "models/stored_directions.h"
#include "report/conversion_page.h"

namespace lshformer {
namespace {

constexpr int kSeeds = 5;  // where directions are drawn
constexpr double kFrontierBudgets[] = {0.0625, 0.125, 0.25, 0.5};

bool ChangesAttention(const ConvertOptions& options) {
  return !options.attention.attention.empty() || !options.attention.keys.empty() || options.budget_pairs > 0 ||
         options.budget_time > 0 || options.extend_positions == 0;
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
  AttentionChanges changes = options.attention;
  if (changes.attention.empty()) changes.attention = ClusteredAttention::kName;
  ModelConfig wanted = config;
  wanted.attention = {AttentionSpec{}};
  ApplyAttention(changes, wanted);
  const bool told = !changes.Given("directions").is_null();
  return told ? wanted.attention : WithDirections(wanted.attention, Directions::kStored);
}

// What a conversion knows by and by.
struct Work {
  const ConvertOptions& options;
  std::string source;  // the folder to read: the model's, or a copy of it with more positions
  std::shared_ptr<const Tokenizer> tokenizer = {};
  ModelPtr exact = {};
  CalibrationTexts texts{};
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

void LoadExact(Work& work) {
  const std::string path = work.source + "/config.json";
  const ModelConfig config = ReadModelConfig(path);
  if (!FamilyOf(config).encoder_layers)
    FailOption("model_name_or_path", "a model of type \"{}\" has no self-attention to convert", config.model_type);
  for (const AttentionSpec& spec : config.attention)
    if (!Is<DenseAttention>(spec) && !Is<ClusteredAttention>(spec))
      FailOption("model_name_or_path", "{} was made with {} attention; a conversion begins with an exact model",
                 Shown(work.options.model_name_or_path, 120), Name(spec));
  work.wanted = WantedAttention(work.options, config);
  work.tokenizer = Tokenizer::Load(work.source);
  if (AnswersWithWords(FindTask(config)) || work.options.task == "question-answering")
    work.from = AnswersFrom::kTokenStates;
  const Task task = TaskToRun(config, path, work.options.recover_steps > 0);
  work.exact = LoadModel(
      work.source, task, work.options.seed, /*require_head=*/task != Task::kEncoder,
      [](ModelConfig& loaded) { loaded.attention = {AttentionSpec{}}; }, WeightPlace::kMappedFile);
  CheckTokenizer(FamilyOf(config), *work.tokenizer, work.source);
  work.texts = ReadCalibrationTexts(work.options.calibrate, *work.tokenizer, config, work.options.max_seq_length);
  Json files = Json::array();
  for (const std::string& file : work.texts.files) files.push_back(Shown(file, PATH_MAX));
  work.report["texts"] = {{"files", std::move(files)},      {"embedded", work.texts.files.empty()},
                          {"count", work.texts.set.size()}, {"tokens", work.texts.set.tokens()},
                          {"cut", work.texts.cut},          {"held_out", work.texts.held_out.size()}};
}

std::vector<AttentionSpec> ByLayer(const std::vector<AttentionSpec>& attention, const ModelConfig& config) {
  return attention.size() == 1 ? PerLayer(attention[0], config) : attention;
}

// An attention and its share of exact attention's pairs, or time.
struct Kept {
  std::vector<AttentionSpec> attention;
  double share;
};

// The policy of a budget; what it costs is measured as a whole, and the budget drawn tighter until that keeps it.
Kept KeepBudget(Work& work, QualityMeter& meter, const HeadTable& table, const std::vector<HeadSetting>& menu,
                double budget, HeadCost of, QualityMeter::Texts texts) {
  constexpr int kTries = 6;
  const bool time = of == HeadCost::kTime;
  const torch::Tensor& cost = time ? table.time : table.pairs;
  const char* option = time ? "budget_time" : "budget_pairs";
  double target = budget;
  for (int i = 0; i < kTries; ++i) {
    std::vector<AttentionSpec> attention = SpecsOf(ChooseSettings(table, cost, target, option), menu);
    const double real =
        time ? meter.TimeFraction(work.directions, attention) : meter.PairsFraction(work.directions, attention, texts);
    if (real <= budget) return {std::move(attention), real};
    target *= 0.998 * budget / real;
  }
  FailOption(option, "settings for {:.4g} could not be found: what heads cost together is more than the sum of each",
             budget);
}

// Budgets beside the one asked for, settings that are alike in all heads, and the other kinds.
std::vector<Candidate> Frontier(Work& work, QualityMeter& meter, const std::optional<HeadTable>& table,
                                const std::vector<HeadSetting>& menu, HeadCost cost) {
  std::vector<Candidate> all;
  const auto add = [&](const std::string& name, std::vector<AttentionSpec> attention, double budget,
                       const std::string& setting = "") {
    Candidate candidate;
    candidate.name = name;
    candidate.setting = setting;
    candidate.attention = std::move(attention);
    candidate.budget = budget;
    meter.Measure(work.directions, candidate);
    all.push_back(std::move(candidate));
  };
  const ModelConfig& config = work.exact->config();
  if (table) {
    for (const double budget : kFrontierBudgets) {
      try {
        add("head by head",
            KeepBudget(work, meter, *table, menu, budget, cost, QualityMeter::Texts::kHeldOut).attention, budget);
      } catch (const UsageError&) {  // these texts are too short for it
      }
    }
  }
  for (const AttentionSpec& kind : AttentionKinds()) {
    if (Is<DenseAttention>(kind)) continue;
    AttentionSpec spec = kind;
    spec.min_length = 0;
    spec.seed = work.options.seed;
    if (!Is<ClusteredAttention>(spec)) {
      add(Name(spec), PerLayer(spec, config), 0);
      continue;
    }
    As<ClusteredAttention>(spec).directions = Directions::kStored;
    for (const int open : {1, 2, 4}) {
      As<ClusteredAttention>(spec).open = {open};
      add("all heads alike", PerLayer(spec, config), 0, fmt::format("open {}", open));
    }
    if (cost == HeadCost::kTime) add("all heads alike, bundles", PerLayer(BundledSetting(spec), config), 0);
  }
  return all;
}

Json ToJson(const Candidate& candidate) {
  Json json{{"name", candidate.name},
            {"pairs_fraction", candidate.pairs_fraction},
            {"time_fraction", candidate.time_fraction},
            {"cosine_mean", candidate.cosine.mean},
            {"cosine_worst", candidate.cosine.worst}};
  if (candidate.budget > 0) json["budget"] = candidate.budget;
  if (!candidate.setting.empty()) json["setting"] = candidate.setting;
  return json;
}

// What is reported of the conversion itself: its pairs are those of all texts, as a budget counts them.
// `pairs`: where those are known already.
void MeasureOnAll(Work& work, QualityMeter& meter, Candidate& candidate, std::optional<double> pairs = {}) {
  meter.Measure(work.directions, candidate);
  candidate.pairs_fraction =
      pairs ? *pairs : meter.PairsFraction(work.directions, candidate.attention, QualityMeter::Texts::kAll);
}

// The same attention with other seeds, where directions are drawn; the first is its own.
Json Seeds(Work& work, QualityMeter& meter) {
  Json seeds = Json::array();
  for (int i = 0; i < kSeeds; ++i) {
    Candidate candidate = work.result;
    for (AttentionSpec& layer : candidate.attention)
      ForEachSpec(layer, [&](AttentionSpec& spec) { spec.seed += static_cast<uint64_t>(i); });
    if (i > 0) MeasureOnAll(work, meter, candidate);
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
  job.model.model_name_or_path = work.source;
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

void Choose(Work& work, QualityMeter& meter) {
  const ConvertOptions& options = work.options;
  const HeadCost cost = options.budget_time > 0 ? HeadCost::kTime : HeadCost::kPairs;
  std::optional<HeadTable> table;
  std::vector<HeadSetting> menu;
  std::optional<double> pairs;
  if (work.HasBudget()) {
    const bool time = cost == HeadCost::kTime;
    menu = HeadMenu(work.wanted.front(), cost);
    table = MeasureHeads(*work.exact, work.texts, work.directions, menu, work.from, time);
    const double budget = time ? options.budget_time : options.budget_pairs;
    Kept kept = KeepBudget(work, meter, *table, menu, budget, cost, QualityMeter::Texts::kAll);
    work.result.attention = std::move(kept.attention);
    if (!time) pairs = kept.share;
    work.result.budget = budget;
    work.report["budget"] = {{time ? "time" : "pairs", budget}};
  } else {
    work.result.attention = ByLayer(work.wanted, work.exact->config());
    work.report["budget"] = nullptr;
  }
  work.result.name = "this conversion";
  MeasureOnAll(work, meter, work.result, pairs);
  CheckFinite(work.result);
  if (options.recover_steps > 0) {
    work.report["recover_steps"] = options.recover_steps;
    work.report["recover_learning_rate"] = options.learning_rate;
    work.report["cosine_mean_before_recovery"] = work.result.cosine.mean;
    work.recovered = Recover(*work.exact, work.result.attention, work.directions, *work.tokenizer,
                             {.steps = options.recover_steps,
                              .train_file = options.train_file,
                              .max_seq_length = options.max_seq_length,
                              .learning_rate = options.learning_rate,
                              .precision = options.bf16 ? Precision::kBFloat16 : Precision::kFloat32,
                              .seed = options.seed});
    work.result.cosine = meter.CosineOf(*work.recovered);
    CheckFinite(work.result);
  }
  const Json measured = ToJson(work.result);
  for (const char* key : {"pairs_fraction", "time_fraction", "cosine_mean", "cosine_worst"})
    work.report[key] = measured[key];
  work.report["frontier"] = Json::array({measured});
  for (const Candidate& candidate : Frontier(work, meter, table, menu, cost))
    work.report["frontier"].push_back(ToJson(candidate));
  const bool drawn = std::any_of(work.result.attention.begin(), work.result.attention.end(), Hashes) &&
                     !AnyStoresDirections(work.result.attention);
  if (drawn && !work.recovered) work.report["seeds"] = Seeds(work, meter);
  work.report["layers"] = Layers(work);
}

FolderChanges Changes(const Work& work) {
  FolderChanges changes;
  changes.attention = ToJson(work.HasBudget() ? work.result.attention : work.wanted);
  if (AnyStoresDirections(work.result.attention)) changes.tensors = DirectionTensors(work.directions);
  if (work.recovered) {
    const WeightFiles files(work.source);
    const auto in_file = MapWeightNames(FamilyOf(work.exact->config()).weight_names, files.names(), files.path());
    for (const auto& [name, tensor] : work.recovered->NamedParameters()) {
      const auto found = in_file.find(name);
      if (found != in_file.end()) changes.tensors.emplace_back(found->second, tensor);
    }
  }
  return changes;
}

// A copy of the model with more positions, where they are asked for.
void Extend(Work& work, std::optional<StagedFolder>& extended) {
  const int64_t positions = work.options.extend_positions;
  if (positions == 0) return;
  const ModelConfig config = ReadModelConfig(work.source + "/config.json");
  if (positions <= config.max_position_embeddings)
    FailOption("extend_positions", "the model has {} positions already, got {}", config.max_position_embeddings,
               positions);
  extended.emplace(StagedFolder::Temporary());
  WriteChangedModel(work.source, {.attention = nullptr, .tensors = {}, .positions = positions}, extended->path());
  work.source = extended->path();
  work.report["extended_from"] = config.max_position_embeddings;
}

}  // namespace

bool MeasuresQuestions(const ConvertOptions& options) {
  if (!MeasuresTask(options)) return false;
  if (!options.task.empty()) return options.task == "question-answering";
  return FindTask(ReadModelConfig(options.model_name_or_path + "/config.json")) == Task::kQuestionAnswering;
}

void CheckConvert(const ConvertOptions& options) {
  ValidateOptions(ConvertTable(), options);
  ValidateOptions(AnswerTable(), options.answers);
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
  if (!ChangesAttention(options) && (options.min_quality > 0 || options.recover_steps > 0 ||
                                     options.max_seq_length > 0 || !options.calibrate.empty() || data))
    FailOption("extend_positions", "alone measures nothing; name {} or a budget too", OptionName{"attention"});
}

ConvertResult RunConvert(const ConvertOptions& options) {
  const HeldLog warnings;
  CheckConvert(options);
  Work work{.options = options, .source = options.model_name_or_path};
  work.report = {{"model", Shown(options.model_name_or_path, PATH_MAX)},
                 {"output", Shown(options.output_dir, PATH_MAX)},
                 {"seed", options.seed}};
  const bool task = MeasuresTask(options);
  std::optional<StagedFolder> staged, extended;
  if (!options.dry_run) {
    staged.emplace(options.output_dir);
  } else if (task) {
    staged.emplace(StagedFolder::Temporary());
  }
  Extend(work, extended);
  ConvertResult result;
  if (ChangesAttention(options)) {
    LoadExact(work);
    work.report["machine"] = DescribeMachine(/*probes=*/false);
    QualityMeter meter(*work.exact, work.texts);
    work.directions = CalibrateDirections(*work.exact, work.texts);
    Choose(work, meter);
  }
  const FolderChanges changes = ChangesAttention(options) ? Changes(work) : FolderChanges{};
  if (staged) WriteChangedModel(work.source, changes, staged->path());
  if (task) MeasureTask(work, staged->path());
  result.refused = ChangesAttention(options) ? Refusal(work) : "";
  result.page = ConversionPage(work.report);
  result.report = work.report;
  if (options.dry_run || !result.refused.empty()) return result;
  WriteFileAtomically(staged->path() + "/convert_report.json", work.report.dump(2) + "\n");
  WriteFileAtomically(staged->path() + "/report.html", result.page);
  staged->Commit();
  return result;
}

}  // namespace lshformer
