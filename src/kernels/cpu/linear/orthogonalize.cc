#include "kernels/orthogonalize.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/matmul.h"
#include "kernels/updates.h"
#include "kernels/work_memory.h"

namespace lshformer {
namespace {

// to: [columns, rows], of from: [rows, columns], times `scale`.
void TurnRound(int64_t rows, int64_t columns, float scale, const float* from, float* to) {
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) to[j * rows + i] = scale * from[i * columns + j];
}

// square ← a·I + b·gram + c·square, all [size, size]
void Polynomial(int64_t size, const float* gram, float* square) {
  constexpr auto a = static_cast<float>(NewtonSchulz::kA), b = static_cast<float>(NewtonSchulz::kB),
                 c = static_cast<float>(NewtonSchulz::kC);
  for (int64_t i = 0; i < size * size; ++i) square[i] = b * gram[i] + c * square[i];
  for (int64_t i = 0; i < size; ++i) square[i * size + i] += a;
}

}  // namespace

void Orthogonalize(int64_t rows, int64_t columns, float* matrix) {
  const bool turned = rows > columns;
  const int64_t small = std::min(rows, columns), large = std::max(rows, columns), elements = rows * columns;
  if (small == 0) return;
  const size_t floats = 2 * static_cast<size_t>(elements) + 2 * static_cast<size_t>(small * small);
  float* x = WorkspaceOf(WorkspaceUse::kOrthogonal, floats * sizeof(float));
  float* next = x + elements;
  float *gram = next + elements, *square = gram + small * small;

  const auto scale = static_cast<float>(1 / (std::sqrt(SumOfSquares(matrix, elements)) + NewtonSchulz::kEpsilon));
  if (turned) {
    TurnRound(rows, columns, scale, matrix, x);
  } else {
    std::transform(matrix, matrix + elements, x, [scale](float element) { return scale * element; });
  }
  for (int step = 0; step < NewtonSchulz::kSteps; ++step) {
    Multiply({.rows = small,
              .columns = small,
              .inner = large,
              .a = {x, large, 1},
              .b = {x, 1, large},
              .c = gram,
              .c_stride = small});
    Multiply({.rows = small,
              .columns = small,
              .inner = small,
              .a = {gram, small, 1},
              .b = {gram, small, 1},
              .c = square,
              .c_stride = small});
    Polynomial(small, gram, square);
    Multiply({.rows = small,
              .columns = large,
              .inner = small,
              .a = {square, small, 1},
              .b = {x, large, 1},
              .c = next,
              .c_stride = large});
    std::swap(x, next);
  }
  if (turned)
    TurnRound(small, large, 1, x, matrix);
  else
    std::copy(x, x + elements, matrix);
}

}  // namespace lshformer
