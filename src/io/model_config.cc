#include "io/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.h"

namespace lshformer {
namespace {

// No encoder comes near these; they keep every product of two sizes far from overflow.
constexpr int64_t kMostVocab = int64_t{1} << 24, kMostHidden = int64_t{1} << 16, kMostLayers = 1024;
constexpr int64_t kMostIntermediate = int64_t{1} << 20, kMostPositions = int64_t{1} << 24,
                  kMostTypes = int64_t{1} << 16;
constexpr int64_t kMostLabels = int64_t{1} << 16;
constexpr int64_t kMostHeadDim = 256;    // what the attention kernels take
constexpr double kMostParameters = 8e9;  // 32 GB of weights; BERT-large has 0.34e9

struct ActivationName {
  const char* name;
  Activation activation;
};
// The first name of each is the one written.
constexpr std::array<ActivationName, 7> kActivations{{{"gelu", Activation::kGelu},
                                                      {"gelu_new", Activation::kGeluNew},
                                                      {"gelu_pytorch_tanh", Activation::kGeluNew},
                                                      {"relu", Activation::kRelu},
                                                      {"tanh", Activation::kTanh},
                                                      {"silu", Activation::kSilu},
                                                      {"swish", Activation::kSilu}}};

// Keys with a member of their own in ModelConfig, in the order they are written.
const std::vector<std::string>& KnownKeys() {
  static const std::vector<std::string> keys{"architectures",
                                             "model_type",
                                             "vocab_size",
                                             "hidden_size",
                                             "num_hidden_layers",
                                             "num_attention_heads",
                                             "intermediate_size",
                                             "reversible",
                                             "chunk_size_feed_forward",
                                             "hidden_act",
                                             "hidden_dropout_prob",
                                             "attention_probs_dropout_prob",
                                             "classifier_dropout",
                                             "max_position_embeddings",
                                             "type_vocab_size",
                                             "initializer_range",
                                             "layer_norm_eps",
                                             "pad_token_id",
                                             "num_labels",
                                             "id2label",
                                             "label2id",
                                             "problem_type",
                                             "attention",
                                             "torch_dtype",
                                             "dtype"};
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

// Variants of BERT that change the result and that the model does not compute.
void RefuseOtherVariants(const Json& json, std::string_view where) {
  const std::string positions = GetText(json, "position_embedding_type", where, "absolute");
  if (positions != "absolute")
    Fail("{}: \"position_embedding_type\": expected \"absolute\", got \"{}\"", where, Shown(positions));
  for (const char* key : {"is_decoder", "add_cross_attention"})
    if (HasValue(json, key) && GetBool(json, key, where))
      Fail("{}: \"{}\": expected false (encoders only), got true", where, key);
  if (HasValue(json, "tie_word_embeddings") && !GetBool(json, "tie_word_embeddings", where))
    Fail("{}: \"tie_word_embeddings\": expected true, got false", where);
  for (const char* key : {"torch_dtype", "dtype"})
    if (HasValue(json, key)) GetString(json, key, where);
}

double Parameters(const ModelConfig& config) {
  const double hidden = static_cast<double>(config.hidden_size), inner = static_cast<double>(config.intermediate_size);
  const double rows = static_cast<double>(config.vocab_size + config.max_position_embeddings + config.type_vocab_size);
  return rows * hidden + static_cast<double>(config.num_hidden_layers) * (4 * hidden * hidden + 2 * hidden * inner) +
         2 * hidden * hidden + static_cast<double>(config.num_labels) * hidden;
}

void CheckRange(const char* key, int64_t value, int64_t low, int64_t high, std::string_view where) {
  if (value < low || value > high) Fail("{}: \"{}\": expected {} to {}, got {}", where, key, low, high, value);
}

void CheckProbability(const char* key, double value, std::string_view where) {
  if (!(value >= 0 && value < 1)) Fail("{}: \"{}\": expected at least 0 and below 1, got {}", where, key, value);
}

}  // namespace

Activation ParseActivation(const std::string& name, std::string_view where) {
  std::vector<std::string> names;
  for (const ActivationName& known : kActivations) {
    if (name == known.name) return known.activation;
    names.push_back(known.name);
  }
  Fail("{}: unknown activation \"{}\", expected {}{}", where, Shown(name), fmt::join(names, ", "),
       Suggestion(name, names));
}

const char* Name(Activation activation) {
  const auto is_it = [&](const ActivationName& known) { return known.activation == activation; };
  return std::find_if(kActivations.begin(), kActivations.end(), is_it)->name;
}

std::string ModelConfig::label_name(int64_t id) const {
  const bool named = id >= 0 && id < static_cast<int64_t>(labels.size());
  return named ? labels[static_cast<size_t>(id)] : DefaultLabel(id);
}

ModelConfig ParseModelConfig(const Json& json, std::string_view where) {
  if (!json.is_object()) Fail("{}: expected an object, got {}", where, ShownValue(json));
  ModelConfig config;
  const auto integer = [&](const char* key, int64_t& target) {
    if (json.contains(key)) target = GetInt(json, key, where);
  };
  const auto number = [&](const char* key, double& target) {
    if (json.contains(key)) target = GetNumber(json, key, where);
  };
  config.model_type = GetText(json, "model_type", where, config.model_type);
  config.architectures = ParseArchitectures(json, where);
  integer("vocab_size", config.vocab_size);
  integer("hidden_size", config.hidden_size);
  integer("num_hidden_layers", config.num_hidden_layers);
  integer("num_attention_heads", config.num_attention_heads);
  integer("intermediate_size", config.intermediate_size);
  if (json.contains("reversible")) config.reversible = GetBool(json, "reversible", where);
  integer("chunk_size_feed_forward", config.chunk_size_feed_forward);
  integer("max_position_embeddings", config.max_position_embeddings);
  integer("type_vocab_size", config.type_vocab_size);
  if (HasValue(json, "pad_token_id")) integer("pad_token_id", config.pad_token_id);
  number("hidden_dropout_prob", config.hidden_dropout_prob);
  number("attention_probs_dropout_prob", config.attention_probs_dropout_prob);
  if (HasValue(json, "classifier_dropout")) {
    number("classifier_dropout", config.classifier_dropout);
    CheckProbability("classifier_dropout", config.classifier_dropout, where);  // below 0 means null from here on
  }
  number("initializer_range", config.initializer_range);
  number("layer_norm_eps", config.layer_norm_eps);
  if (json.contains("hidden_act"))
    config.hidden_act = ParseActivation(GetString(json, "hidden_act", where), fmt::format("{}: \"hidden_act\"", where));
  ParseLabelKeys(json, where, config);
  config.attention = ParseAttention(json, where);
  RefuseOtherVariants(json, where);
  const std::vector<std::string>& known = KnownKeys();
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
  if (config.model_type != "bert")
    Fail("{}: \"model_type\": expected \"bert\", got \"{}\"", where, Shown(config.model_type));
  CheckRange("vocab_size", config.vocab_size, 1, kMostVocab, where);
  CheckRange("hidden_size", config.hidden_size, 1, kMostHidden, where);
  CheckRange("num_hidden_layers", config.num_hidden_layers, 1, kMostLayers, where);
  CheckRange("num_attention_heads", config.num_attention_heads, 1, kMostHidden, where);
  CheckRange("intermediate_size", config.intermediate_size, 1, kMostIntermediate, where);
  CheckRange("chunk_size_feed_forward", config.chunk_size_feed_forward, 0, INT32_MAX, where);
  CheckRange("max_position_embeddings", config.max_position_embeddings, 1, kMostPositions, where);
  CheckRange("type_vocab_size", config.type_vocab_size, 1, kMostTypes, where);
  CheckRange("pad_token_id", config.pad_token_id, 0, config.vocab_size - 1, where);
  CheckRange("num_labels", config.num_labels, 1, kMostLabels, where);
  if (config.hidden_size % config.num_attention_heads != 0)
    Fail("{}: \"hidden_size\" {} is not a multiple of \"num_attention_heads\" {}", where, config.hidden_size,
         config.num_attention_heads);
  if (config.head_dim() > kMostHeadDim)
    Fail("{}: \"hidden_size\" {} with {} heads gives heads of {}, the limit is {}", where, config.hidden_size,
         config.num_attention_heads, config.head_dim(), kMostHeadDim);
  CheckProbability("hidden_dropout_prob", config.hidden_dropout_prob, where);
  CheckProbability("attention_probs_dropout_prob", config.attention_probs_dropout_prob, where);
  if (!(config.classifier_dropout < 1))
    Fail("{}: \"classifier_dropout\": expected below 1, got {}", where, config.classifier_dropout);
  if (!(config.initializer_range >= 0 && config.initializer_range <= 100))
    Fail("{}: \"initializer_range\": expected 0 to 100, got {}", where, config.initializer_range);
  if (!(config.layer_norm_eps > 0 && config.layer_norm_eps <= 1))
    Fail("{}: \"layer_norm_eps\": expected above 0 and at most 1, got {}", where, config.layer_norm_eps);
  if (!config.labels.empty() && static_cast<int64_t>(config.labels.size()) != config.num_labels)
    Fail("{}: \"num_labels\" is {}, but {} labels are named", where, config.num_labels, config.labels.size());
  static const std::set<std::string> kProblemTypes{"", "regression", "single_label_classification"};
  if (!kProblemTypes.contains(config.problem_type))
    Fail("{}: \"problem_type\": expected \"regression\" or \"single_label_classification\", got \"{}\"", where,
         Shown(config.problem_type));
  if (config.attention.empty() ||
      (config.attention.size() != 1 && static_cast<int64_t>(config.attention.size()) != config.num_hidden_layers))
    Fail("{}: \"attention\": expected one object or {} (num_hidden_layers), got {}", where, config.num_hidden_layers,
         config.attention.size());
  if (const double parameters = Parameters(config); parameters > kMostParameters)
    Fail("{}: the sizes ask for {:.3g} parameters, the limit is {:.3g}", where, parameters, kMostParameters);
}

Json ToJson(const ModelConfig& config) {
  Json json = Json::object();
  json["architectures"] = config.architectures;
  json["model_type"] = config.model_type;
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  json["num_hidden_layers"] = config.num_hidden_layers;
  json["num_attention_heads"] = config.num_attention_heads;
  json["intermediate_size"] = config.intermediate_size;
  // Of what every BERT has the defaults, only what differs is written.
  if (config.reversible) json["reversible"] = true;
  if (config.chunk_size_feed_forward > 0) json["chunk_size_feed_forward"] = config.chunk_size_feed_forward;
  json["hidden_act"] = Name(config.hidden_act);
  json["hidden_dropout_prob"] = config.hidden_dropout_prob;
  json["attention_probs_dropout_prob"] = config.attention_probs_dropout_prob;
  json["classifier_dropout"] = config.classifier_dropout < 0 ? Json(nullptr) : Json(config.classifier_dropout);
  json["max_position_embeddings"] = config.max_position_embeddings;
  json["type_vocab_size"] = config.type_vocab_size;
  json["initializer_range"] = config.initializer_range;
  json["layer_norm_eps"] = config.layer_norm_eps;
  json["pad_token_id"] = config.pad_token_id;
  // HF knows the number of labels from these maps alone, and takes 2 where they are absent.
  if (!config.labels.empty() || config.num_labels != ModelConfig{}.num_labels) {
    Json by_id = Json::object(), by_name = Json::object();
    std::set<std::string> seen;  // two labels may have one name: the first keeps it
    for (int64_t id = 0; id < config.num_labels; ++id) {
      AppendMember(by_id, std::to_string(id), config.label_name(id));
      if (seen.insert(config.label_name(id)).second) AppendMember(by_name, config.label_name(id), id);
    }
    json["id2label"] = std::move(by_id);
    json["label2id"] = std::move(by_name);
  }
  if (!config.problem_type.empty()) json["problem_type"] = config.problem_type;
  if (config.attention.size() == 1) {
    json["attention"] = ToJson(config.attention[0]);
  } else {
    json["attention"] = Json::array();
    for (const AttentionSpec& layer : config.attention) json["attention"].push_back(ToJson(layer));
  }
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

void ApplyOverride(Json& json, const std::string& key, const std::string& text, std::string_view where) {
  std::vector<std::string> keys = KnownKeys();
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
    for (const auto& [key, text] : changes) ApplyOverride(json, key, text, where);
    config = ParseModelConfig(json, where);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace lshformer
