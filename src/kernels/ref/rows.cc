#include "kernels/ref/rows.h"

#include <cmath>

#include "base/philox.h"

namespace lshformer::ref {
namespace {

struct NormalRow {
  std::vector<double> normal;  // (sum − mean) / deviation
  double deviation = 0;
};

NormalRow Normalise(const NormInputs& in, int64_t row) {
  NormalRow result{std::vector<double>(static_cast<size_t>(in.columns))};
  double mean = 0, variance = 0;
  for (int64_t c = 0; c < in.columns; ++c) {
    const int64_t at = row * in.columns + c;
    double sum = in.x[at] * (in.factors.empty() ? 1 : in.factors[at]);
    if (!in.residual.empty()) sum += in.residual[at];
    result.normal[c] = sum;
    mean += sum / static_cast<double>(in.columns);
  }
  for (double& v : result.normal) {
    v -= mean;
    variance += v * v / static_cast<double>(in.columns);
  }
  result.deviation = std::sqrt(variance + in.eps);
  for (double& v : result.normal) v /= result.deviation;
  return result;
}

}  // namespace

std::vector<double> SumRows(std::span<const float> x, int64_t row_stride, int64_t rows, int64_t columns) {
  std::vector<double> sums(static_cast<size_t>(columns));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < columns; ++c) sums[c] += x[row * row_stride + c];
  return sums;
}

std::vector<double> DropoutFactors(const RowDropout& dropout, int64_t rows, int64_t columns) {
  std::vector<double> factors(static_cast<size_t>(rows * columns), 1.0);
  if (dropout.probability <= 0) return factors;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < columns; ++c) {
      // A counter is the block's number, the row's position, and the two halves of its sequence's id.
      const uint64_t block = static_cast<uint64_t>(c / 64 * 16 + c % 16);
      const uint64_t position = static_cast<uint32_t>(dropout.positions[row]);
      const uint32_t bits = Philox(dropout.key, block | position << 32, dropout.sequence_ids[row])[c / 16 % 4];
      const bool dropped = (bits >> 1) < static_cast<uint32_t>(dropout.probability * 0x1p31);
      factors[row * columns + c] = dropped ? 0 : 1 / (1 - double{dropout.probability});
    }
  }
  return factors;
}

std::vector<double> DropoutAddNorm(const NormInputs& in) {
  std::vector<double> y;
  for (int64_t row = 0; row < in.rows; ++row) {
    const NormalRow r = Normalise(in, row);
    for (int64_t c = 0; c < in.columns; ++c) y.push_back(r.normal[c] * in.gamma[c] + in.beta[c]);
  }
  return y;
}

NormGradients DropoutAddNormGradient(const NormInputs& in, std::span<const double> grad_y) {
  const auto columns = static_cast<size_t>(in.columns);
  NormGradients grads{{}, {}, std::vector<double>(columns), std::vector<double>(columns)};
  for (int64_t row = 0; row < in.rows; ++row) {
    const NormalRow r = Normalise(in, row);
    double mean = 0, projection = 0;  // of g = grad_y · gamma, and of g · normal
    for (size_t c = 0; c < columns; ++c) {
      const double dy = grad_y[row * columns + c], g = dy * in.gamma[c];
      grads.gamma[c] += dy * r.normal[c];
      grads.beta[c] += dy;
      mean += g / static_cast<double>(columns);
      projection += g * r.normal[c] / static_cast<double>(columns);
    }
    for (size_t c = 0; c < columns; ++c) {
      const size_t at = row * columns + c;
      const double by_sum = (grad_y[at] * in.gamma[c] - mean - r.normal[c] * projection) / r.deviation;
      grads.residual.push_back(by_sum);
      grads.x.push_back(by_sum * (in.factors.empty() ? 1 : in.factors[at]));
    }
  }
  return grads;
}

}  // namespace lshformer::ref
