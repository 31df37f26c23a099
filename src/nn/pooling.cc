#include "nn/pooling.h"

#include <algorithm>
#include <cmath>

namespace lshformer {
namespace {

torch::Tensor PoolOne(const torch::Tensor& rows, Pooling pooling) {
  const int64_t count = rows.size(0);
  if (count == 0) return torch::zeros({rows.size(1)}, torch::kFloat64);
  switch (pooling) {
    case Pooling::kCls:
      return rows[0].to(torch::kFloat64);
    case Pooling::kLastToken:
      return rows[count - 1].to(torch::kFloat64);
    case Pooling::kMax:
      return rows.amax(0).to(torch::kFloat64);
    case Pooling::kMeanSqrtLen:
      return rows.to(torch::kFloat64).sum(0) / std::sqrt(static_cast<double>(count));
    case Pooling::kWeightedMean: {
      const torch::Tensor weights = torch::arange(1, count + 1, torch::kFloat64);
      return weights.matmul(rows.to(torch::kFloat64)) / (0.5 * static_cast<double>(count * (count + 1)));
    }
    case Pooling::kMean:
    case Pooling::kNone:
      break;
  }
  return rows.to(torch::kFloat64).mean(0);
}

// weight(row) over all rows, divided by `divisor`.
template <class Weight>
std::vector<float> SumOf(std::span<const float> rows, int64_t width, double divisor, const Weight& weight) {
  std::vector<double> sums(static_cast<size_t>(width), 0.0);
  const auto count = static_cast<int64_t>(rows.size()) / width;
  for (int64_t row = 0; row < count; ++row) {
    const std::span<const float> values = rows.subspan(static_cast<size_t>(row * width), sums.size());
    const double factor = weight(row);
    for (size_t column = 0; column < sums.size(); ++column) sums[column] += factor * values[column];
  }
  std::vector<float> quotients;
  for (const double sum : sums) quotients.push_back(static_cast<float>(sum / divisor));
  return quotients;
}

std::vector<float> MaxOf(std::span<const float> rows, int64_t width) {
  std::vector<float> most(rows.begin(), rows.begin() + width);
  for (size_t i = static_cast<size_t>(width); i < rows.size(); ++i) {
    float& largest = most[i % static_cast<size_t>(width)];
    largest = std::max(largest, rows[i]);
  }
  return most;
}

std::vector<float> WeightedMeanOf(std::span<const float> rows, int64_t width, int64_t skipped) {
  const auto count = static_cast<int64_t>(rows.size()) / width;
  const auto sum_to = [](int64_t n) { return 0.5 * static_cast<double>(n) * static_cast<double>(n + 1); };
  return SumOf(rows, width, sum_to(skipped + count) - sum_to(skipped),
               [&](int64_t row) { return static_cast<double>(skipped + row + 1); });
}

std::vector<float> PoolTo(std::span<const float> rows, int64_t width, Pooling pooling, int64_t skipped) {
  if (pooling == Pooling::kNone) return {rows.begin(), rows.end()};
  if (rows.empty()) return std::vector<float>(static_cast<size_t>(width), 0.0F);
  const double count = static_cast<double>(rows.size()) / static_cast<double>(width);
  const auto each = [](int64_t) { return 1.0; };
  switch (pooling) {
    case Pooling::kCls:
      return {rows.begin(), rows.begin() + width};
    case Pooling::kLastToken:
      return {rows.end() - width, rows.end()};
    case Pooling::kMax:
      return MaxOf(rows, width);
    case Pooling::kMeanSqrtLen:
      return SumOf(rows, width, std::sqrt(count), each);
    case Pooling::kWeightedMean:
      return WeightedMeanOf(rows, width, skipped);
    case Pooling::kMean:
    case Pooling::kNone:
      break;
  }
  return SumOf(rows, width, count, each);
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

std::vector<float> PoolRows(std::span<const float> rows, int64_t width, Pooling pooling, bool normalize,
                            int64_t skipped) {
  const auto left_out = std::min(rows.size(), static_cast<size_t>(skipped * width));
  std::vector<float> vectors = PoolTo(rows.subspan(left_out), width, pooling, skipped);
  if (normalize)
    for (size_t begin = 0; begin < vectors.size(); begin += static_cast<size_t>(width))
      NormalizeVector({vectors.data() + begin, static_cast<size_t>(width)});
  return vectors;
}

void NormalizeVector(std::span<float> vector) {
  double square = 0;
  for (const float x : vector) square += static_cast<double>(x) * x;
  if (square == 0) return;
  for (float& x : vector) x = static_cast<float>(x / std::sqrt(square));
}

}  // namespace lshformer
