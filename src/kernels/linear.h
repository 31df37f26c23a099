// The three products of a linear map in training:
//
//   y = x·Wᵀ + b,   grad_x = grad_y·W,   grad_W = grad_yᵀ·x
//
// x: [rows, in], W: [out, in], b: [out], y: [rows, out], all contiguous. (b's gradient is SumRows of grad_y.)
//
// Of float32 as kernels/matmul_precision.h says: multiply-add, or in AMX tiles by parts. Of numbers that the caller
// has rounded to bfloat16 with sums and results in float32: in AMX tiles where they are active, else through oneDNN,
// which needs a CPU with such instructions (SupportsProducts). A row of y and of grad_x depends on that row and on W
// alone, bit for bit; grad_W depends on the batch, and not on the number of threads. Throws nothing: shapes are checked
// one level up. Work memory: that of the products (kernels/matmul.h), and both factors' parts or one factor
// turned round.
#pragma once
#include <cstdint>

#include "base/bfloat16.h"
#include "kernels/matrix.h"

namespace lshformer {

// c = a·b in these ways, of factors that lie either way round.
void MultiplyInTraining(const ProductOf<float>& product);
void MultiplyInTraining(const ProductOf<BFloat16>& product);

struct LinearShape {
  int64_t rows = 0, in = 0, out = 0;
};

template <class T>  // float, BFloat16
void LinearForward(const LinearShape& shape, const T* x, const T* weight, const float* bias, float* y);
template <class T>
void LinearInputGradient(const LinearShape& shape, const T* grad_y, const T* weight, float* grad_x);
template <class T>
void LinearWeightGradient(const LinearShape& shape, const T* grad_y, const T* x, float* grad_weight);

}  // namespace lshformer
