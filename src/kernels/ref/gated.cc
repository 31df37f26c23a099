#include "kernels/ref/gated.h"

#include "kernels/ref/functions.h"

namespace lshformer::ref {

std::vector<double> GateRows(UnaryFunction function, std::span<const double> x, int64_t rows, int64_t columns) {
  std::vector<double> y;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < columns; ++c)
      y.push_back(Value(function, x[row * 2 * columns + c]) * x[(row * 2 + 1) * columns + c]);
  return y;
}

std::vector<double> GateRowsGradient(UnaryFunction function, std::span<const double> x, std::span<const double> grad_y,
                                     int64_t rows, int64_t columns) {
  std::vector<double> grad_x(x.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t of_a = row * 2 * columns + c, of_b = of_a + columns;
      const double dy = grad_y[row * columns + c];
      grad_x[of_a] = dy * x[of_b] * Derivative(function, x[of_a]);
      grad_x[of_b] = dy * Value(function, x[of_a]);
    }
  }
  return grad_x;
}

}  // namespace lshformer::ref
