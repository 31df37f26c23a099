#include "nn/bi_lstm.h"

#include <cmath>

namespace lshformer {
namespace {

constexpr const char* kDirections[] = {"", "_reverse"};

std::string Name(const std::string& prefix, const char* part, int64_t layer, const char* direction) {
  return fmt::format("{}.{}_l{}{}", prefix, part, layer, direction);
}

LstmWeights WeightsOf(const ParameterMap& parameters, const std::string& prefix, const BiLstmShape& shape,
                      const char* direction) {
  const auto get = [&](const char* part) { return parameters.Get(Name(prefix, part, shape.layer, direction)); };
  return {.input = get("weight_ih"),
          .recurrent = get("weight_hh"),
          .input_bias = get("bias_ih"),
          .recurrent_bias = shape.second_bias ? get("bias_hh") : torch::Tensor()};
}

}  // namespace

void BiLstmLayer::AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix, const BiLstmShape& shape,
                              const std::string& block, const std::string& reason) {
  const double bound = 1 / std::sqrt(static_cast<double>(shape.hidden));
  const int64_t gates = 4 * shape.hidden;
  for (const char* direction : kDirections) {
    const auto append = [&](const char* part, std::vector<int64_t> size, bool decays) {
      specs.push_back({Name(prefix, part, shape.layer, direction),
                       std::move(size),
                       Initial::kUniform,
                       block,
                       reason,
                       {.decays = decays},
                       bound});
    };
    append("weight_ih", {gates, shape.input}, true);
    append("weight_hh", {gates, shape.hidden}, true);
    append("bias_ih", {gates}, false);
    if (shape.second_bias) append("bias_hh", {gates}, false);
  }
}

BiLstmLayer::BiLstmLayer(const ParameterMap& parameters, const std::string& prefix, const BiLstmShape& shape)
    : forward_(WeightsOf(parameters, prefix, shape, kDirections[0])),
      backward_(WeightsOf(parameters, prefix, shape, kDirections[1])) {}

torch::Tensor BiLstmLayer::operator()(const torch::Tensor& x, const std::vector<int32_t>& cu_seqlens) const {
  return BiLstm(x, cu_seqlens, forward_, backward_);
}

}  // namespace lshformer
