// Numbers for parameters: drawn, read from a safetensors file, written to one.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "io/safetensors.h"
#include "models/config.h"
#include "models/model.h"
#include "nn/parameters.h"

namespace lshformer {

// From (seed, name) alone: a parameter's numbers do not depend on which other parameters a model has.
torch::Tensor DrawParameter(const ParameterSpec& spec, const ModelConfig& config, uint64_t seed);

// The tensors of `folder` (io/weight_files.h) in float32: copies (F16, BF16 and F64 are converted), or with kMappedFile
// F32 tensors where they lie in the mapped file, which stays mapped, and whole, as long as one of them lives, also when
// another file takes its name. A parameter of the
// block "head" or "pooler" that the files lack is drawn unless `require_head`; where a head is among them they are
// named in one warning. With ignore_mismatched_sizes so is one of the block "head" whose shape there is another. Error
// names file and tensor: missing, another shape (with the config keys behind it), a dtype that is no float, a value
// that is not finite; of a task that predicts words a decoder that differs from the tensor to which it is tied.
ParameterMap LoadParameters(const std::string& folder, const ModelConfig& config, Task task, uint64_t seed,
                            bool require_head, WeightPlace place = WeightPlace::kMemory,
                            bool ignore_mismatched_sizes = false);

// As float32, float16 or bfloat16 (rounded to nearest even), under the names that HF's files have. Atomic. Error if a
// value is too large for float16.
void SaveParameters(const Model& model, const std::string& path, DType dtype = DType::kF32);

// The model's parameters by the names that the tensors of `folder` have, of which a model is a copy or a further
// training: those that are parts of one tensor there are joined, what it has not is left out.
std::vector<std::pair<std::string, torch::Tensor>> ParametersByNamesOf(const std::string& folder, const Model& model);

}  // namespace lshformer
