#include "models/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/not_finite.h"
#include "models/family.h"

namespace lshformer {
namespace {

// No model comes near these; they keep every product of two sizes far from overflow.
constexpr int64_t kMostVocab = int64_t{1} << 24, kMostHidden = int64_t{1} << 16, kMostLabels = int64_t{1} << 16;
constexpr int64_t kMostTypes = int64_t{1} << 16;
constexpr double kMostParameters = 8e9;  // 32 GB of weights; BERT-large has 0.34e9

using M = ModelConfig;

constexpr const char *kById = "id2label", *kByName = "label2id";

std::vector<std::string> ParseArchitectures(const Json& json, std::string_view where) {
  std::vector<std::string> names;
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

// HF's scripts write labels as the data has them: numbers stay numbers, and true and false are those.
std::string LabelName(const Json& value, const char* key, std::string_view where) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  Fail("{}: \"{}\": expected names, got {}", where, key, ShownValue(value));
}

// Labels in order of their numbers, from id2label or from label2id.
std::vector<std::string> ParseLabels(const Json& json, const char* key, std::string_view where) {
  const bool by_id = std::string_view(key) == kById;
  const Json& object = json.at(key);
  if (!object.is_object()) Fail("{}: \"{}\": expected an object, got {}", where, key, ShownValue(object));
  std::map<int64_t, std::string> names;
  for (const auto& [left, right] : object.items()) {
    const int64_t id = LabelId(by_id ? Json(left) : right, key, where);
    const std::string name = by_id ? LabelName(right, key, where) : left;
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

// One of the maps. HF takes 2 labels where they are absent.
Json LabelMapJson(const M& config, bool by_id) {
  if (config.labels.empty() && config.num_labels == M().num_labels) return {};
  Json map = Json::object();
  std::set<std::string> seen;  // two labels may have one name: the first keeps it
  for (int64_t id = 0; id < config.num_labels; ++id) {
    if (by_id)
      AppendMember(map, std::to_string(id), config.label_name(id));
    else if (seen.insert(config.label_name(id)).second)
      AppendMember(map, config.label_name(id), id);
  }
  return map;
}

// id2label, or label2id where the file has no other.
Option<M> LabelMap(const char* key) {
  return Custom<M>(
             key, "OBJECT",
             [key](const Json& object, std::string_view where, M& into) {
               if (std::string_view(key) != kById && HasValue(object, kById)) return;
               into.labels = ParseLabels(object, key, where);
               if (!into.labels.empty()) into.num_labels = static_cast<int64_t>(into.labels.size());
             },
             [key](const M& from) { return LabelMapJson(from, std::string_view(key) == kById); },
             "names of the labels, by numbers 0 … n−1 without gaps; `id2label` wins over `label2id`")
      .NullIsAbsent();
}

// Never written: HF knows the number of labels from the maps alone.
Option<M> NumLabels() {
  Option<M> option = Custom<M>(
      "num_labels", "INT",
      [](const Json& object, std::string_view where, M& into) {
        into.num_labels = GetInt(object, "num_labels", where, 1, kMostLabels);
        if (!into.labels.empty() && into.num_labels != static_cast<int64_t>(into.labels.size()))
          Fail("{}: \"num_labels\" is {}, the label map has {}", where, into.num_labels, into.labels.size());
      },
      [](const M&) { return Json(); }, "where no map names them; one that differs from the map is refused");
  option.range = IntegerRange(1, kMostLabels);
  return std::move(option).NullIsAbsent();
}

Option<M> Architectures() {
  return Custom<M>(
             "architectures", "LIST",
             [](const Json& object, std::string_view where, M& into) {
               into.architectures = ParseArchitectures(object, where);
             },
             [](const M& from) { return Json(from.architectures); }, "HF's classes, whose head the model has")
      .NullIsAbsent();
}

// It decides which table there is, so it was read before.
Option<M> ModelTypeKey() {
  return Custom<M>(
             "model_type", "NAME",
             [](const Json& object, std::string_view where, M&) { GetString(object, "model_type", where); },
             [](const M& from) { return Json(from.model_type); }, "the family of models")
      .NullIsAbsent();
}

Option<M> ProblemType() {
  Option<M> option =
      Names("problem_type", &M::problem_type, {"regression", "single_label_classification", M::kMultiLabel},
            "`regression`, `single_label_classification`, `multi_label_classification`; none: one label is a "
            "regression");
  option.write = [](const M& from) { return from.problem_type.empty() ? Json() : Json(from.problem_type); };
  return std::move(option).OrNone().NullIsAbsent();
}

// A weight file says itself what it holds.
Option<M> TypeOfWeights(const char* key, const char* written) {
  return Custom<M>(
             key, "NAME", [key](const Json& object, std::string_view where, M&) { GetString(object, key, where); },
             [written](const M&) { return written == nullptr ? Json() : Json(written); },
             "read and ignored: a weight file says what it holds; `torch_dtype` is written as `save_dtype` says")
      .NullIsAbsent();
}

struct EncoderPart {
  EncoderConfig& operator()(M& config) const { return config; }
  const EncoderConfig& operator()(const M& config) const { return config; }
};

Option<M> AttendedPadding() {
  Option<M> option = Integer("attended_padding", &M::attended_padding, 0, kMostPositions,
                             "of ours, to compare with code that passes no mask: sequences are filled up to so many "
                             "tokens with `pad_token_id`, which attention sees; 0: nothing is padded. At most "
                             "`max_position_embeddings`, and not with ALBERT's conditional head");
  option.write = [](const M& from) { return from.attended_padding == 0 ? Json() : Json(from.attended_padding); };
  return std::move(option).NullIsAbsent();
}

}  // namespace

std::vector<Option<ModelConfig>> TokenOptions() {
  return {Integer("max_position_embeddings", &M::max_position_embeddings, 1, kMostPositions,
                  "rows of the table of positions: tokens of the longest sequence"),
          Integer("type_vocab_size", &M::type_vocab_size, 1, kMostTypes, "kinds of segments"), AttendedPadding()};
}

void RefuseOtherPositions(const Json& other, std::string_view where) {
  const std::string positions =
      HasValue(other, "position_embedding_type") ? GetString(other, "position_embedding_type", where) : "absolute";
  if (positions != "absolute")
    Fail("{}: \"position_embedding_type\": expected \"absolute\", got \"{}\"", where, Shown(positions));
}

void RefuseOtherVariants(const Json& other, std::string_view where) {
  for (const char* key : {"is_decoder", "add_cross_attention"})
    if (HasValue(other, key) && GetBool(other, key, where))
      Fail("{}: \"{}\": expected false (encoders only), got true", where, key);
}

void CheckParameterCount(double parameters, std::string_view where) {
  if (parameters > kMostParameters)
    Fail("{}: the sizes ask for {:.3g} parameters, the limit is {:.3g}", where, parameters, kMostParameters);
}

ModelConfig::ModelConfig() : model_type(Families().front()->model_type) {}

ModelConfig DefaultModelConfig(std::string_view model_type, std::string_view where) {
  const Family& family = FindFamily(model_type, where);
  ModelConfig config = ConfigTable(family).defaults;
  if (family.complete != nullptr) family.complete(config, where);
  return config;
}

std::string ModelConfig::label_name(int64_t id) const {
  const bool named = id >= 0 && id < static_cast<int64_t>(labels.size());
  return named ? labels[static_cast<size_t>(id)] : DefaultLabel(id);
}

namespace {

bool IsWithout(const Family& family, std::string_view encoder_key) {
  const auto& keys = family.without_encoder_keys;
  return std::find(keys.begin(), keys.end(), encoder_key) != keys.end();
}

}  // namespace

OptionTable<ModelConfig> ConfigTable(const Family& family) {
  OptionTable<M> table;
  table.defaults.model_type = family.model_type;
  if (family.set_defaults != nullptr) family.set_defaults(table.defaults);
  const EncoderKeys& keys = family.encoder_keys;
  OptionTable<EncoderConfig> of_encoder;
  of_encoder.options = EncoderOptions(keys);
  const auto encoder = [&](auto... members) {
    for (const char* name : {keys.*members...})
      if (*name != '\0' && family.encoder_layers && !IsWithout(family, name))
        table.options.push_back(OfPart<M>(*FindOption(of_encoder, name), EncoderPart()));
  };
  table.options = {
      Architectures(), ModelTypeKey(), Integer("vocab_size", &M::vocab_size, 1, kMostVocab, "ids that there are"),
      OfPart<M>(Integer(keys.hidden_size, &EncoderConfig::hidden_size, 1, kMostHidden, "width"), EncoderPart())};
  using K = EncoderKeys;
  encoder(&K::num_hidden_layers, &K::num_attention_heads, &K::intermediate_size, &K::reversible,
          &K::chunk_size_feed_forward, &K::attention_residual, &K::hidden_act, &K::hidden_dropout_prob,
          &K::attention_probs_dropout_prob);
  if (family.options != nullptr)
    for (Option<M>& own : family.options()) table.options.push_back(std::move(own));
  table.options.push_back(
      Number("initializer_range", &M::initializer_range, {.low = 0, .high = 100}, "standard deviation of new weights"));
  encoder(&K::layer_norm_eps);
  table.options.push_back(
      Integer("pad_token_id", &M::pad_token_id, INT64_MIN, INT64_MAX, "an id of the vocabulary").NullIsAbsent());
  for (Option<M>& option : std::vector<Option<M>>{LabelMap(kById), LabelMap(kByName), NumLabels(), ProblemType()})
    table.options.push_back(std::move(option));
  encoder(&K::attention);
  table.options.push_back(TypeOfWeights("torch_dtype", "float32"));
  table.options.push_back(TypeOfWeights("dtype", nullptr));
  return table;
}

namespace {

// What must hold between several keys.
void CheckTogether(const ModelConfig& config, std::string_view where) {
  const Family& family = FamilyOf(config);
  if (config.pad_token_id < 0 || config.pad_token_id >= config.vocab_size)
    Fail("{}: \"pad_token_id\": expected 0 to {}, got {}", where, config.vocab_size - 1, config.pad_token_id);
  if (config.attended_padding > config.max_position_embeddings)
    Fail("{}: \"attended_padding\" {} is more than \"max_position_embeddings\" {}", where, config.attended_padding,
         config.max_position_embeddings);
  if (!config.labels.empty() && static_cast<int64_t>(config.labels.size()) != config.num_labels)
    Fail("{}: \"num_labels\" is {}, but {} labels are named", where, config.num_labels, config.labels.size());
  for (const std::string_view key : family.without_encoder_keys)
    if (config.other.contains(key))
      Fail("{}: \"{}\": models of type \"{}\" have nothing that it could say", where, key, config.model_type);
  if (family.encoder_layers) CheckEncoder(config, family.encoder_keys, where);
  if (family.check != nullptr) family.check(config, where);
}

}  // namespace

namespace {

// "auto_map" names the classes of code that a folder brings along. Those of the family's own name are what is computed
// here; others compute something else.
void RefuseOtherCode(const Json& config, const Family& family, std::string_view where) {
  if (!HasValue(config, "auto_map") || family.heads.empty()) return;
  const Json& map = config["auto_map"];
  if (!map.is_object()) Fail("{}: \"auto_map\": expected an object, got {}", where, ShownValue(map));
  std::string own = family.heads.front().architecture;
  for (const Head& head : family.heads)
    if (head.task == Task::kEncoder) own = head.architecture;
  if (own.ends_with("Model")) own.resize(own.size() - std::string_view("Model").size());
  const auto check = [&](const std::string& kind, const Json& name) {
    if (name.is_null()) return;
    if (!name.is_string())
      Fail("{}: \"auto_map\": \"{}\": expected the name of a class, got {}", where, Shown(kind, 40), ShownValue(name));
    const std::string whole = name.get<std::string>(), last = whole.substr(whole.find_last_of('.') + 1);
    if (!last.starts_with(own))
      Fail("{}: \"auto_map\": the model is what the code \"{}\" computes, which is not known here", where,
           Shown(whole, 100));
  };
  for (const auto& [kind, names] : map.items()) {
    if (!kind.starts_with("AutoModel")) continue;
    if (!names.is_array())
      check(kind, names);
    else
      for (const Json& name : names) check(kind, name);
  }
}

}  // namespace

ModelConfig ParseModelConfig(const Json& given, std::string_view where) {
  if (!given.is_object()) Fail("{}: expected an object, got {}", where, ShownValue(given));
  const Json json = InTodaysKeys(given, where);
  const std::string type =
      HasValue(json, "model_type") ? GetString(json, "model_type", where) : ModelConfig().model_type;
  const Family& family = FindFamily(type, where);
  RefuseOtherCode(given, family, where);
  const OptionTable<M> table = ConfigTable(family);
  ModelConfig config = table.defaults;
  ReadKnownOptions(table, json, where, config);
  for (const auto& [key, value] : json.items())
    if (FindOption(table, key) == nullptr) AppendMember(config.other, key, value);
  if (family.complete != nullptr) family.complete(config, where);
  CheckTogether(config, where);
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
  const OptionTable<M> table = ConfigTable(FindFamily(config.model_type, where));
  if (config.num_labels < 1 || config.num_labels > kMostLabels)
    Fail("{}: \"num_labels\": expected 1 to {}, got {}", where, kMostLabels, config.num_labels);
  Json json = Json::object();
  WriteOptions(table, config, json);
  ModelConfig read = table.defaults;
  ReadKnownOptions(table, json, where, read);
  CheckTogether(config, where);
}

Json ToJson(const ModelConfig& config) {
  Json json = Json::object();
  WriteOptions(ConfigTable(FamilyOf(config)), config, json);
  for (const auto& [key, value] : config.other.items()) AppendMember(json, key, value);
  NullNotFinite(json);
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
    const std::string key = Trimmed(part.substr(0, equals));
    if (std::any_of(all.begin(), all.end(), [&](const auto& other) { return other.first == key; }))
      FailUsage("{}: \"{}\" stands there twice", where, Shown(key));
    all.emplace_back(key, Trimmed(part.substr(equals + 1)));
  }
  return all;
}

void ApplyOverrides(ModelConfig& config, std::string_view overrides, std::string_view where) {
  const auto changes = SplitOverrides(overrides, where);
  if (changes.empty()) return;
  try {
    Json json = ToJson(config);
    const std::vector<std::string> keys = NamesOf(ConfigTable(FamilyOf(config)));
    for (const auto& [key, text] : changes) ApplyOverride(json, keys, key, text, where);
    config = ParseModelConfig(json, where);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(error.Spelled(kOptionMark));
  }
}

}  // namespace lshformer
