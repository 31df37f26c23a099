// Highway layers (Srivastava, Greff and Schmidhuber 2015), each
//
//   x ← g∘dropout(f(W_t·x + b_t)) + (1 − g)∘x,   g = σ(W_g·x + b_g)
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/forward_context.h"
#include "nn/parameters.h"

namespace lshformer {

struct HighwayShape {
  int64_t width;
  int64_t layers = 2;
  std::optional<UnaryFunction> function = UnaryFunction::kRelu;  // f; none: the identity
  double dropout = 0;
};

class Highway {
 public:
  // "<prefix>.<layer>.transform.weight", ".bias", "<prefix>.<layer>.gate.weight", ".bias" of every layer.
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix, const HighwayShape& shape,
                          const std::string& block, const std::string& reason);
  Highway(const ParameterMap& parameters, const std::string& prefix, const HighwayShape& shape);
  // [n, width] → [n, width]; dropout is of context.rows.
  torch::Tensor operator()(torch::Tensor x, const ForwardContext& context) const;

 private:
  struct Layer {
    Linear transform, gate;
  };
  std::optional<UnaryFunction> function_;
  double dropout_;
  std::vector<Layer> layers_;
};

}  // namespace lshformer
