#include "jobs/model_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/logging.h"
#include "eval/cosines.h"
#include "io/safetensors.h"
#include "jobs/use_matmul_precision.h"
#include "models/config.h"
#include "models/stored_directions.h"
#include "nn/pooling.h"
#include "text/tokenizer_files.h"

namespace lshformer {
namespace {

// What a new model starts from.
ModelConfig BaseConfig(const ModelSource& source) {
  if (!source.config_name.empty()) return ReadModelConfig(ConfigPath(source.config_name));
  return source.model_type.empty() ? ModelConfig() : DefaultModelConfig(source.model_type, Marked("model_type"));
}

ModelConfig NewConfig(const ModelSource& source, const Tokenizer& tokenizer) {
  ModelConfig config = BaseConfig(source);
  if (!source.model_type.empty() && source.model_type != config.model_type)
    FailUsage("{} {}: {} {} is of model_type \"{}\"", OptionName{"model_type"}, source.model_type,
              OptionName{"config_name"}, source.config_name, config.model_type);
  const Family& family = FamilyOf(config);
  CheckTokenizer(family, tokenizer, source.tokenizer_name);
  config.vocab_size = tokenizer.vocab_size();
  if (tokenizer.pad_id() >= 0) config.pad_token_id = tokenizer.pad_id();
  if (family.complete != nullptr) family.complete(config, Marked("model_type"));
  if (family.take_words != nullptr)
    family.take_words(config, {.words = tokenizer.vocab_size(), .characters = tokenizer.character_vocab_size()});
  if (!source.config_overrides.empty()) ApplyOverrides(config, source.config_overrides, Marked("config_overrides"));
  return config;
}

// Without the task's head and the pooler, which are drawn anew where a checkpoint has others.
std::vector<ParameterSpec> EncoderTensors(const ModelConfig& config, Task task) {
  std::vector<ParameterSpec> specs = FamilyOf(config).parameters(config, task);
  std::erase_if(specs, [](const ParameterSpec& spec) { return spec.block == "head" || spec.block == "pooler"; });
  return specs;
}

// Changes to a checkpoint's config that leave its tensors as they are: dropout, the depth of layers that share all, the
// kind of head.
void OverrideLoaded(const std::string& overrides, Task task, ModelConfig& config) {
  const ModelConfig own = config;
  ApplyOverrides(config, overrides, Marked("config_overrides"));
  if (config.model_type != own.model_type)
    FailOption("config_overrides", "the checkpoint is of model_type \"{}\", not \"{}\"", own.model_type,
               config.model_type);
  const std::vector<ParameterSpec> has = EncoderTensors(own, task), asked = EncoderTensors(config, task);
  for (size_t i = 0; i < std::max(has.size(), asked.size()); ++i) {
    if (i < has.size() && i < asked.size() && has[i].name == asked[i].name && has[i].shape == asked[i].shape) continue;
    const ParameterSpec& first = i < has.size() ? has[i] : asked[i];
    FailOption("config_overrides", "a checkpoint's tensors stay as they are, \"{}\" {} would not", first.name,
               ShapeText(first.shape));
  }
}

void Reinitialize(const std::string& parts, uint64_t seed, Model& model) {
  std::vector<std::string> names;
  std::istringstream list(parts);
  for (std::string part; std::getline(list, part, ',');) names.push_back(part);
  try {
    RedrawParameters(model, names, seed);
  } catch (const Error& error) {
    FailOption("reinitialize", "{}", error.what());
  }
}

// What --refresh_directions_steps needs.
void CheckRefresh(const AttentionChanges& changes, const ModelConfig& config) {
  constexpr const char* kOption = "refresh_directions_steps";
  if (!AnyClustered(config.attention))
    FailOption(kOption, "is for {} attention, that of the model is {}", ClusteredAttention::kName,
               Name(config.attention.front()));
  if (changes.Given("directions") == "random")
    FailOption(kOption, "not beside directions that are \"random\": those stay as they are drawn");
}

}  // namespace

Task NamedTask(const std::string& name, const std::string& folder) {
  if (name == "fill-mask") return Task::kMaskedLm;
  if (name == "pretraining") return Task::kPretraining;
  if (name == "text-classification") return Task::kSequenceClassification;
  if (name == "multiple-choice") return Task::kMultipleChoice;
  if (name == "question-answering") return Task::kQuestionAnswering;
  if (!name.empty()) FailOption("task", "names no head of a model, got \"{}\"", Shown(name));
  const std::string path = folder + "/config.json";
  return TaskFromArchitectures(ReadModelConfig(path), path);
}

bool MakesVocabulary(const ModelSource& source) {
  if (!source.tokenizer_name.empty() || !source.model_name_or_path.empty()) return false;
  return FamilyOf(BaseConfig(source)).take_words != nullptr;
}

std::string ConfigPath(const std::string& config_name) {
  std::error_code error;
  return std::filesystem::is_directory(config_name, error) ? config_name + "/config.json" : config_name;
}

void CheckPrecision(Precision precision) {
  RequirePrecision(precision, Marked(precision == Precision::kBFloat16 ? "bf16" : "int8").c_str());
}

void CheckModelSource(const ModelSource& source) {
  ValidateOptions(ModelSourceTable(), source);
  CheckPrecision(source.precision);
  const bool fresh = !source.model_type.empty() || !source.config_name.empty();
  if (source.model_name_or_path.empty()) {
    if (!fresh && source.config_overrides.empty())
      FailUsage("{} DIR, or for a new model {} {}: required", OptionName{"model_name_or_path"},
                OptionName{"model_type"}, fmt::join(ModelTypes(), "|"));
    if (source.tokenizer_name.empty() && !MakesVocabulary(source))
      FailOption("tokenizer_name", "required for a new model");
  } else if (fresh) {
    FailOption("model_name_or_path", "has its own config; {} and {} make a new model", OptionName{"model_type"},
               OptionName{"config_name"});
  }
}

std::shared_ptr<const Tokenizer> LoadTokenizer(const ModelSource& source) {
  return Tokenizer::Load(source.tokenizer_name.empty() ? source.model_name_or_path : source.tokenizer_name);
}

ModelPtr MakeModel(const ModelSource& source, const std::string& resume_from, Task task, const Tokenizer& tokenizer,
                   const TrainingOptions& training, const std::function<void(ModelConfig&)>& adjust) {
  std::optional<AttentionChange> change;
  const uint64_t seed = training.seed;
  const bool refreshes = training.refresh_directions_steps > 0;
  const std::string& folder = resume_from.empty() ? source.model_name_or_path : resume_from;
  const auto adjust_all = [&](ModelConfig& config) {
    if (!folder.empty() && !source.config_overrides.empty()) OverrideLoaded(source.config_overrides, task, config);
    const bool stores = AnyStoresDirections(config.attention);  // the folder's model
    if (folder.empty() || !resume_from.empty()) {
      ApplyAttention(source.attention, config);
    } else {
      change = ChangeAttention(folder, source.attention, config);
    }
    if (refreshes) {
      CheckRefresh(source.attention, config);
      // A checkpoint of the run has directions, whatever the flags say of the attention that it began with; another
      // folder may not have those that are asked for, and the model gets them below.
      if (!folder.empty() && (!stores || !resume_from.empty()))
        config.attention = WithDirections(config.attention, stores ? Directions::kStored : Directions::kRandom);
    }
    if (adjust) adjust(config);
    if (config.vocab_size < tokenizer.vocab_size())
      Fail("{}: \"vocab_size\" is {}, but the tokenizer of {} has {} tokens",
           !source.config_name.empty() ? source.config_name
           : folder.empty()            ? Marked("config_overrides")
                                       : folder + "/config.json",
           config.vocab_size,
           !source.tokenizer_name.empty()       ? source.tokenizer_name
           : !source.model_name_or_path.empty() ? source.model_name_or_path
                                                : "the training data",
           tokenizer.vocab_size());
    ValidateModelConfig(config, source.config_name.empty() ? "model config" : source.config_name);
  };
  ModelPtr model;
  if (folder.empty()) {
    ModelConfig config = NewConfig(source, tokenizer);
    adjust_all(config);
    model = CreateModel(config, task, seed);
  } else {
    model = LoadModel(folder, task, seed, /*require_head=*/!resume_from.empty(), adjust_all, WeightPlace::kMemory,
                      source.ignore_mismatched_sizes);
    CheckTokenizer(FamilyOf(model->config()), tokenizer, folder);
    if (resume_from.empty() && !source.reinitialize.empty()) Reinitialize(source.reinitialize, seed, *model);
  }
  if (refreshes) model = StoringDirections(*model, seed);
  WarnOfAttention(*model, change);
  model->set_precision(source.precision);
  UseMatmulPrecision(source.matmul_precision);
  return model;
}

void RequireTypes(const SequenceSet& set, const ModelConfig& config, const std::string& where) {
  if (config.type_vocab_size > 1 || set.has_words()) return;
  for (int64_t i = 0; i < set.sequences(); ++i)
    if (const std::vector<int32_t> types = set.type_ids(i); !types.empty() && types.back() > 0)
      Fail("{}: its texts have a second one beside them, but the model takes none (type_vocab_size {})", where,
           config.type_vocab_size);
}

int SequenceLimit(int max_seq_length, const ModelConfig& config) {
  if (max_seq_length == 0) return static_cast<int>(config.max_position_embeddings);
  CheckMaxSeqLength(max_seq_length, /*texts=*/1, /*tokenizer=*/nullptr, config.max_position_embeddings);
  return max_seq_length;
}

int64_t SavedMaxLength(bool new_model, const Tokenizer& tokenizer, const ModelConfig& config) {
  const int64_t positions = config.max_position_embeddings, own = tokenizer.model_max_length();
  return new_model || own == 0 ? positions : std::min(own, positions);
}

void ApplyAttention(const AttentionChanges& changes, ModelConfig& config) {
  const bool some = !changes.attention.empty() || !changes.keys.empty();
  if (some && !FamilyOf(config).encoder_layers)
    FailOption(changes.attention.empty() ? "lsh_" + changes.keys.begin()->first : "attention",
               "a model of type \"{}\" has no self-attention", config.model_type);
  changes.Apply(config.attention);
}

std::optional<AttentionChange> ChangeAttention(const std::string& folder, const AttentionChanges& changes,
                                               ModelConfig& config) {
  const std::vector<AttentionSpec> made_with = config.attention;
  const std::string shown = Shown(folder, 80);
  ApplyAttention(changes, config);
  for (size_t layer = 0; layer < made_with.size() && layer < config.attention.size(); ++layer) {
    const AttentionSpec &before = made_with[layer], &now = config.attention[layer];
    if (SameWork(before, now)) continue;
    const bool convertible = Is<DenseAttention>(before) || Is<ClusteredAttention>(before);
    const char* next = convertible ? "convert measures how much (docs/convert.md)"
                                   : "evaluate it again, convert takes exact models (docs/attention.md)";
    AttentionChange change{made_with, ""};
    if (SameKind(before, now)) {
      change.warning = fmt::format("{}: was made with other options of {} attention; its answers change; {}", shown,
                                   Name(now), next);
    } else {
      change.warning = fmt::format("{}: was made with {} attention; under {} its answers change; {}", shown,
                                   Name(before), Name(now), next);
    }
    return change;
  }
  return {};
}

namespace {

// The first sequences of a batch, their ends cut off; of a model that reads words the batch, where it is small.
std::optional<PackedBatch> FirstTexts(const PackedBatch& batch) {
  constexpr int kTexts = 4, kTokens = 512, kTokensInAll = 1024;
  if (!batch.further_streams.empty())
    return batch.tokens.size() <= kTokensInAll ? std::optional<PackedBatch>(batch) : std::nullopt;
  PackedBatch first;
  for (int b = 0; b < std::min(kTexts, batch.sequences()) && first.tokens.size() < kTokensInAll; ++b) {
    const auto begin = batch.tokens.cu_seqlens[b], end = std::min(begin + kTokens, batch.tokens.cu_seqlens[b + 1]);
    const auto cut = [&](const std::vector<int32_t>& all) {
      return std::vector<int32_t>(all.begin() + begin, all.begin() + end);
    };
    if (begin < end) AppendSequence(first, cut(batch.tokens.ids), cut(batch.tokens.type_ids), static_cast<uint64_t>(b));
  }
  if (first.sequences() == 0) return {};
  return first;
}

}  // namespace

void WarnOfAttention(Model& model, const std::optional<AttentionChange>& change) {
  if (!change) return;
  model.BeforeFirstBatch([&model, change = *change](const PackedBatch& batch) {
    const std::vector<AttentionSpec>& now = model.config().attention;
    const std::optional<PackedBatch> first = FirstTexts(batch);
    // Directions that the checkpoint stores are no tensors of a model that does not ask for them.
    if (!first || (AnyStoresDirections(change.made_with) && !AnyStoresDirections(now)))
      return Warn("{}", change.warning);
    const torch::NoGradGuard no_grad;
    const auto means = [&](const std::vector<AttentionSpec>& attention) {
      return Pool(WithAttention(model, attention)->Forward(*first, {.stop = &StopOnSignal()}).last_hidden_state,
                  first->tokens.cu_seqlens, Pooling::kMean);
    };
    const double kept = Compare(means(change.made_with), means(now)).mean;
    const int texts = first->sequences();
    constexpr double kRounding = 1e-6;  // equal states have a cosine just below 1
    Warn("{}; {} mean state{} a cosine of {:.3f} to before", change.warning,
         texts == 1 ? "here the first text's" : fmt::format("here the first {} texts'", texts),
         texts == 1 ? " has" : "s have", std::floor(1000 * (kept + kRounding)) / 1000);
  });
}

Json AttentionSettings(const AttentionChanges& changes) {
  Json settings{{"attention", changes.attention}};
  for (const auto& [key, value] : changes.Keys()) settings["lsh_" + key] = value;
  return settings;
}

void RefuseModelFileAsOutput(const std::string& folder, const std::string& output) {
  namespace fs = std::filesystem;
  constexpr std::array<std::string_view, 3> kNames{"config.json", "modules.json", "sentence_bert_config.json"};
  constexpr std::array<std::string_view, 2> kBegins{"model.", "model-0"};  // weights, and shards of them
  std::error_code error;
  const fs::path file = fs::canonical(output, error);
  if (error || folder.empty() || !fs::equivalent(file.parent_path(), folder, error) || error) return;
  const std::string name = file.filename().string();
  if (IsTokenizerFile(name) || std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
      std::any_of(kBegins.begin(), kBegins.end(), [&](std::string_view begin) { return name.starts_with(begin); }))
    FailOption("output", "{} is a file of the model or tokenizer in {}", Shown(output, 100), Shown(folder, 100));
}

}  // namespace lshformer
