#include "models/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "models/family.h"

namespace lshformer {
namespace {

// No encoder comes near these; they keep every product of two sizes far from overflow.
constexpr int64_t kMostVocab = int64_t{1} << 24, kMostHidden = int64_t{1} << 16, kMostLayers = 1024;
constexpr int64_t kMostIntermediate = int64_t{1} << 20, kMostLabels = int64_t{1} << 16;
constexpr int64_t kMostHeadDim = 256;    // what the attention kernels take
constexpr double kMostParameters = 8e9;  // 32 GB of weights; BERT-large has 0.34e9

// Keys that stand for a member of ModelConfig, whatever the family.
constexpr const char* kSharedKeys[] = {"architectures", "model_type",        "vocab_size",  "hidden_size",
                                       "pad_token_id",  "initializer_range", "num_labels",  "id2label",
                                       "label2id",      "problem_type",      "torch_dtype", "dtype"};
// Those of EncoderConfig, for families of encoder layers.
constexpr const char* kEncoderKeys[] = {"num_hidden_layers", "num_attention_heads", "intermediate_size",
                                        "reversible",        "hidden_act",          "chunk_size_feed_forward",
                                        "layer_norm_eps",    "hidden_dropout_prob", "attention_probs_dropout_prob",
                                        "attention"};

std::vector<std::string> KnownKeys(const Family& family) {
  std::vector<std::string> keys(std::begin(kSharedKeys), std::end(kSharedKeys));
  if (family.encoder_layers) keys.insert(keys.end(), std::begin(kEncoderKeys), std::end(kEncoderKeys));
  keys.insert(keys.end(), family.keys.begin(), family.keys.end());
  return keys;
}

std::string GetText(const Json& json, const char* key, std::string_view where, const std::string& absent) {
  return HasValue(json, key) ? GetString(json, key, where) : absent;
}

std::vector<std::string> ParseArchitectures(const Json& json, std::string_view where) {
  std::vector<std::string> names;
  if (!HasValue(json, "architectures")) return names;
  const Json& list = json.at("architectures");
  if (!list.is_array()) Fail("{}: \"architectures\": expected a list of names, got {}", where, ShownValue(list));
  for (const Json& name : list) {
    if (!name.is_string())
      Fail("{}: \"architectures\": expected a list of names, it holds {}", where, ShownValue(name));
    names.push_back(name.get<std::string>());
  }
  return names;
}

// A label's number, as a key ("0") or a value (0; some files write "0").
int64_t LabelId(const Json& value, const char* key, std::string_view where) {
  if (value.is_number_unsigned() && value.get<uint64_t>() < static_cast<uint64_t>(kMostLabels))
    return value.get<int64_t>();
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const bool digits = !text.empty() && text.size() <= 7 && text.find_first_not_of("0123456789") == text.npos;
  if (!digits || std::stoll(text) >= kMostLabels)
    Fail("{}: \"{}\": expected numbers from 0, got {}", where, key, ShownValue(value));
  return std::stoll(text);
}

// Labels in order of their numbers, from id2label or else label2id; empty if the file has neither.
std::vector<std::string> ParseLabels(const Json& json, std::string_view where) {
  const bool by_id = HasValue(json, "id2label");
  if (!by_id && !HasValue(json, "label2id")) return {};
  const char* key = by_id ? "id2label" : "label2id";
  const Json& object = json.at(key);
  if (!object.is_object()) Fail("{}: \"{}\": expected an object, got {}", where, key, ShownValue(object));
  std::map<int64_t, std::string> names;
  for (const auto& [left, right] : object.items()) {
    const int64_t id = LabelId(by_id ? Json(left) : right, key, where);
    if (by_id && !right.is_string()) Fail("{}: \"{}\": expected names, got {}", where, key, ShownValue(right));
    const std::string name = by_id ? right.get<std::string>() : left;
    if (!names.emplace(id, name).second) Fail("{}: \"{}\": two labels have number {}", where, key, id);
  }
  std::vector<std::string> labels;
  for (const auto& [id, name] : names) {
    if (id != static_cast<int64_t>(labels.size())) Fail("{}: \"{}\": label {} is missing", where, key, labels.size());
    labels.push_back(name);
  }
  return labels;
}

std::string DefaultLabel(int64_t id) { return fmt::format("LABEL_{}", id); }

void ParseLabelKeys(const Json& json, std::string_view where, ModelConfig& config) {
  config.labels = ParseLabels(json, where);
  const auto count = static_cast<int64_t>(config.labels.size());
  if (count > 0) config.num_labels = count;
  if (HasValue(json, "num_labels")) {
    config.num_labels = GetInt(json, "num_labels", where, 1, kMostLabels);
    if (count > 0 && config.num_labels != count)
      Fail("{}: \"num_labels\" is {}, the label map has {}", where, config.num_labels, count);
  }
  config.problem_type = GetText(json, "problem_type", where, "");
}

std::vector<AttentionSpec> ParseAttention(const Json& json, std::string_view where) {
  if (!HasValue(json, "attention")) return {AttentionSpec{}};
  const Json& value = json.at("attention");
  if (!value.is_array()) return {ParseAttentionSpec(value, fmt::format("{}: \"attention\"", where))};
  if (value.empty()) Fail("{}: \"attention\": the list is empty", where);
  std::vector<AttentionSpec> specs;
  for (const Json& layer : value)
    specs.push_back(ParseAttentionSpec(layer, fmt::format("{}: \"attention\"[{}]", where, specs.size())));
  return specs;
}

// Sizes, rates and attention of the encoder layers.
void ParseEncoderKeys(const Json& json, std::string_view where, EncoderConfig& config) {
  const auto integer = [&](const char* key, int64_t& target) {
    if (json.contains(key)) target = GetInt(json, key, where);
  };
  const auto number = [&](const char* key, double& target) {
    if (json.contains(key)) target = GetNumber(json, key, where);
  };
  integer("num_hidden_layers", config.num_hidden_layers);
  integer("num_attention_heads", config.num_attention_heads);
  integer("intermediate_size", config.intermediate_size);
  if (json.contains("reversible")) config.reversible = GetBool(json, "reversible", where);
  integer("chunk_size_feed_forward", config.chunk_size_feed_forward);
  number("hidden_dropout_prob", config.hidden_dropout_prob);
  number("attention_probs_dropout_prob", config.attention_probs_dropout_prob);
  number("layer_norm_eps", config.layer_norm_eps);
  if (json.contains("hidden_act"))
    config.hidden_act = ParseActivation(GetString(json, "hidden_act", where), fmt::format("{}: \"hidden_act\"", where));
  config.attention = ParseAttention(json, where);
}

void ValidateEncoderConfig(const EncoderConfig& config, std::string_view where) {
  CheckRange("num_hidden_layers", config.num_hidden_layers, 1, kMostLayers, where);
  CheckRange("num_attention_heads", config.num_attention_heads, 1, kMostHidden, where);
  CheckRange("intermediate_size", config.intermediate_size, 1, kMostIntermediate, where);
  CheckRange("chunk_size_feed_forward", config.chunk_size_feed_forward, 0, INT32_MAX, where);
  if (config.hidden_size % config.num_attention_heads != 0)
    Fail("{}: \"hidden_size\" {} is not a multiple of \"num_attention_heads\" {}", where, config.hidden_size,
         config.num_attention_heads);
  if (config.head_dim() > kMostHeadDim)
    Fail("{}: \"hidden_size\" {} with {} heads gives heads of {}, the limit is {}", where, config.hidden_size,
         config.num_attention_heads, config.head_dim(), kMostHeadDim);
  CheckProbability("hidden_dropout_prob", config.hidden_dropout_prob, where);
  CheckProbability("attention_probs_dropout_prob", config.attention_probs_dropout_prob, where);
  if (!(config.layer_norm_eps > 0 && config.layer_norm_eps <= 1))
    Fail("{}: \"layer_norm_eps\": expected above 0 and at most 1, got {}", where, config.layer_norm_eps);
  if (config.attention.empty() ||
      (config.attention.size() != 1 && static_cast<int64_t>(config.attention.size()) != config.num_hidden_layers))
    Fail("{}: \"attention\": expected one object or {} (num_hidden_layers), got {}", where, config.num_hidden_layers,
         config.attention.size());
}

void WriteEncoderKeys(const EncoderConfig& config, Json& json) {
  json["num_hidden_layers"] = config.num_hidden_layers;
  json["num_attention_heads"] = config.num_attention_heads;
  json["intermediate_size"] = config.intermediate_size;
  // Of what ordinary layers have the defaults, only what differs is written.
  if (config.reversible) json["reversible"] = true;
  if (config.chunk_size_feed_forward > 0) json["chunk_size_feed_forward"] = config.chunk_size_feed_forward;
  json["hidden_act"] = Name(config.hidden_act);
  json["hidden_dropout_prob"] = config.hidden_dropout_prob;
  json["attention_probs_dropout_prob"] = config.attention_probs_dropout_prob;
}

Json AttentionJson(const std::vector<AttentionSpec>& attention) {
  if (attention.size() == 1) return ToJson(attention[0]);
  Json layers = Json::array();
  for (const AttentionSpec& layer : attention) layers.push_back(ToJson(layer));
  return layers;
}

// HF knows the number of labels from these maps alone, and takes 2 where they are absent.
void WriteLabels(const ModelConfig& config, Json& json) {
  if (config.labels.empty() && config.num_labels == ModelConfig().num_labels) return;
  Json by_id = Json::object(), by_name = Json::object();
  std::set<std::string> seen;  // two labels may have one name: the first keeps it
  for (int64_t id = 0; id < config.num_labels; ++id) {
    AppendMember(by_id, std::to_string(id), config.label_name(id));
    if (seen.insert(config.label_name(id)).second) AppendMember(by_name, config.label_name(id), id);
  }
  json["id2label"] = std::move(by_id);
  json["label2id"] = std::move(by_name);
}

}  // namespace

void CheckRange(const char* key, int64_t value, int64_t low, int64_t high, std::string_view where) {
  if (value < low || value > high) Fail("{}: \"{}\": expected {} to {}, got {}", where, key, low, high, value);
}

void CheckProbability(const char* key, double value, std::string_view where) {
  if (!(value >= 0 && value < 1)) Fail("{}: \"{}\": expected at least 0 and below 1, got {}", where, key, value);
}

void CheckParameterCount(double parameters, std::string_view where) {
  if (parameters > kMostParameters)
    Fail("{}: the sizes ask for {:.3g} parameters, the limit is {:.3g}", where, parameters, kMostParameters);
}

ModelConfig::ModelConfig() : model_type(Families().front()->model_type) {}

ModelConfig DefaultModelConfig(std::string_view model_type, std::string_view where) {
  const Family& family = FindFamily(model_type, where);
  ModelConfig config;
  config.model_type = family.model_type;
  if (family.set_defaults != nullptr) family.set_defaults(config);
  return config;
}

std::string ModelConfig::label_name(int64_t id) const {
  const bool named = id >= 0 && id < static_cast<int64_t>(labels.size());
  return named ? labels[static_cast<size_t>(id)] : DefaultLabel(id);
}

ModelConfig ParseModelConfig(const Json& json, std::string_view where) {
  if (!json.is_object()) Fail("{}: expected an object, got {}", where, ShownValue(json));
  ModelConfig config = DefaultModelConfig(GetText(json, "model_type", where, ModelConfig().model_type), where);
  const Family& family = FamilyOf(config);
  config.architectures = ParseArchitectures(json, where);
  if (json.contains("vocab_size")) config.vocab_size = GetInt(json, "vocab_size", where);
  if (json.contains("hidden_size")) config.hidden_size = GetInt(json, "hidden_size", where);
  if (HasValue(json, "pad_token_id")) config.pad_token_id = GetInt(json, "pad_token_id", where);
  if (json.contains("initializer_range")) config.initializer_range = GetNumber(json, "initializer_range", where);
  if (family.encoder_layers) ParseEncoderKeys(json, where, config);
  ParseLabelKeys(json, where, config);
  family.parse(json, where, config);
  for (const char* key : {"torch_dtype", "dtype"})
    if (HasValue(json, key)) GetString(json, key, where);
  const std::vector<std::string> known = KnownKeys(family);
  for (const auto& [key, value] : json.items())
    if (std::find(known.begin(), known.end(), key) == known.end()) AppendMember(config.other, key, value);
  ValidateModelConfig(config, where);
  return config;
}

Json ReadModelConfigJson(const std::string& path) {
  if (const auto folder = std::filesystem::path(path).parent_path();
      !folder.empty() && !std::filesystem::exists(folder))
    Fail("{}: no such folder; a model is a folder on this machine, names are not downloaded",
         Shown(folder.string(), 120));
  constexpr size_t kMostBytes = size_t{16} << 20;  // some real files list a label for each of 20,000 classes
  return ReadJsonFile(path, {.bytes = kMostBytes});
}

ModelConfig ReadModelConfig(const std::string& path) {
  return ParseModelConfig(ReadModelConfigJson(path), Shown(path, 120));
}

void ValidateModelConfig(const ModelConfig& config, std::string_view where) {
  const Family& family = FindFamily(config.model_type, where);
  CheckRange("vocab_size", config.vocab_size, 1, kMostVocab, where);
  CheckRange("hidden_size", config.hidden_size, 1, kMostHidden, where);
  CheckRange("pad_token_id", config.pad_token_id, 0, config.vocab_size - 1, where);
  CheckRange("num_labels", config.num_labels, 1, kMostLabels, where);
  if (family.encoder_layers) ValidateEncoderConfig(config, where);
  if (!(config.initializer_range >= 0 && config.initializer_range <= 100))
    Fail("{}: \"initializer_range\": expected 0 to 100, got {}", where, config.initializer_range);
  if (!config.labels.empty() && static_cast<int64_t>(config.labels.size()) != config.num_labels)
    Fail("{}: \"num_labels\" is {}, but {} labels are named", where, config.num_labels, config.labels.size());
  static const std::set<std::string> kProblemTypes{"", "regression", "single_label_classification"};
  if (!kProblemTypes.contains(config.problem_type))
    Fail("{}: \"problem_type\": expected \"regression\" or \"single_label_classification\", got \"{}\"", where,
         Shown(config.problem_type));
  family.validate(config, where);
}

Json ToJson(const ModelConfig& config) {
  const Family& family = FamilyOf(config);
  Json json = Json::object();
  json["architectures"] = config.architectures;
  json["model_type"] = config.model_type;
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  if (family.encoder_layers) WriteEncoderKeys(config, json);
  family.write(config, json);
  json["initializer_range"] = config.initializer_range;
  if (family.encoder_layers) json["layer_norm_eps"] = config.layer_norm_eps;
  json["pad_token_id"] = config.pad_token_id;
  WriteLabels(config, json);
  if (!config.problem_type.empty()) json["problem_type"] = config.problem_type;
  if (family.encoder_layers) json["attention"] = AttentionJson(config.attention);
  json["torch_dtype"] = "float32";
  for (const auto& [key, value] : config.other.items()) AppendMember(json, key, value);
  return json;
}

namespace {

std::string Trimmed(const std::string& text) {
  constexpr const char* kSpaces = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpaces);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

void ApplyOverride(Json& json, std::vector<std::string> keys, const std::string& key, const std::string& text,
                   std::string_view where) {
  for (const auto& [other, value] : json.items()) keys.push_back(other);
  if (std::find(keys.begin(), keys.end(), key) == keys.end())
    FailUsage("{}: unknown key \"{}\"{}", where, Shown(key), Suggestion(key, keys));
  // What is not JSON is a bare string: hidden_act=gelu. HF writes True, False and None as Python does.
  Json value = text == "True" ? Json(true) : text == "False" ? Json(false) : text == "None" ? Json(nullptr) : Json();
  if (value.is_null() && text != "None") {
    try {
      value = ParseJson(text, where);
    } catch (const Error&) {
      if (text.starts_with('{') || text.starts_with('[') || text.starts_with('"')) throw;
      value = text;
    }
  }
  if (key == "num_labels") {
    json.erase("id2label");
    json.erase("label2id");
  }
  if (key == "id2label" || key == "label2id") {
    json.erase("id2label");
    json.erase("label2id");
    json.erase("num_labels");
  }
  json[key] = std::move(value);
}

// "a=1,b={"x": [1, 2]}" at the commas outside brackets and quotes.
std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\' && i + 1 < text.size()) {
      parts.back() += c;
      parts.back() += text[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '{' || c == '[')) ++depth;
    if (!quoted && (c == '}' || c == ']')) --depth;
    if (c == ',' && !quoted && depth <= 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> SplitOverrides(std::string_view overrides, std::string_view where) {
  std::vector<std::pair<std::string, std::string>> all;
  if (Trimmed(std::string(overrides)).empty()) return all;
  for (const std::string& part : SplitAtCommas(overrides)) {
    const size_t equals = part.find('=');
    if (equals == part.npos) FailUsage("{}: expected key=value, got \"{}\"", where, Shown(part));
    all.emplace_back(Trimmed(part.substr(0, equals)), Trimmed(part.substr(equals + 1)));
  }
  return all;
}

void ApplyOverrides(ModelConfig& config, std::string_view overrides, std::string_view where) {
  const auto changes = SplitOverrides(overrides, where);
  if (changes.empty()) return;
  try {
    Json json = ToJson(config);
    const std::vector<std::string> keys = KnownKeys(FamilyOf(config));
    for (const auto& [key, text] : changes) ApplyOverride(json, keys, key, text, where);
    config = ParseModelConfig(json, where);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(error.Spelled(kOptionMark));
  }
}

}  // namespace lshformer
