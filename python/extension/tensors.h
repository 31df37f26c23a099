// Tensors of torch as the operator takes them: checked, where they lie.
#pragma once
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bfloat16.h"
#include "kernels/packed_heads.h"

namespace lshformer::extension {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

const char* Name(ScalarType type);            // "float32"; "a number of another type"
std::string ShapeText(const Tensor& tensor);  // "[2, 12, 64]"

// Errors, by the tensor's name, unless it is on the CPU; has that many dimensions; numbers of the type.
void CheckOnCpu(const Tensor& tensor, const char* name);
void CheckDims(const Tensor& tensor, const char* name, int64_t dims, const char* expected);
void CheckType(const Tensor& tensor, const char* name, ScalarType type);

// cu_seqlens: int32, one dimension, contiguous.
std::span<const int32_t> Offsets(const Tensor& cu_seqlens);

// A tensor [tokens, heads, head_dim], of the shape and type of `like`, numbers of a head side by side. T is its type.
template <class T>
HeadTensor<T> Rows(const Tensor& tensor) {
  void* data = const_cast<void*>(tensor.const_data_ptr());
  const auto strides = tensor.strides();
  return {static_cast<T*>(data), strides[0], strides[1]};
}
// Such as Rows may take.
void CheckRows(const Tensor& tensor, const char* name, const Tensor& like);

// New, contiguous, on the CPU.
Tensor Empty(const std::vector<int64_t>& shape, ScalarType type);

// bfloat16 to float32 and, rounded to nearest even, back. `wide` is contiguous.
Tensor Widened(const Tensor& tensor);
Tensor Narrowed(const Tensor& wide);
// Any of the three types to double, row after row, and back to float64.
std::vector<double> Doubles(const Tensor& tensor);
Tensor FromDoubles(const std::vector<double>& values, const std::vector<int64_t>& shape);

}  // namespace lshformer::extension
