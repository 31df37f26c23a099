#include "nn/parameters.h"

#include "base/error.h"

namespace lshformer {

int64_t ParameterSpec::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

const torch::Tensor& GetParameter(const ParameterMap& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) Fail("the model has no parameter \"{}\"", name);
  return found->second;
}

std::vector<torch::Tensor> GetParameters(const ParameterMap& parameters, const std::vector<ParameterSpec>& specs) {
  std::vector<torch::Tensor> found;
  for (const ParameterSpec& spec : specs) found.push_back(GetParameter(parameters, spec.name));
  return found;
}

void AppendLinear(std::vector<ParameterSpec>& specs, const std::string& prefix, int64_t out, int64_t in,
                  const std::string& block, const std::string& reason) {
  specs.push_back({prefix + ".weight", {out, in}, Initial::kNormal, block, reason});
  specs.push_back({prefix + ".bias", {out}, Initial::kZero, block, reason});
}

void AppendLayerNorm(std::vector<ParameterSpec>& specs, const std::string& prefix, int64_t size,
                     const std::string& block) {
  const std::string reason = fmt::format("hidden_size {}", size);
  specs.push_back({prefix + ".weight", {size}, Initial::kOne, block, reason});
  specs.push_back({prefix + ".bias", {size}, Initial::kZero, block, reason});
}

}  // namespace lshformer
