#include "eval/cosines.h"

#include <cmath>
#include <limits>

namespace lshformer {

Cosines Compare(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor norms = (a.norm(2, 1) * b.norm(2, 1)).clamp_min(std::numeric_limits<double>::min());
  const torch::Tensor cosines = ((a * b).sum(1) / norms).clamp_max(1);  // rounded above; NaN stays
  const auto count = static_cast<double>(cosines.size(0));
  const double spread = count < 2 ? std::numeric_limits<double>::quiet_NaN()
                                  : cosines.std(/*unbiased=*/true).item<double>() / std::sqrt(count);
  return {cosines.mean().item<double>(), cosines.min().item<double>(), spread};
}

}  // namespace lshformer
