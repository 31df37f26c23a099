// γ, β and the way in: LayerNorm(residual + dropout(x)).
#pragma once
#include <string>
#include <utility>

#include "nn/parameters.h"
#include "ops/row_ops.h"

namespace lshformer {

struct LayerNorm {
  // A norm without ".bias" has β = 0.
  LayerNorm(const ParameterMap& parameters, const std::string& prefix, double norm_eps)
      : gamma(parameters.Get(prefix + ".weight")), beta(parameters.BiasOf(prefix)), eps(norm_eps) {}
  torch::Tensor operator()(torch::Tensor x, const torch::Tensor& residual, const DropoutSpec& dropout,
                           const TokenSplitPtr& split = nullptr) const {
    return DropoutAddLayerNorm(std::move(x), residual, gamma, beta, eps, dropout, split);
  }
  torch::Tensor gamma, beta;
  double eps;
};

}  // namespace lshformer
