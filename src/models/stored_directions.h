// Directions of clustered attention among a model's tensors: made, read, replaced.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/model.h"
#include "nn/main_directions.h"

namespace lshformer {

// Whether some layer has clustered attention; whether some such layer's directions are tensors of the model.
bool AnyClustered(const std::vector<AttentionSpec>& attention);
bool AnyStoresDirections(const std::vector<AttentionSpec>& attention);

// The same attention, with directions from `source` wherever it is clustered.
std::vector<AttentionSpec> WithDirections(std::vector<AttentionSpec> attention, Directions source);
// The same model, parameters shared, whose clustered attention has its directions among them: those it stores already,
// else drawn from (seed, name) as new weights are.
ModelPtr StoringDirections(const Model& model, uint64_t seed);

// The tensors of a model that stores them, by name (nn/self_attention.h); undefined ones are left out.
std::vector<std::pair<std::string, torch::Tensor>> DirectionTensors(const LayerDirections& directions);
// Those of a model, by visit; undefined where a visit has none. They share the model's memory.
LayerDirections DirectionsOf(const Model& model);
// Copies numbers into the model's tensors; of visits that store none nothing.
void SetDirections(Model& model, const LayerDirections& directions);

}  // namespace lshformer
