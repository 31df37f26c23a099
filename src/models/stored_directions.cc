#include "models/stored_directions.h"

#include <algorithm>
#include <map>

#include "models/weights.h"
#include "nn/self_attention.h"

namespace lshformer {

bool AnyClustered(const std::vector<AttentionSpec>& attention) {
  return std::any_of(attention.begin(), attention.end(), Is<ClusteredAttention>);
}

bool AnyStoresDirections(const std::vector<AttentionSpec>& attention) {
  return std::any_of(attention.begin(), attention.end(), StoresDirections);
}

std::vector<AttentionSpec> WithDirections(std::vector<AttentionSpec> attention, Directions source) {
  for (AttentionSpec& layer : attention)
    ForEachSpec(layer, [source](AttentionSpec& spec) {
      if (Is<ClusteredAttention>(spec)) As<ClusteredAttention>(spec).directions = source;
    });
  return attention;
}

ModelPtr StoringDirections(const Model& model, uint64_t seed) {
  ModelConfig config = model.config();
  config.attention = WithDirections(config.attention, Directions::kStored);
  const auto own = model.NamedParameters();
  std::vector<std::pair<std::string, torch::Tensor>> drawn;
  for (const ParameterSpec& spec : FamilyOf(config).parameters(config, model.task())) {
    const bool known = std::any_of(own.begin(), own.end(), [&](const auto& one) { return one.first == spec.name; });
    if (!known) drawn.emplace_back(spec.name, DrawParameter(spec, config, seed));
  }
  return WithAttention(model, config.attention, drawn);
}

std::vector<std::pair<std::string, torch::Tensor>> DirectionTensors(const LayerDirections& directions) {
  std::vector<std::pair<std::string, torch::Tensor>> tensors;
  for (size_t visit = 0; visit < directions.size(); ++visit) {
    if (!directions[visit].key.defined()) continue;
    tensors.emplace_back(DirectionsName(static_cast<int64_t>(visit), "key"), directions[visit].key);
    tensors.emplace_back(DirectionsName(static_cast<int64_t>(visit), "query"), directions[visit].query);
  }
  return tensors;
}

namespace {

// By name.
std::map<std::string, torch::Tensor> StoredIn(const Model& model) {
  std::map<std::string, torch::Tensor> stored;
  for (const auto& [name, tensor] : model.NamedParameters())
    if (name.starts_with(kDirectionsPrefix)) stored.emplace(name, tensor);
  return stored;
}

}  // namespace

LayerDirections DirectionsOf(const Model& model) {
  LayerDirections directions;
  const std::map<std::string, torch::Tensor> stored = StoredIn(model);
  // Two tensors a visit, some visits without: the last number is not their count.
  for (size_t visit = 0, found = 0; found < stored.size(); ++visit) {
    directions.emplace_back();
    for (const auto& [part, name] : {std::pair(&StoredDirections::key, "key"), {&StoredDirections::query, "query"}}) {
      const auto tensor = stored.find(DirectionsName(static_cast<int64_t>(visit), name));
      if (tensor == stored.end()) continue;
      directions.back().*part = tensor->second;
      ++found;
    }
  }
  return directions;
}

void SetDirections(Model& model, const LayerDirections& directions) {
  const torch::NoGradGuard no_grad;
  const std::map<std::string, torch::Tensor> stored = StoredIn(model);
  for (const auto& [name, numbers] : DirectionTensors(directions)) {
    const auto tensor = stored.find(name);
    if (tensor != stored.end()) tensor->second.copy_(numbers);
  }
}

}  // namespace lshformer
