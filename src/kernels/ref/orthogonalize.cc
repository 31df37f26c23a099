#include "kernels/ref/orthogonalize.h"

#include <cmath>

#include "kernels/orthogonalize.h"
#include "kernels/ref/matmul.h"

namespace lshformer::ref {
namespace {

using Numbers = std::vector<double>;

Numbers Transposed(int64_t rows, int64_t columns, const Numbers& x) {
  Numbers turned(x.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) turned[j * rows + i] = x[i * columns + j];
  return turned;
}

// a: [rows, inner], b: [inner, columns]
Numbers Product(int64_t rows, int64_t columns, int64_t inner, const Numbers& a, const Numbers& b) {
  return Multiply(
             rows, columns, inner, [&](int64_t i, int64_t k) { return a[i * inner + k]; },
             [&](int64_t k, int64_t j) { return b[k * columns + j]; })
      .sums;
}

}  // namespace

Numbers Orthogonalize(int64_t rows, int64_t columns, Numbers matrix) {
  if (rows > columns) return Transposed(columns, rows, Orthogonalize(columns, rows, Transposed(rows, columns, matrix)));
  double squares = 0;
  for (const double x : matrix) squares += x * x;
  for (double& x : matrix) x /= std::sqrt(squares) + NewtonSchulz::kEpsilon;
  for (int step = 0; step < NewtonSchulz::kSteps; ++step) {
    const Numbers gram = Product(rows, rows, columns, matrix, Transposed(rows, columns, matrix));
    Numbers factor = Product(rows, rows, rows, gram, gram);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < rows; ++j) {
        double& element = factor[i * rows + j];
        element = NewtonSchulz::kC * element + NewtonSchulz::kB * gram[i * rows + j] + (i == j ? NewtonSchulz::kA : 0);
      }
    }
    matrix = Product(rows, columns, rows, factor, matrix);
  }
  return matrix;
}

}  // namespace lshformer::ref
