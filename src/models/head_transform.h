// LayerNorm(f(W · h + b)), of rows, or without the LayerNorm: what stands before the maps of many heads.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "nn/activation.h"
#include "nn/layer_norm.h"
#include "nn/parameters.h"

namespace lshformer {

struct HeadTransformForm {
  std::string map, norm = "";  // prefixes of ".weight" and ".bias"; norm "": none
  Activation function = Activation::kTanh;
  Bias bias = Bias::kOne, norm_bias = Bias::kOne;
};

// Sizes of one, and the config's keys behind them.
struct HeadTransformSizes {
  int64_t out, in;
  const char* out_key = "hidden_size";
  std::string reason;
};

class HeadTransform {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const HeadTransformForm& form,
                          const HeadTransformSizes& sizes, const std::string& block);
  HeadTransform(const ParameterMap& parameters, const HeadTransformForm& form, double eps);
  torch::Tensor operator()(const torch::Tensor& rows, Precision precision = Precision::kFloat32) const;  // [n, out]

 private:
  UnaryFunction function_;
  Linear map_;
  std::optional<LayerNorm> norm_;
};

}  // namespace lshformer
