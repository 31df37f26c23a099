#include "eval/cosines.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "nn/pooling.h"

namespace lshformer {
namespace {

torch::Tensor MeansOf(const PackedBatch& batch, const ModelOutput& output) {  // [sequences, H], float32
  return Pool(output.last_hidden_state, batch.tokens.cu_seqlens, Pooling::kMean).to(torch::kFloat32);
}

}  // namespace

double Cosine(const torch::Tensor& a, const torch::Tensor& b) {
  return a.dot(b).item<double>() / (a.norm().item<double>() * b.norm().item<double>());
}

Cosines Compare(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor norms = (a.norm(2, 1) * b.norm(2, 1)).clamp_min(std::numeric_limits<double>::min());
  const torch::Tensor cosines = ((a * b).sum(1) / norms).clamp_max(1);  // rounded above; NaN stays
  const auto count = static_cast<double>(cosines.size(0));
  const double spread = count < 2 ? std::numeric_limits<double>::quiet_NaN()
                                  : cosines.std(/*unbiased=*/true).item<double>() / std::sqrt(count);
  return {cosines.mean().item<double>(), cosines.min().item<double>(), spread};
}

void StateCosines::Keep(const PackedBatch& batch, const ModelOutput& output) {
  for (const torch::Tensor& mean : MeansOf(batch, output).unbind(0)) kept_.push_back(mean);
}

void StateCosines::Compare(const PackedBatch& batch, const ModelOutput& output) {
  for (const torch::Tensor& mean : MeansOf(batch, output).unbind(0)) {
    const torch::Tensor before = kept_.at(compared_).to(torch::kFloat64), now = mean.to(torch::kFloat64);
    const bool zero = before.norm().item<double>() * now.norm().item<double>() == 0;
    const double ratio = !zero ? Cosine(before, now) : before.equal(now) ? 1 : 0;
    const double cosine = ratio > 1 ? 1 : ratio;  // rounded above; NaN stays
    if (!std::isfinite(cosine)) Fail("sequence {}: the model's output is not finite", compared_);
    ++compared_;
    sum_ += cosine;
    worst_ = std::min(worst_, cosine);
  }
}

}  // namespace lshformer
