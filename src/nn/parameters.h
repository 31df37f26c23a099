// Parameters: what they are, and where a model's layers find them.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/linear.h"
#include "ops/torch.h"

namespace lshformer {

// kNormalPaddingRow: row pad_token_id is 0. kUniform: between −bound and bound, where BERT's one deviation for all
// would not do: a recurrent layer, say, starts with 1/√d whatever its input's width. kCutNormal: normal with a
// deviation of its own, of numbers in ±bound alone.
enum class Initial { kNormal, kNormalPaddingRow, kZero, kOne, kUniform, kCutNormal };

// What a parameter is to those who train and count, whatever its name.
struct ParameterRole {
  bool decays = true;      // takes weight decay; biases and normalisations do not
  bool embedding = false;  // rows are looked up, nothing is multiplied with it: no FLOPs
  int uses = 1;            // how many times a forward multiplies with it: layers that share it
  bool layer_map = false;  // a matrix of attention or of a feed-forward: hidden states in, hidden states out
  bool trained = true;     // false: given, and left as it is; no gradient, no optimizer state, no average
};

// One parameter of a model, before it has numbers.
struct ParameterSpec {
  std::string name;  // HF's: "bert.encoder.layer.0.output.dense.weight"
  std::vector<int64_t> shape;
  Initial initial = Initial::kZero;
  std::string block;   // "embeddings", "encoder.layer.0", "pooler", "head"; "": not counted
  std::string reason;  // which config keys make the shape: "intermediate_size 512"
  ParameterRole role{};
  double bound = 0;      // of kUniform and kCutNormal
  double deviation = 0;  // of kCutNormal, before the cut
  int64_t elements() const;
};

// The parameters of one model under their HF tensor names.
class ParameterMap {
 public:
  torch::Tensor& operator[](const std::string& name) { return tensors_[name]; }
  const torch::Tensor& Get(const std::string& name) const;  // Error naming the parameter if it is absent
  std::vector<torch::Tensor> Get(const std::vector<ParameterSpec>& specs) const;
  // The same with their names.
  std::vector<std::pair<std::string, torch::Tensor>> Named(const std::vector<ParameterSpec>& specs) const;

  // The linear map of "<prefix>.weight" and "<prefix>.bias", or of several prefixes side by side; a prefix without
  // ".bias" has none. Whoever asks for the same tensors gets a copy of one map, so that layers that share weights share
  // their packed form too. Not from several threads: models are built by one.
  Linear LinearOf(const std::string& prefix) const { return LinearOf(std::vector<std::string>{prefix}); }
  Linear LinearOf(const std::vector<std::string>& prefixes) const;
  // "<prefix>.bias", or zeros for each row of "<prefix>.weight" where there is none.
  torch::Tensor BiasOf(const std::string& prefix) const;

 private:
  std::unordered_map<std::string, torch::Tensor> tensors_;
  mutable std::map<std::vector<const c10::TensorImpl*>, Linear> linears_;  // by the identity of weights and biases
};

enum class Bias { kNone, kOne };
// Appends "<prefix>.weight" [out, in] and, where it has one, "<prefix>.bias" [out] of a linear map, or of a LayerNorm
// [size], which is the config's `size_key`.
void AppendLinear(std::vector<ParameterSpec>& specs, const std::string& prefix, int64_t out, int64_t in,
                  const std::string& block, const std::string& reason, Bias bias = Bias::kOne);
// The same numbers, drawn as torch's layers draw them: uniform in ±1/√in, whatever the model's initializer_range.
void AppendUniformLinear(std::vector<ParameterSpec>& specs, const std::string& prefix, int64_t out, int64_t in,
                         Bias bias, const std::string& block, const std::string& reason);
void AppendLayerNorm(std::vector<ParameterSpec>& specs, const std::string& prefix, int64_t size,
                     const std::string& block, const char* size_key = "hidden_size", Bias bias = Bias::kOne);

}  // namespace lshformer
