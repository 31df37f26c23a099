// A gated product of rows (GLU, arXiv:2002.05202): with GELU GeGLU, with SiLU SwiGLU.
//
//   y = f(a) · b,   grad_a = grad_y · b · f′(a),   grad_b = grad_y · f(a)
//
// x = [a b] and its gradient: [rows, 2·columns]; y and its gradient: [rows, columns]; contiguous. An element's result
// depends on its own two numbers alone, bit for bit. Throws nothing. Work memory: none.
#pragma once
#include <cstdint>

#include "base/bfloat16.h"
#include "kernels/functions.h"

namespace lshformer {

// y may not overlap x. Of numbers in bfloat16 GELU is computed as far as those keep it (kernels/packed_linear.h).
void GateRows(UnaryFunction function, const float* x, int64_t rows, int64_t columns, float* y);
void GateRows(UnaryFunction function, const float* x, int64_t rows, int64_t columns, BFloat16* y);
// grad_x may be x.
void GateRowsGradient(UnaryFunction function, const float* x, const float* grad_y, int64_t rows, int64_t columns,
                      float* grad_x);

}  // namespace lshformer
