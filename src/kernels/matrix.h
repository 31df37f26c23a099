// A matrix as it lies in memory, and a product of two:
//
//   c[m, n] = Σ_k a[m, k] · b[k, n] (+ bias[n]) (+ c[m, n])
//
// What multiplies: kernels/matmul.h; kernels/linear.h chooses among the ways to do it.
#pragma once
#include <cstdint>

namespace lshformer {

// A matrix of `rows` × `columns` numbers; element (i, j) at data[i · row_stride + j · column_stride]. One stride is 1.
template <class T>
struct MatrixOf {
  const T* data = nullptr;
  int64_t row_stride = 0, column_stride = 1;
};
using MatrixView = MatrixOf<float>;

template <class T>
struct ProductOf {
  int64_t rows = 0, columns = 0, inner = 0;
  MatrixOf<T> a;                // [rows, inner]
  MatrixOf<T> b;                // [inner, columns]
  const float* bias = nullptr;  // [columns]
  float* c = nullptr;           // [rows, columns], row stride c_stride
  int64_t c_stride = 0;
  bool accumulate = false;       // add to c
  bool inner_is_tokens = false;  // a weight gradient: rows need not be independent of the call
};
using MatrixProduct = ProductOf<float>;

}  // namespace lshformer
