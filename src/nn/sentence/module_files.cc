#include "nn/sentence/module_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <set>

#include "base/error.h"
#include "io/weight_files.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWidest = int64_t{1} << 20;

constexpr std::pair<std::string_view, ModuleKind> kKinds[] = {{"Transformer", ModuleKind::kTransformer},
                                                              {"Pooling", ModuleKind::kPooling},
                                                              {"Dense", ModuleKind::kDense},
                                                              {"LayerNorm", ModuleKind::kLayerNorm},
                                                              {"Normalize", ModuleKind::kNormalize},
                                                              {"Dropout", ModuleKind::kDropout}};

// A class of the library, by whatever path its releases had it.
ModuleKind KindOf(const std::string& type, const std::string& where) {
  if (type.starts_with("sentence_transformers."))
    for (const auto& [name, kind] : kKinds)
      if (type.substr(type.rfind('.') + 1) == name) return kind;
  Fail("{}: a module of the type {} is not known here (Transformer, Pooling, Dense, LayerNorm, Normalize, Dropout are)",
       where, Shown(type, 100));
}

// Without it a module cannot be made; git keeps no empty folders, so that of one without files may be missing.
bool HasFiles(ModuleKind kind) { return kind != ModuleKind::kNormalize && kind != ModuleKind::kDropout; }

void CheckPath(const std::string& path, const std::string& where) {
  const fs::path plain = fs::path(path).lexically_normal();
  if (plain.is_absolute() || path.find('\\') != path.npos || (!plain.empty() && *plain.begin() == ".."))
    Fail("{}: \"path\": expected one inside the folder, got \"{}\"", where, Shown(path));
}

std::string PathOf(const Json& module, const std::string& where) {
  if (!module.contains("path")) Fail("{}: \"path\" is missing", where);
  std::string path = GetString(module, "path", where);
  CheckPath(path, where);
  return path;
}

ModuleEntry EntryOf(const Json& json, const std::string& folder, const std::string& where) {
  ModuleEntry entry;
  entry.path = PathOf(json, where);
  if (!json.contains("type")) Fail("{}: \"type\" is missing", where);
  entry.kind = KindOf(GetString(json, "type", where), where);
  const fs::path plain = (fs::path(folder) / entry.path).lexically_normal();
  entry.folder = (plain.has_filename() ? plain : plain.parent_path()).string();
  if (entry.path.empty() || entry.path == ".") entry.folder = folder;
  std::error_code error;
  const bool there = fs::is_directory(entry.folder, error);
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    Fail("{}: \"path\": {}: {}", where, Shown(entry.path), error.message());  // links in a circle
  if (!there && HasFiles(entry.kind))
    Fail("{}: \"path\": there is no folder {} for the {}", where, Shown(entry.path),
         GetString(json, "type", where).substr(GetString(json, "type", where).rfind('.') + 1));
  return entry;
}

// The order of the library where several are set in the older form.
struct PoolingMode {
  std::string_view name, older_key;
  Pooling pooling;
};
constexpr PoolingMode kModes[] = {{"cls", "pooling_mode_cls_token", Pooling::kCls},
                                  {"max", "pooling_mode_max_tokens", Pooling::kMax},
                                  {"mean", "pooling_mode_mean_tokens", Pooling::kMean},
                                  {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", Pooling::kMeanSqrtLen},
                                  {"weightedmean", "pooling_mode_weightedmean_tokens", Pooling::kWeightedMean},
                                  {"lasttoken", "pooling_mode_lasttoken", Pooling::kLastToken}};

const PoolingMode& KnownMode(Pooling pooling) {
  return *std::find_if(std::begin(kModes), std::end(kModes),
                       [&](const PoolingMode& known) { return known.pooling == pooling; });
}

Pooling ModeOf(const Json& name, const std::string& where) {
  std::vector<std::string> names;
  for (const PoolingMode& mode : kModes) {
    if (name == std::string(mode.name)) return mode.pooling;
    names.emplace_back(mode.name);
  }
  Fail("{}: \"pooling_mode\": expected one of {}, got {}", where, fmt::join(names, ", "), ShownValue(name));
}

std::vector<Pooling> ModesOf(const Json& json, const std::string& where) {
  std::vector<Pooling> modes;
  if (HasValue(json, "pooling_mode")) {
    const Json& named = json.at("pooling_mode");
    if (!named.is_array()) return {ModeOf(named, where)};
    for (const Json& name : named) modes.push_back(ModeOf(name, where));
    if (modes.empty()) Fail("{}: \"pooling_mode\": expected at least one, got an empty list", where);
    return modes;
  }
  for (const PoolingMode& mode : kModes)
    if (GetBoolOr(json, mode.older_key, where, false)) modes.push_back(mode.pooling);
  if (modes.empty()) modes.push_back(Pooling::kMean);
  return modes;
}

Json ReadConfig(const std::string& folder, const char* module) {
  const std::string path = folder + "/config.json";
  std::error_code error;
  if (!fs::exists(path, error)) Fail("{}: missing, but modules.json has a {} there", Shown(path, 160), module);
  return ReadJsonObject(path);
}

double Identity(double x) { return x; }
double Relu(double x) { return std::max(x, 0.0); }
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Silu(double x) { return x * Sigmoid(x); }
double Gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); }
double Tanh(double x) { return std::tanh(x); }
double LeakyRelu(double x) { return x < 0 ? 0.01 * x : x; }
double Elu(double x) { return x < 0 ? std::expm1(x) : x; }

// torch's class, made without arguments.
double (*FunctionOf(const std::string& name, const std::string& where))(double) {
  constexpr std::pair<std::string_view, double (*)(double)> kFunctions[] = {
      {"Identity", Identity}, {"Tanh", Tanh}, {"ReLU", Relu},           {"GELU", Gelu},
      {"Sigmoid", Sigmoid},   {"SiLU", Silu}, {"LeakyReLU", LeakyRelu}, {"ELU", Elu}};
  if (name.starts_with("torch.nn."))
    for (const auto& [known, function] : kFunctions)
      if (name.substr(name.rfind('.') + 1) == known) return function;
  Fail(
      "{}: \"activation_function\": {} is not known here (torch.nn's Identity, Tanh, ReLU, GELU, Sigmoid, SiLU, "
      "LeakyReLU, ELU are)",
      where, Shown(name, 80));
}

class ModuleWeights {
 public:
  explicit ModuleWeights(const std::string& folder) : files_(folder) {}

  std::vector<float> Take(const std::string& name, const std::vector<int64_t>& shape) {
    const TensorView* view = files_.Find(name);
    const std::string where = fmt::format("{}: tensor \"{}\"", Shown(files_.path(), 160), name);
    if (view == nullptr) Fail("{} is missing", where);
    if (view->shape != shape) Fail("{} has the shape {}, expected {}", where, ShapeText(view->shape), ShapeText(shape));
    std::vector<float> values(static_cast<size_t>(view->elements()));
    ConvertTo(*view, values, where);
    if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }))
      Fail("{} has values that are not finite", where);
    taken_.insert(name);
    return values;
  }
  void RefuseOthers() const {
    for (const std::string& name : files_.names())
      if (!taken_.contains(name))
        Fail("{}: tensor \"{}\" is not one that the module has", Shown(files_.path(), 160), Shown(name));
  }

 private:
  WeightFiles files_;
  std::set<std::string> taken_;
};

// Objects of modules.json, each with what an error calls it.
std::vector<std::pair<Json, std::string>> ModulesOf(const std::string& folder) {
  const std::string path = folder + "/modules.json", where = Shown(path, 120);
  const Json json = ReadJsonFile(path);
  if (!json.is_array()) Fail("{}: expected a list, got {}", where, ShownValue(json));
  std::vector<std::pair<Json, std::string>> modules;
  for (const Json& module : json) {
    modules.emplace_back(module, fmt::format("{}[{}]", where, modules.size()));
    if (!module.is_object()) Fail("{}: expected an object, got {}", modules.back().second, ShownValue(module));
  }
  return modules;
}

// Modules that work on the text's vector and leave it there.
void CheckNames(const Json& json, const std::string& where) {
  for (const char* key : {"module_input_name", "module_output_name"})
    if (HasValue(json, key) && json.at(key) != "sentence_embedding")
      Fail("{}: \"{}\": expected \"sentence_embedding\", got {}", where, key, ShownValue(json.at(key)));
}

}  // namespace

const char* ModeName(Pooling mode) { return KnownMode(mode).name.data(); }

std::string_view PoolingKey(Pooling mode) { return KnownMode(mode).older_key; }

std::vector<ModuleEntry> ReadModuleEntries(const std::string& folder) {
  const std::string where = Shown(folder + "/modules.json", 120);
  std::vector<ModuleEntry> entries;
  std::set<std::string> folders;
  for (const auto& [module, place] : ModulesOf(folder)) {
    entries.push_back(EntryOf(module, folder, place));
    const ModuleEntry& entry = entries.back();
    std::error_code error;
    if (HasFiles(entry.kind) && !folders.insert(fs::weakly_canonical(entry.folder, error).string()).second)
      Fail("{}: \"path\": {} is another module's too", place, entry.path.empty() ? "the folder itself" : entry.path);
  }
  if (entries.empty() || entries[0].kind != ModuleKind::kTransformer)
    Fail("{}: the first module is no Transformer", where);
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].kind == ModuleKind::kTransformer) Fail("{}[{}]: a second Transformer", where, i);
    if ((entries[i].kind == ModuleKind::kPooling) != (i == 1))
      Fail("{}[{}]: expected one Pooling, right behind the Transformer", where, i);
  }
  if (entries.size() < 2) Fail("{}: there is no Pooling: a text has no vector of its own", where);
  return entries;
}

std::vector<std::string> ReadModulePaths(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& [module, place] : ModulesOf(folder)) {
    std::string path = PathOf(module, place);
    if (const fs::path plain = fs::path(path).lexically_normal(); !plain.empty() && plain != ".")
      paths.push_back(std::move(path));
  }
  return paths;
}

void RefuseUnknownKeys(const Json& object, std::initializer_list<std::string_view> known, const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_null() || (value.is_structured() && value.empty())) continue;
    if (std::find(known.begin(), known.end(), key) == known.end())
      Fail("{}: \"{}\" is not known here, and may change the vectors", where, Shown(key));
  }
}

std::pair<PoolingModule, int64_t> ReadPoolingModule(const std::string& folder) {
  const Json json = ReadConfig(folder, "Pooling");
  const std::string where = Shown(folder + "/config.json", 160);
  RefuseUnknownKeys(
      json,
      {"embedding_dimension", "word_embedding_dimension", "pooling_mode", "include_prompt", kModes[0].older_key,
       kModes[1].older_key, kModes[2].older_key, kModes[3].older_key, kModes[4].older_key, kModes[5].older_key},
      where);
  const char* width = HasValue(json, "embedding_dimension") ? "embedding_dimension" : "word_embedding_dimension";
  if (!HasValue(json, width)) Fail("{}: \"embedding_dimension\" is missing", where);
  return {{ModesOf(json, where), GetBoolOr(json, "include_prompt", where, true)},
          GetInt(json, width, where, 1, kWidest)};
}

DenseModule ReadDenseModule(const std::string& folder) {
  const Json json = ReadConfig(folder, "Dense");
  const std::string where = Shown(folder + "/config.json", 160);
  RefuseUnknownKeys(json,
                    {"in_features", "out_features", "bias", "activation_function", "module_input_name",
                     "module_output_name", "use_residual"},
                    where);
  CheckNames(json, where);
  DenseModule dense;
  for (const char* key : {"in_features", "out_features"})
    if (!HasValue(json, key)) Fail("{}: \"{}\" is missing", where, key);
  dense.in = GetInt(json, "in_features", where, 1, kWidest);
  dense.out = GetInt(json, "out_features", where, 1, kWidest);
  dense.function =
      HasValue(json, "activation_function") ? FunctionOf(GetString(json, "activation_function", where), where) : Tanh;
  dense.adds_input = GetBoolOr(json, "use_residual", where, false);
  ModuleWeights weights(folder);
  dense.weight = weights.Take("linear.weight", {dense.out, dense.in});
  if (GetBoolOr(json, "bias", where, true)) dense.bias = weights.Take("linear.bias", {dense.out});
  if (dense.adds_input && dense.in != dense.out)
    dense.residual = weights.Take("residual.weight", {dense.out, dense.in});
  weights.RefuseOthers();
  return dense;
}

LayerNormModule ReadLayerNormModule(const std::string& folder) {
  const Json json = ReadConfig(folder, "LayerNorm");
  const std::string where = Shown(folder + "/config.json", 160);
  RefuseUnknownKeys(json, {"dimension"}, where);
  if (!HasValue(json, "dimension")) Fail("{}: \"dimension\" is missing", where);
  const int64_t width = GetInt(json, "dimension", where, 1, kWidest);
  ModuleWeights weights(folder);
  LayerNormModule norm{weights.Take("norm.weight", {width}), weights.Take("norm.bias", {width})};
  weights.RefuseOthers();
  return norm;
}

void CheckVectorModule(const std::string& folder) {
  const std::string path = folder + "/config.json";
  std::error_code error;
  if (fs::exists(path, error)) CheckNames(ReadJsonObject(path), Shown(path, 160));
}

}  // namespace lshformer
