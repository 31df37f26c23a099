#include "kernels/gated.h"

#include "kernels/cpu/rows/each_row.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows/gated.cc"
#include <hwy/foreach_target.h>

// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/cpu/rows/functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {

template <UnaryFunction function>
HWY_INLINE Float ValueFor(const float*, Float a) {
  return Value<function>(a);
}
template <UnaryFunction function>
HWY_INLINE Float ValueFor(const BFloat16*, Float a) {
  return ValueForBFloat16<function>(a);
}

template <class Number>
void GateRow(UnaryFunction function, const float* HWY_RESTRICT x, int64_t columns, Number* HWY_RESTRICT y) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  WithFunction(function, [&](auto of) {
    for (int64_t c = 0; c < columns; c += lanes) {
      const int64_t n = columns - c;
      const Float value = ValueFor<decltype(of)::value>(y, LoadPart(x + c, n));
      StorePart(hn::Mul(value, LoadPart(x + columns + c, n)), y + c, n);
    }
  });
}
void GateFloats(UnaryFunction function, const float* x, int64_t columns, float* y) { GateRow(function, x, columns, y); }
void GateBFloat16(UnaryFunction function, const float* x, int64_t columns, BFloat16* y) {
  GateRow(function, x, columns, y);
}

void GateGradientRow(UnaryFunction function, const float* x, const float* HWY_RESTRICT grad_y, int64_t columns,
                     float* grad_x) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  WithFunction(function, [&](auto of) {
    for (int64_t c = 0; c < columns; c += lanes) {
      const int64_t n = columns - c;
      const Float a = LoadPart(x + c, n), b = LoadPart(x + columns + c, n), dy = LoadPart(grad_y + c, n);
      StorePart(hn::Mul(hn::Mul(dy, b), Derivative<decltype(of)::value>(a)), grad_x + c, n);
      StorePart(hn::Mul(dy, Value<decltype(of)::value>(a)), grad_x + columns + c, n);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(GateFloats);
HWY_EXPORT(GateBFloat16);
HWY_EXPORT(GateGradientRow);

void GateRows(UnaryFunction function, const float* x, int64_t rows, int64_t columns, float* y) {
  ForEachRow(rows, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(GateFloats)(function, x + row * 2 * columns, columns, y + row * columns);
  });
}

void GateRows(UnaryFunction function, const float* x, int64_t rows, int64_t columns, BFloat16* y) {
  ForEachRow(rows, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(GateBFloat16)(function, x + row * 2 * columns, columns, y + row * columns);
  });
}

void GateRowsGradient(UnaryFunction function, const float* x, const float* grad_y, int64_t rows, int64_t columns,
                      float* grad_x) {
  ForEachRow(rows, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(GateGradientRow)
    (function, x + row * 2 * columns, grad_y + row * columns, columns, grad_x + row * 2 * columns);
  });
}

}  // namespace lshformer
#endif
