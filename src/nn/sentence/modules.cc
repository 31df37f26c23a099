#include "nn/sentence/modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "nn/sentence/module_files.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

constexpr double kNormEpsilon = 1e-5;  // of torch's LayerNorm
constexpr std::pair<const char*, Similarity> kSimilarities[] = {{"cosine", Similarity::kCosine},
                                                                {"dot", Similarity::kDot},
                                                                {"euclidean", Similarity::kEuclidean},
                                                                {"manhattan", Similarity::kManhattan}};

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

double Dot(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

std::vector<float> Applied(const DenseModule& dense, const std::vector<float>& x) {
  std::vector<float> out;
  for (int64_t row = 0; row < dense.out; ++row) {
    const float* weight = dense.weight.data() + row * dense.in;
    double y = dense.function(Dot(weight, x.data(), dense.in) +
                              (dense.bias.empty() ? 0 : dense.bias[static_cast<size_t>(row)]));
    if (dense.adds_input)
      y += dense.residual.empty() ? x[static_cast<size_t>(row)]
                                  : Dot(dense.residual.data() + row * dense.in, x.data(), dense.in);
    out.push_back(static_cast<float>(y));
  }
  return out;
}

std::vector<float> Applied(const LayerNormModule& norm, const std::vector<float>& x) {
  const double count = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const float number : x) mean += number / count;
  for (const float number : x) variance += (number - mean) * (number - mean) / count;
  std::vector<float> out;
  for (size_t i = 0; i < x.size(); ++i)
    out.push_back(
        static_cast<float>((x[i] - mean) / std::sqrt(variance + kNormEpsilon) * norm.weight[i] + norm.bias[i]));
  return out;
}

std::vector<float> Applied(const NormalizeModule&, std::vector<float> x) {
  NormalizeVector(x);
  return x;
}

// Numbers that a module takes and gives, of `width` where it takes any.
int64_t Taken(const DenseModule& dense, int64_t) { return dense.in; }
int64_t Taken(const LayerNormModule& norm, int64_t) { return std::ssize(norm.weight); }
int64_t Taken(const NormalizeModule&, int64_t width) { return width; }
int64_t Given(const DenseModule& dense, int64_t) { return dense.out; }
template <class Module>
int64_t Given(const Module&, int64_t width) {
  return width;
}

// What the library hands to transformers, as far as it changes nothing here.
void RefuseArguments(const Json& json, const char* key, const std::string& where) {
  if (!HasValue(json, key)) return;
  const Json& given = json.at(key);
  if (!given.is_object()) Fail("{}: \"{}\": expected an object, got {}", where, key, ShownValue(given));
  RefuseUnknownKeys(given, {"torch_dtype", "dtype", "attn_implementation", "trust_remote_code", "add_pooling_layer"},
                    fmt::format("{}: \"{}\"", where, key));
}

// The Transformer's settings; older releases named the file after the model's type. "": there is none.
std::string EncoderSettings(const std::string& folder) {
  std::string found = folder + "/sentence_bert_config.json";
  if (Exists(found)) return found;
  found.clear();
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("sentence_") && name.ends_with("_config.json") && (found.empty() || entry->path() < found))
      found = entry->path().string();
  }
  return found;
}

}  // namespace

const char* Name(Similarity similarity) {
  return std::find_if(std::begin(kSimilarities), std::end(kSimilarities),
                      [&](const auto& known) { return known.second == similarity; })
      ->first;
}

double SimilarityOf(Similarity similarity, std::span<const float> a, std::span<const float> b) {
  const auto count = std::ssize(a);
  double sum = 0;
  switch (similarity) {
    case Similarity::kCosine: {
      const double squares = Dot(a.data(), a.data(), count) * Dot(b.data(), b.data(), count);
      return squares == 0 ? 0 : Dot(a.data(), b.data(), count) / std::sqrt(squares);
    }
    case Similarity::kDot:
      return Dot(a.data(), b.data(), count);
    case Similarity::kEuclidean:
      for (size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
      return -std::sqrt(sum);
    case Similarity::kManhattan:
      break;
  }
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(static_cast<double>(a[i]) - b[i]);
  return -sum;
}

bool SentenceModules::MakeVectors(const std::string& folder) {
  if (!Exists(folder + "/modules.json")) return false;
  const std::string settings = folder + "/config_sentence_transformers.json";
  if (!Exists(settings)) return true;
  const Json json = ReadJsonObject(settings);
  return !json.contains("model_type") ||
         (json.at("model_type") != "CrossEncoder" && json.at("model_type") != "SparseEncoder");
}

std::shared_ptr<const SentenceModules> SentenceModules::Read(const std::string& folder) {
  if (!Exists(folder + "/modules.json")) return nullptr;
  auto modules = std::make_shared<SentenceModules>();
  modules->ReadModules(folder);
  modules->ReadEncoderSettings();
  modules->ReadSettings(folder);
  return modules;
}

std::string SentenceModules::EncoderFolder(const std::string& folder) {
  return Exists(folder + "/config.json") || !Exists(folder + "/modules.json")
             ? folder
             : ReadModuleEntries(folder).front().folder;
}

std::vector<std::string> SentenceModules::ModuleFolders(const std::string& folder) {
  return Exists(folder + "/modules.json") ? ReadModulePaths(folder) : std::vector<std::string>();
}

void SentenceModules::ReadModules(const std::string& folder) {
  path_ = folder + "/modules.json";
  for (const ModuleEntry& entry : ReadModuleEntries(folder)) {
    switch (entry.kind) {
      case ModuleKind::kTransformer:
        encoder_folder_ = entry.folder;
        break;
      case ModuleKind::kPooling:
        std::tie(pooling_, pooled_width_) = ReadPoolingModule(entry.folder);
        break;
      case ModuleKind::kDense:
        then_.emplace_back(ReadDenseModule(entry.folder));
        break;
      case ModuleKind::kLayerNorm:
        then_.emplace_back(ReadLayerNormModule(entry.folder));
        break;
      case ModuleKind::kNormalize:
        if (entry.folder != folder) CheckVectorModule(entry.folder);
        then_.emplace_back(NormalizeModule{});
        break;
      case ModuleKind::kDropout:
        break;
    }
  }
}

void SentenceModules::ReadEncoderSettings() {
  const std::string path = EncoderSettings(encoder_folder_);
  if (path.empty()) return;
  const std::string where = Shown(path, 160);
  const Json json = ReadJsonObject(path);
  RefuseUnknownKeys(
      json,
      {"max_seq_length", "do_lower_case", "transformer_task", "modality_config", "module_output_name", "unpad_inputs",
       "model_args", "model_kwargs", "config_args", "config_kwargs", "tokenizer_args", "processor_kwargs"},
      where);
  for (const char* key :
       {"model_args", "model_kwargs", "config_args", "config_kwargs", "tokenizer_args", "processor_kwargs"})
    RefuseArguments(json, key, where);
  if (HasValue(json, "max_seq_length")) max_seq_length_ = GetInt(json, "max_seq_length", where, 1);
  lower_cases_ = GetBoolOr(json, "do_lower_case", where, false);
  const auto expect = [&](const Json& object, const char* key, const char* value) {
    if (HasValue(object, key) && object.at(key) != value)
      Fail("{}: \"{}\": expected \"{}\", got {}", where, key, value, ShownValue(object.at(key)));
  };
  expect(json, "transformer_task", "feature-extraction");
  expect(json, "module_output_name", "token_embeddings");
  if (!HasValue(json, "modality_config")) return;
  const Json& modalities = json.at("modality_config");
  if (!modalities.is_object() || !modalities.contains("text") || !modalities.at("text").is_object())
    Fail("{}: \"modality_config\": expected an object with \"text\"", where);
  expect(modalities.at("text"), "method", "forward");
  expect(modalities.at("text"), "method_output_name", "last_hidden_state");
}

void SentenceModules::ReadSettings(const std::string& folder) {
  const std::string path = folder + "/config_sentence_transformers.json", where = Shown(path, 160);
  if (!Exists(path)) return;
  const Json json = ReadJsonObject(path);
  if (HasValue(json, "model_type") && json.at("model_type") != "SentenceTransformer")
    Fail("{}: \"model_type\": expected \"SentenceTransformer\", got {}", where, ShownValue(json.at("model_type")));
  if (HasValue(json, "prompts")) {
    const Json& prompts = json.at("prompts");
    if (!prompts.is_object()) Fail("{}: \"prompts\": expected an object, got {}", where, ShownValue(prompts));
    for (const auto& [name, prompt] : prompts.items())
      prompts_[name] = prompt.is_null() ? "" : GetString(prompts, name, where + ": \"prompts\"");
  }
  if (HasValue(json, "default_prompt_name")) {
    default_prompt_ = GetString(json, "default_prompt_name", where);
    if (!prompts_.contains(default_prompt_))
      Fail("{}: \"default_prompt_name\": \"{}\" is none of \"prompts\"", where, Shown(default_prompt_));
  }
  if (HasValue(json, "truncate_dim")) truncate_dim_ = GetInt(json, "truncate_dim", where, 1);
  if (!HasValue(json, "similarity_fn_name")) return;
  const std::string name = GetString(json, "similarity_fn_name", where);
  const auto known = std::find_if(std::begin(kSimilarities), std::end(kSimilarities),
                                  [&](const auto& similarity) { return name == similarity.first; });
  if (known == std::end(kSimilarities))
    Fail("{}: \"similarity_fn_name\": expected cosine, dot, euclidean or manhattan, got \"{}\"", where, Shown(name));
  similarity_ = known->second;
}

std::vector<std::string> SentenceModules::Names() const {
  std::vector<std::string> modes;
  for (const Pooling mode : pooling_.modes) modes.emplace_back(ModeName(mode));
  std::vector<std::string> names{
      fmt::format("Pooling ({}{})", fmt::join(modes, ", "), pooling_.include_prompt ? "" : "; without the prompt")};
  for (const VectorModule& module : then_) {
    if (const auto* dense = std::get_if<DenseModule>(&module)) {
      names.push_back(fmt::format("Dense {} → {}", dense->in, dense->out));
    } else {
      names.emplace_back(std::holds_alternative<LayerNormModule>(module) ? "LayerNorm" : "Normalize");
    }
  }
  if (truncate_dim_ > 0) names.push_back(fmt::format("the first {} numbers", truncate_dim_));
  return names;
}

std::vector<std::string> SentenceModules::PromptNames() const {
  std::vector<std::string> names;
  for (const auto& [name, prompt] : prompts_) names.push_back(name);
  return names;
}

const std::string& SentenceModules::Prompt(const std::optional<std::string>& name) const {
  static const std::string none;
  if (!name) return default_prompt_.empty() ? none : prompts_.at(default_prompt_);
  const auto found = prompts_.find(*name);
  if (found != prompts_.end()) return found->second;
  const std::vector<std::string> names = PromptNames();
  if (names.empty()) FailOption("prompt_name", "the folder has no prompts, got \"{}\"", Shown(*name));
  FailOption("prompt_name", "expected one of {}, got \"{}\"{}", Shown(fmt::format("{}", fmt::join(names, ", ")), 120),
             Shown(*name), Suggestion(*name, names));
}

int64_t SentenceModules::PromptTokens(const Tokenizer& tokenizer, const std::string& prompt, int max_seq_length) const {
  EncodeOptions options;
  options.max_length = max_seq_length;
  options.lower_case = lower_cases_;
  const Encoding alone = tokenizer.Encode(prompt, {}, options);
  return std::ssize(alone.ids) - (!alone.ids.empty() && tokenizer.IsSpecial(alone.ids.back()) ? 1 : 0);
}

int64_t SentenceModules::LongestText(const Tokenizer& tokenizer, int64_t positions) const {
  const bool said = max_seq_length_ > 0;
  const int64_t own = said ? max_seq_length_ : tokenizer.model_max_length();
  if (own <= 0) return positions;
  if (const int64_t least = ShortestSeqLength(/*texts=*/1, &tokenizer); own < least)
    Fail("{}: \"{}\": expected at least {}, got {}",
         Shown(said ? EncoderSettings(encoder_folder_) : encoder_folder_ + "/tokenizer_config.json", 160),
         said ? "max_seq_length" : "model_max_length", least, own);
  return std::min(own, positions);
}

std::vector<Pooling> SentenceModules::Modes(const VectorChanges& changes) const {
  return changes.pooling ? std::vector<Pooling>{*changes.pooling} : pooling_.modes;
}

size_t SentenceModules::Applied(const VectorChanges& changes) const {
  const bool unit = !then_.empty() && std::holds_alternative<NormalizeModule>(then_.back());
  return then_.size() - (unit && changes.normalize == false ? 1 : 0);
}

int64_t SentenceModules::Width(int64_t hidden, const VectorChanges& changes) const {
  if (pooled_width_ != hidden)
    Fail("{}: its Pooling is for states of {} numbers, the encoder's have {}", Shown(path_, 160), pooled_width_,
         hidden);
  int64_t width = hidden * std::ssize(Modes(changes));
  for (size_t i = 0; i < Applied(changes); ++i)
    width = std::visit(
        [&](const auto& module) {
          if (const int64_t taken = Taken(module, width); taken != width)
            Fail("{}: a module behind the Pooling takes {} numbers, got {}", Shown(path_, 160), taken, width);
          return Given(module, width);
        },
        then_[i]);
  return truncate_dim_ > 0 ? std::min(truncate_dim_, width) : width;
}

bool SentenceModules::Normalizes(const VectorChanges& changes) const {
  if (changes.normalize) return *changes.normalize;
  return !then_.empty() && std::holds_alternative<NormalizeModule>(then_.back());
}

bool SentenceModules::TakesFirstToken(const VectorChanges& changes) const {
  return pooling_.include_prompt && Modes(changes) == std::vector<Pooling>{Pooling::kCls};
}

std::vector<float> SentenceModules::Vector(std::span<const float> rows, int64_t hidden, int64_t prompt_tokens,
                                           const VectorChanges& changes) const {
  const int64_t skipped = pooling_.include_prompt ? 0 : prompt_tokens;
  std::vector<float> vector;
  for (const Pooling mode : Modes(changes)) {
    const std::vector<float> pooled = PoolRows(rows, hidden, mode, /*normalize=*/false, skipped);
    vector.insert(vector.end(), pooled.begin(), pooled.end());
  }
  for (size_t i = 0; i < Applied(changes); ++i)
    vector = std::visit([&](const auto& module) { return lshformer::Applied(module, vector); }, then_[i]);
  if (truncate_dim_ > 0 && truncate_dim_ < std::ssize(vector)) vector.resize(static_cast<size_t>(truncate_dim_));
  if (changes.normalize == true) NormalizeVector(vector);
  return vector;
}

}  // namespace lshformer
