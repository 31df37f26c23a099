#include "nn/pooling.h"

#include <cmath>

namespace lshformer {
namespace {

torch::Tensor PoolOne(const torch::Tensor& rows, Pooling pooling) {
  if (rows.size(0) == 0) return torch::zeros({rows.size(1)}, torch::kFloat64);
  if (pooling == Pooling::kCls) return rows[0].to(torch::kFloat64);
  return rows.to(torch::kFloat64).mean(0);
}

void Normalize(std::span<float> vector) {
  double square = 0;
  for (const float x : vector) square += static_cast<double>(x) * x;
  if (square == 0) return;
  for (float& x : vector) x = static_cast<float>(x / std::sqrt(square));
}

std::vector<float> MeanOf(std::span<const float> rows, int64_t width) {
  std::vector<float> mean;
  const auto count = static_cast<int64_t>(rows.size()) / width;
  for (int64_t column = 0; column < width; ++column) {
    double sum = 0;
    for (int64_t row = 0; row < count; ++row) sum += rows[static_cast<size_t>(row * width + column)];
    mean.push_back(static_cast<float>(sum / static_cast<double>(count)));
  }
  return mean;
}

}  // namespace

torch::Tensor Pool(const torch::Tensor& states, std::span<const int32_t> cu_seqlens, Pooling pooling) {
  if (pooling == Pooling::kNone) return states.to(torch::kFloat64);
  if (cu_seqlens.size() < 2) return torch::zeros({0, states.size(1)}, torch::kFloat64);
  std::vector<torch::Tensor> vectors;
  for (size_t b = 0; b + 1 < cu_seqlens.size(); ++b)
    vectors.push_back(PoolOne(states.slice(0, cu_seqlens[b], cu_seqlens[b + 1]), pooling));  // [n, H] → [H]
  return torch::stack(vectors);
}

std::vector<float> PoolRows(std::span<const float> rows, int64_t width, Pooling pooling, bool normalize) {
  std::vector<float> vectors;
  if (pooling == Pooling::kNone) {
    vectors.assign(rows.begin(), rows.end());
  } else if (rows.empty()) {
    vectors.assign(static_cast<size_t>(width), 0.0F);
  } else if (pooling == Pooling::kCls) {
    vectors.assign(rows.begin(), rows.begin() + width);
  } else {
    vectors = MeanOf(rows, width);
  }
  if (normalize)
    for (size_t begin = 0; begin < vectors.size(); begin += static_cast<size_t>(width))
      Normalize({vectors.data() + begin, static_cast<size_t>(width)});
  return vectors;
}

}  // namespace lshformer
