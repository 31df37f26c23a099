#include "kernels/ref/matmul.h"

#include <cmath>

namespace lshformer::ref {

ProductSums Multiply(int64_t rows, int64_t columns, int64_t inner, const std::function<double(int64_t, int64_t)>& a,
                     const std::function<double(int64_t, int64_t)>& b) {
  const auto numbers = static_cast<size_t>(rows * columns);
  ProductSums result{std::vector<double>(numbers), std::vector<double>(numbers)};
  std::vector<double> b_row(static_cast<size_t>(columns));
  for (int64_t k = 0; k < inner; ++k) {
    for (int64_t j = 0; j < columns; ++j) b_row[j] = b(k, j);
    for (int64_t i = 0; i < rows; ++i) {
      const double factor = a(i, k);
      double *sums = result.sums.data() + i * columns, *sizes = result.sizes.data() + i * columns;
      for (int64_t j = 0; j < columns; ++j) {
        sums[j] += factor * b_row[j];
        sizes[j] += std::abs(factor * b_row[j]);
      }
    }
  }
  return result;
}

ProductSums Multiply(const MatrixProduct& p) {
  const auto at = [](const MatrixView& x) {
    return [x](int64_t i, int64_t j) { return double{x.data[i * x.row_stride + j * x.column_stride]}; };
  };
  ProductSums result = Multiply(p.rows, p.columns, p.inner, at(p.a), at(p.b));
  for (int64_t i = 0; i < p.rows; ++i)
    for (int64_t j = 0; j < p.columns; ++j) {
      const double bias = p.bias == nullptr ? 0 : p.bias[j], before = p.accumulate ? p.c[i * p.c_stride + j] : 0;
      result.sums[i * p.columns + j] += bias + before;
      result.sizes[i * p.columns + j] += std::abs(bias) + std::abs(before);
    }
  return result;
}

}  // namespace lshformer::ref
