#include "kernels/ref/gather.h"

namespace lshformer::ref {

std::vector<double> PickRows(std::span<const double> x, int64_t columns, std::span<const int32_t> rows) {
  std::vector<double> y;
  for (const int32_t row : rows)
    for (int64_t c = 0; c < columns; ++c) y.push_back(x[row * columns + c]);
  return y;
}

std::vector<double> AddRowsAt(std::span<const double> x, int64_t columns, std::span<const int32_t> targets,
                              std::vector<double> table) {
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0) continue;
    for (int64_t c = 0; c < columns; ++c) table[targets[i] * columns + c] += x[i * columns + c];
  }
  return table;
}

}  // namespace lshformer::ref
