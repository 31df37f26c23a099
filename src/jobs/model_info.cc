#include "jobs/model_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "eval/model_cost.h"
#include "io/weight_files.h"
#include "jobs/info/model_uses.h"
#include "jobs/info/text_estimate.h"
#include "jobs/model_source.h"
#include "models/config.h"
#include "models/family.h"
#include "models/model.h"
#include "nn/sentence/modules.h"

namespace lshformer {
namespace {

using Blocks = std::vector<std::pair<std::string, int64_t>>;

int64_t Total(const Blocks& blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), int64_t{0}, [](int64_t sum, auto& b) { return sum + b.second; });
}

// {"file", "tensors", "elements", "bytes", "dtype"}; {"unreadable": name} where the weights are in a format that is not
// read; null where the folder has a config alone.
Json Weights(const std::string& folder) {
  if (!HasWeights(folder)) {
    const std::string unreadable = UnreadableWeights(folder);
    return unreadable.empty() ? Json() : Json{{"unreadable", unreadable}};
  }
  const WeightFiles weights(folder);
  int64_t elements = 0, bytes = 0;
  size_t tensors = 0;
  std::vector<std::string> dtypes;
  for (const auto& file : weights.files()) {
    tensors += file->tensors().size();
    for (const auto& [name, view] : file->tensors()) {
      elements += view.elements();
      bytes += static_cast<int64_t>(view.bytes.size());
      if (std::find(dtypes.begin(), dtypes.end(), Name(view.dtype)) == dtypes.end()) dtypes.push_back(Name(view.dtype));
    }
  }
  return Json{{"file", std::filesystem::path(weights.path()).filename().string()},
              {"tensors", tensors},
              {"elements", elements},
              {"bytes", bytes},
              {"dtype", fmt::format("{}", fmt::join(dtypes, ", "))}};
}

ModelCost CostAt(const ModelConfig& config, int64_t length, const std::string& folder) {
  try {
    return CostOfForward(config, length);
  } catch (const Error& error) {
    Fail("{}: costs of {} tokens ({}): {}", Shown(folder, 120), length, OptionName{"lengths"},
         error.Spelled(kOptionMark));
  }
}

// One row per length and attention: the model's own, beside exact attention where that differs. Lengths that the
// position table does not reach are marked: they tell what a longer table would cost. None of a model that is made of
// other layers than BERT's, whose costs these are.
Json Costs(const ModelConfig& config, const std::vector<int64_t>& lengths, const std::string& folder) {
  if (!HasCosts(config)) return Json::array();
  std::vector<std::pair<std::string, ModelConfig>> variants{{"dense", config}};
  for (AttentionSpec& spec : variants[0].second.attention)
    if (!Is<LocalAttention>(spec)) spec = {};  // local layers are what the model is
  if (std::any_of(config.attention.begin(), config.attention.end(), [](auto& s) { return IsSparse(s); }))
    variants.emplace_back(config.attention.size() == 1 ? Name(config.attention[0]) : "per layer", config);
  Json rows = Json::array();
  for (const int64_t length : lengths) {
    for (const auto& [name, variant] : variants) {
      const ModelCost cost = CostAt(variant, length, folder);
      rows.push_back({{"length", length},
                      {"beyond_positions", length > config.max_position_embeddings},
                      {"attention", name},
                      {"attention_flops", cost.attention_flops},
                      {"linear_flops", cost.linear_flops},
                      {"total_flops", cost.total_flops()},
                      {"activation_bytes", cost.activation_bytes},
                      {"training_bytes", cost.training_bytes},
                      {"attention_work_bytes", cost.attention_work_bytes}});
    }
  }
  return rows;
}

// What is not said would be told as the defaults of some model: numbers that are nobody's. A whole config without a
// "model_type" is BERT's of the first years; a type that reads words is one published shape, all but its vocabulary.
void RequireModel(const Json& json, const std::string& path) {
  const std::string where = Shown(path, 120);
  if (!json.is_object()) return;  // the parser tells
  const Family& family =
      HasValue(json, "model_type") ? FindFamily(GetString(json, "model_type", where), where) : *Families().front();
  const OptionTable<ModelConfig> table = ConfigTable(family);
  std::vector<std::string> missing;
  std::vector<const char*> keys{"vocab_size"};
  if (family.word_table.empty())
    keys = {family.encoder_keys.hidden_size, family.encoder_keys.num_hidden_layers,
            family.encoder_keys.num_attention_heads, family.encoder_keys.intermediate_size, "vocab_size"};
  for (const char* key : keys)
    if (FindOption(table, key) != nullptr && !HasValue(json, key)) missing.push_back(fmt::format("\"{}\"", key));
  if (missing.empty()) return;
  if (!HasValue(json, "model_type")) missing.insert(missing.begin(), "\"model_type\"");
  Fail("{}: no model's config: {} {} missing", where, fmt::join(missing, ", "), missing.size() == 1 ? "is" : "are");
}

Json InfoOf(ModelConfig config, const Json& weights, const std::vector<int64_t>& lengths,
            const AttentionChanges& attention, const std::string& where) {
  ApplyAttention(attention, config);
  // Of a head that is not known here the encoder is still told.
  const Blocks blocks = ParametersByBlock(config, FindTask(config).value_or(Task::kEncoder));
  Json parameters = Json::object();
  for (const auto& [name, count] : blocks) parameters[name] = count;
  Json hashed_from = Json::array();  // of each attention object
  const bool encoder = FamilyOf(config).encoder_layers;
  for (const AttentionSpec& spec : encoder ? config.attention : std::vector<AttentionSpec>()) {
    const int shortest = ShortestSparse(spec);
    hashed_from.push_back(shortest == kNeverSparse ? Json("never") : Json(shortest));
  }
  return Json{{"config", ToJson(config)},
              {"hashed_from", hashed_from},
              {"layers", LayerKinds(config)},
              {"uses", ModelUses(config)},
              {"parameters", parameters},
              {"parameters_total", Total(blocks)},
              {"weights", weights},
              {"costs", Costs(config, lengths, where)},
              {"estimates", EstimatesJson(config, Total(blocks), {512, 8192, 32768})}};
}

}  // namespace

Json ModelInfo(const std::string& folder, const std::vector<int64_t>& lengths, const AttentionChanges& attention) {
  const std::string encoder = SentenceModules::EncoderFolder(folder), path = encoder + "/config.json";
  const Json json = InTodaysKeys(ReadModelConfigJson(path), Shown(path, 120));
  RequireModel(json, path);
  Json info = InfoOf(ParseModelConfig(json, Shown(path, 120)), Weights(encoder), lengths, attention, folder);
  info["sentence_folder"] = SentenceFolder(folder);
  return info;
}

Json NewModelInfo(const std::string& model_type, const std::string& config_overrides,
                  const std::vector<int64_t>& lengths, const AttentionChanges& attention) {
  ModelConfig config = DefaultModelConfig(model_type, Marked("model_type"));
  ApplyOverrides(config, config_overrides, Marked("config_overrides"));
  return InfoOf(std::move(config), Json(), lengths, attention, Marked("model_type") + " " + model_type);
}

}  // namespace lshformer
