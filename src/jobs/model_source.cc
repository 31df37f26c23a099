#include "jobs/model_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "models/config.h"

namespace lshformer {
namespace {

constexpr int kShortestSequence = 3;  // [CLS], a token, [SEP]

ModelConfig NewConfig(const ModelSource& source, const Tokenizer& tokenizer) {
  ModelConfig config = source.model_type.empty()
                           ? ModelConfig()
                           : DefaultModelConfig(source.model_type, fmt::format("{}", OptionName{"model_type"}));
  if (!source.config_name.empty()) {
    config = ReadModelConfig(ConfigPath(source.config_name));
  }
  if (!source.model_type.empty() && source.model_type != config.model_type)
    FailUsage("{} {}: {} {} is of model_type \"{}\"", OptionName{"model_type"}, source.model_type,
              OptionName{"config_name"}, source.config_name, config.model_type);
  config.vocab_size = tokenizer.vocab_size();
  config.pad_token_id = tokenizer.pad_id();
  if (!source.config_overrides.empty())
    ApplyOverrides(config, source.config_overrides, fmt::format("{}", OptionName{"config_overrides"}));
  return config;
}

}  // namespace

Task NamedTask(const std::string& name, const std::string& folder) {
  if (name == "fill-mask") return Task::kMaskedLm;
  if (name == "pretraining") return Task::kPretraining;
  if (name == "text-classification") return Task::kSequenceClassification;
  if (name == "question-answering") return Task::kQuestionAnswering;
  if (!name.empty()) FailOption("task", "names no head of a model, got \"{}\"", Shown(name));
  const std::string path = folder + "/config.json";
  return TaskFromArchitectures(ReadModelConfig(path), path);
}

std::string ConfigPath(const std::string& config_name) {
  std::error_code error;
  return std::filesystem::is_directory(config_name, error) ? config_name + "/config.json" : config_name;
}

void CheckPrecision(Precision precision) {
  RequirePrecision(precision,
                   fmt::format("{}", OptionName{precision == Precision::kBFloat16 ? "bf16" : "int8"}).c_str());
}

void CheckModelSource(const ModelSource& source) {
  CheckPrecision(source.precision);
  const bool fresh = !source.model_type.empty() || !source.config_name.empty() || !source.config_overrides.empty();
  if (source.model_name_or_path.empty()) {
    const std::vector<std::string> types = ModelTypes();
    if (!fresh)
      FailUsage("{} DIR, or for a new model {} {}: required", OptionName{"model_name_or_path"},
                OptionName{"model_type"}, fmt::join(types, "|"));
    if (source.tokenizer_name.empty()) FailOption("tokenizer_name", "required for a new model");
    if (!source.model_type.empty() && std::find(types.begin(), types.end(), source.model_type) == types.end())
      FailOption("model_type", "expected {}, got \"{}\"", fmt::join(types, " or "), source.model_type);
  } else if (fresh) {
    FailOption("model_name_or_path", "has its own config; {}, {} and {} make a new model", OptionName{"model_type"},
               OptionName{"config_name"}, OptionName{"config_overrides"});
  }
}

std::shared_ptr<const Tokenizer> LoadTokenizer(const ModelSource& source) {
  return Tokenizer::Load(source.tokenizer_name.empty() ? source.model_name_or_path : source.tokenizer_name);
}

ModelPtr MakeModel(const ModelSource& source, const std::string& resume_from, Task task, const Tokenizer& tokenizer,
                   uint64_t seed, const std::function<void(ModelConfig&)>& adjust) {
  const auto adjust_all = [&](ModelConfig& config) {
    source.attention.Apply(config.attention);
    if (adjust) adjust(config);
    if (config.vocab_size < tokenizer.vocab_size())
      Fail("{}: \"vocab_size\" is {}, but the tokenizer (vocab.txt) has {} tokens",
           source.config_name.empty() ? "config.json" : source.config_name, config.vocab_size, tokenizer.vocab_size());
    ValidateModelConfig(config, source.config_name.empty() ? "model config" : source.config_name);
  };
  const std::string& folder = resume_from.empty() ? source.model_name_or_path : resume_from;
  ModelPtr model;
  if (folder.empty()) {
    ModelConfig config = NewConfig(source, tokenizer);
    adjust_all(config);
    model = CreateModel(config, task, seed);
  } else {
    model = LoadModel(folder, task, seed, /*require_head=*/!resume_from.empty(), adjust_all);
  }
  model->set_precision(source.precision);
  return model;
}

int SequenceLimit(int max_seq_length, const ModelConfig& config) {
  const int64_t limit = config.max_position_embeddings;
  if (max_seq_length == 0) return static_cast<int>(limit);
  if (max_seq_length < kShortestSequence || max_seq_length > limit)
    FailOption("max_seq_length", "expected {} to {} (max_position_embeddings), got {}", kShortestSequence, limit,
               max_seq_length);
  return max_seq_length;
}

int64_t SavedMaxLength(bool new_model, const Tokenizer& tokenizer, const ModelConfig& config) {
  const int64_t positions = config.max_position_embeddings, own = tokenizer.model_max_length();
  return new_model || own == 0 ? positions : std::min(own, positions);
}

std::string CanonicalPath(const std::string& path) {
  if (path.empty() || path == "-") return path;
  std::error_code error;
  const auto canonical = std::filesystem::weakly_canonical(path, error);
  const std::string text = error ? path : canonical.string();
  return IsValidUtf8(text) ? text : Shown(text, std::string::npos);
}

Json CanonicalPaths(const std::vector<std::string>& paths) {
  Json list = Json::array();
  for (const std::string& path : paths) list.push_back(CanonicalPath(path));
  return list;
}

Json Settings(const ModelSource& source) {
  Json settings = {{"model_name_or_path", CanonicalPath(source.model_name_or_path)},
                   {"model_type", source.model_type},
                   {"config_name", CanonicalPath(source.config_name)},
                   {"config_overrides", source.config_overrides},
                   {"tokenizer_name", CanonicalPath(source.tokenizer_name)}};
  settings["bf16"] = source.precision == Precision::kBFloat16;
  settings["attention"] = source.attention.attention;
  for (const auto& [key, value] : source.attention.Keys()) settings["lsh_" + key] = value;
  return settings;
}

}  // namespace lshformer
