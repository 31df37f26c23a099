#include "nn/highway.h"

namespace lshformer {
namespace {

std::string Name(const std::string& prefix, int64_t layer, const char* map) {
  return fmt::format("{}.{}.{}", prefix, layer, map);
}

}  // namespace

void Highway::AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix, const HighwayShape& shape,
                          const std::string& block, const std::string& reason) {
  for (int64_t layer = 0; layer < shape.layers; ++layer)
    for (const char* map : {"transform", "gate"})
      AppendUniformLinear(specs, Name(prefix, layer, map), shape.width, shape.width, Bias::kOne, block, reason);
}

Highway::Highway(const ParameterMap& parameters, const std::string& prefix, const HighwayShape& shape)
    : function_(shape.function), dropout_(shape.dropout) {
  for (int64_t layer = 0; layer < shape.layers; ++layer)
    layers_.push_back(
        {parameters.LinearOf(Name(prefix, layer, "transform")), parameters.LinearOf(Name(prefix, layer, "gate"))});
}

torch::Tensor Highway::operator()(torch::Tensor x, const ForwardContext& context) const {
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const auto& [transform, gate] = layers_[layer];
    const torch::Tensor g = gate.Then(UnaryFunction::kSigmoid, x, context.precision);  // [n, width]
    torch::Tensor t =
        function_ ? transform.Then(*function_, x, context.precision) : transform(x, context.precision);  // [n, width]
    t = Dropout(t, context.DropoutAt(DropoutSite::kHighway, static_cast<uint32_t>(layer), dropout_, context.rows));
    x = x + g * (t - x);
  }
  return x;
}

}  // namespace lshformer
