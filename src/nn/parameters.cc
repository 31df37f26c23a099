#include "nn/parameters.h"

#include <cmath>

#include "base/error.h"

namespace lshformer {

int64_t ParameterSpec::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

const torch::Tensor& ParameterMap::Get(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) Fail("the model has no parameter \"{}\"", name);
  return found->second;
}

std::vector<torch::Tensor> ParameterMap::Get(const std::vector<ParameterSpec>& specs) const {
  std::vector<torch::Tensor> found;
  for (const ParameterSpec& spec : specs) found.push_back(Get(spec.name));
  return found;
}

std::vector<std::pair<std::string, torch::Tensor>> ParameterMap::Named(const std::vector<ParameterSpec>& specs) const {
  std::vector<std::pair<std::string, torch::Tensor>> named;
  for (const ParameterSpec& spec : specs) named.emplace_back(spec.name, Get(spec.name));
  return named;
}

Linear ParameterMap::LinearOf(const std::vector<std::string>& prefixes) const {
  std::vector<torch::Tensor> weights, biases;
  std::vector<const c10::TensorImpl*> key;
  for (const std::string& prefix : prefixes) {
    weights.push_back(Get(prefix + ".weight"));
    key.push_back(weights.back().unsafeGetTensorImpl());
    biases.push_back(BiasOf(prefix));
    key.push_back(tensors_.contains(prefix + ".bias") ? biases.back().unsafeGetTensorImpl() : nullptr);
  }
  return linears_.try_emplace(std::move(key), std::move(weights), std::move(biases)).first->second;
}

torch::Tensor ParameterMap::BiasOf(const std::string& prefix) const {
  const auto bias = tensors_.find(prefix + ".bias");
  return bias == tensors_.end() ? torch::zeros({Get(prefix + ".weight").size(0)}) : bias->second;
}

void AppendLinear(std::vector<ParameterSpec>& specs, const std::string& prefix, int64_t out, int64_t in,
                  const std::string& block, const std::string& reason, Bias bias) {
  specs.push_back({prefix + ".weight", {out, in}, Initial::kNormal, block, reason});
  if (bias == Bias::kOne) specs.push_back({prefix + ".bias", {out}, Initial::kZero, block, reason, {.decays = false}});
}

void AppendUniformLinear(std::vector<ParameterSpec>& specs, const std::string& prefix, int64_t out, int64_t in,
                         Bias bias, const std::string& block, const std::string& reason) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  specs.push_back({prefix + ".weight", {out, in}, Initial::kUniform, block, reason, {}, bound});
  if (bias == Bias::kOne)
    specs.push_back({prefix + ".bias", {out}, Initial::kUniform, block, reason, {.decays = false}, bound});
}

void AppendLayerNorm(std::vector<ParameterSpec>& specs, const std::string& prefix, int64_t size,
                     const std::string& block, const char* size_key, Bias bias) {
  const std::string reason = fmt::format("{} {}", size_key, size);
  specs.push_back({prefix + ".weight", {size}, Initial::kOne, block, reason, {.decays = false}});
  if (bias == Bias::kOne) specs.push_back({prefix + ".bias", {size}, Initial::kZero, block, reason, {.decays = false}});
}

}  // namespace lshformer
