// Parameters under their HF tensor names.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/torch.h"

namespace lshformer {

enum class Initial { kNormal, kNormalPaddingRow, kZero, kOne };  // kNormalPaddingRow: row pad_token_id is 0

// One parameter of a model, before it has numbers.
struct ParameterSpec {
  std::string name;  // "bert.encoder.layer.0.output.dense.weight"
  std::vector<int64_t> shape;
  Initial initial = Initial::kZero;
  std::string block;   // "embeddings", "encoder.layer.0", "pooler", "head"
  std::string reason;  // which config keys make the shape: "intermediate_size 512"
  int64_t elements() const;
};

using ParameterMap = std::unordered_map<std::string, torch::Tensor>;
// Error naming the parameter if it is absent.
const torch::Tensor& GetParameter(const ParameterMap& parameters, const std::string& name);
std::vector<torch::Tensor> GetParameters(const ParameterMap& parameters, const std::vector<ParameterSpec>& specs);

// Appends "<prefix>.weight" [out, in] and "<prefix>.bias" [out] of a linear map, or of a LayerNorm [size].
void AppendLinear(std::vector<ParameterSpec>& specs, const std::string& prefix, int64_t out, int64_t in,
                  const std::string& block, const std::string& reason);
void AppendLayerNorm(std::vector<ParameterSpec>& specs, const std::string& prefix, int64_t size,
                     const std::string& block);

}  // namespace lshformer
