// Numbers for parameters: drawn, read from a safetensors file, written to one.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "io/model_config.h"
#include "nn/parameters.h"

namespace lshformer {

// From (seed, name) alone: a parameter's numbers do not depend on which other parameters a model has.
torch::Tensor DrawParameter(const ParameterSpec& spec, const ModelConfig& config, uint64_t seed);

// Float32 copies of the file's tensors (F16, BF16 and F64 are converted). A parameter of the block "head" or "pooler"
// that the file lacks is drawn, and all of those are named in one warning, unless `require_head`. Error names file and
// tensor: missing, another shape (with the config keys behind it), a dtype that is no float, a value that is not
// finite.
ParameterMap LoadParameters(const std::string& path, const std::vector<ParameterSpec>& specs, const ModelConfig& config,
                            uint64_t seed, bool require_head);

// Float32, under the names HF's `architecture` uses. Atomic.
void SaveParameters(const std::vector<std::pair<std::string, torch::Tensor>>& parameters, const std::string& path,
                    const std::string& architecture);

}  // namespace lshformer
