// What stands behind a product in blocks (kernels/cpu/amx/product.h): on plain pointers, by the calling thread.
#pragma once
#include <cstdint>
#include <optional>

#include "base/bfloat16.h"
#include "kernels/functions.h"

namespace lshformer {

// y = f(x + bias); bias is added to every row. In float32 the same bits as by an addition and ApplyFunction.
struct BiasAndFunction {
  int64_t rows = 0, columns = 0;
  const float* x = nullptr;  // [rows, columns], row stride x_stride
  int64_t x_stride = 0;
  const float* bias = nullptr;            // [columns]; or nullptr: 0
  std::optional<UnaryFunction> function;  // f; or none
  float* y = nullptr;                     // may be x
  BFloat16* rounded = nullptr;  // in place of y, as RoundRows rounds; GELU is computed as far as that keeps it
  int64_t y_stride = 0;         // of either
};
void AddBiasAndApply(const BiasAndFunction& call);

}  // namespace lshformer
