#include "models/head_transform.h"

namespace lshformer {

void HeadTransform::AppendSpecs(std::vector<ParameterSpec>& specs, const HeadTransformForm& form,
                                const HeadTransformSizes& sizes, const std::string& block) {
  AppendLinear(specs, form.map, sizes.out, sizes.in, block, sizes.reason, form.bias);
  if (!form.norm.empty()) AppendLayerNorm(specs, form.norm, sizes.out, block, sizes.out_key, form.norm_bias);
}

HeadTransform::HeadTransform(const ParameterMap& parameters, const HeadTransformForm& form, double eps)
    : function_(Function(form.function)), map_(parameters.LinearOf(form.map)) {
  if (!form.norm.empty()) norm_.emplace(parameters, form.norm, eps);
}

torch::Tensor HeadTransform::operator()(const torch::Tensor& rows, Precision precision) const {
  const torch::Tensor y = map_.Then(function_, rows, precision);
  return norm_ ? (*norm_)(y, {}, {}) : y;
}

}  // namespace lshformer
