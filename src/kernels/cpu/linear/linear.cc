#include "kernels/linear.h"

#include "kernels/cpu/linear/amx_linear.h"
#include "kernels/cpu/linear/split_linear.h"

namespace lshformer {
namespace {

template <class T>
MatrixOf<T> AsItLies(const T* data, int64_t columns) {
  return {data, columns, 1};
}
template <class T>
MatrixOf<T> Turned(const T* data, int64_t columns) {  // of a matrix with so many columns
  return {data, 1, columns};
}

}  // namespace

void MultiplyInTraining(const ProductOf<float>& product) { MultiplyInParts(product); }
void MultiplyInTraining(const ProductOf<BFloat16>& product) { MultiplyRounded(product); }

template <class T>
void LinearForward(const LinearShape& shape, const T* x, const T* weight, const float* bias, float* y) {
  MultiplyInTraining(ProductOf<T>{.rows = shape.rows,
                                  .columns = shape.out,
                                  .inner = shape.in,
                                  .a = AsItLies(x, shape.in),
                                  .b = Turned(weight, shape.in),
                                  .bias = bias,
                                  .c = y,
                                  .c_stride = shape.out});
}

template <class T>
void LinearInputGradient(const LinearShape& shape, const T* grad_y, const T* weight, float* grad_x) {
  MultiplyInTraining(ProductOf<T>{.rows = shape.rows,
                                  .columns = shape.in,
                                  .inner = shape.out,
                                  .a = AsItLies(grad_y, shape.out),
                                  .b = AsItLies(weight, shape.in),
                                  .c = grad_x,
                                  .c_stride = shape.in});
}

template <class T>
void LinearWeightGradient(const LinearShape& shape, const T* grad_y, const T* x, float* grad_weight) {
  MultiplyInTraining(ProductOf<T>{.rows = shape.out,
                                  .columns = shape.in,
                                  .inner = shape.rows,
                                  .a = Turned(grad_y, shape.out),
                                  .b = AsItLies(x, shape.in),
                                  .c = grad_weight,
                                  .c_stride = shape.in,
                                  .inner_is_tokens = true});
}

template void LinearForward(const LinearShape&, const float*, const float*, const float*, float*);
template void LinearForward(const LinearShape&, const BFloat16*, const BFloat16*, const float*, float*);
template void LinearInputGradient(const LinearShape&, const float*, const float*, float*);
template void LinearInputGradient(const LinearShape&, const BFloat16*, const BFloat16*, float*);
template void LinearWeightGradient(const LinearShape&, const float*, const float*, float*);
template void LinearWeightGradient(const LinearShape&, const BFloat16*, const BFloat16*, float*);

}  // namespace lshformer
