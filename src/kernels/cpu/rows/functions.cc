#include "kernels/functions.h"

#include "base/parallel.h"
#include "kernels/cpu/rows/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows/functions.cc"
#include <hwy/foreach_target.h>

// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/cpu/rows/functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {

template <UnaryFunction function>
void ApplyPiece(const float* x, const float* grad_out, float* out, int64_t count) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  for (int64_t i = 0; i < count; i += lanes) {
    const Float v = LoadPart(x + i, count - i);
    if (grad_out == nullptr) {
      StorePart(Value<function>(v), out + i, count - i);
    } else {
      StorePart(hn::Mul(Derivative<function>(v), LoadPart(grad_out + i, count - i)), out + i, count - i);
    }
  }
}

void Apply(UnaryFunction function, const float* x, const float* grad_out, float* out, int64_t count) {
  WithFunction(function, [&](auto of) { ApplyPiece<decltype(of)::value>(x, grad_out, out, count); });
}

template <class Function, class Number>
void FinishRows(const BiasAndFunction& call, const Function& function, Number* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  for (int64_t row = 0; row < call.rows; ++row) {
    const float* x = call.x + row * call.x_stride;
    Number* y = out + row * call.y_stride;
    for (int64_t c = 0; c < call.columns; c += lanes) {
      const size_t count = call.columns - c;
      Float v = LoadPart(x + c, count);
      if (call.bias != nullptr) v = hn::Add(v, LoadPart(call.bias + c, count));
      StorePart(function(v), y + c, count);
    }
  }
}

void Finish(const BiasAndFunction& call) {
  const auto finish = [&call](const auto& function, const auto& for_bfloat16) {
    call.rounded == nullptr ? FinishRows(call, function, call.y) : FinishRows(call, for_bfloat16, call.rounded);
  };
  const auto same = [](Float v) { return v; };
  if (!call.function) return finish(same, same);
  WithFunction(*call.function, [&](auto of) {
    constexpr UnaryFunction kFunction = decltype(of)::value;
    finish([](Float v) { return Value<kFunction>(v); }, [](Float v) { return ValueForBFloat16<kFunction>(v); });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(Apply);
HWY_EXPORT(Finish);

namespace {

// Elements per piece of work: a multiple of every vector length, about 20 µs.
constexpr int64_t kPiece = 16384;

}  // namespace

void ApplyFunction(UnaryFunction function, std::span<const float> x, float* out) {
  ParallelFor(static_cast<int64_t>(x.size()), kPiece, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(Apply)(function, x.data() + begin, nullptr, out + begin, end - begin);
  });
}

void ApplyDerivative(UnaryFunction function, std::span<const float> x, const float* grad_out, float* grad_x) {
  ParallelFor(static_cast<int64_t>(x.size()), kPiece, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(Apply)(function, x.data() + begin, grad_out + begin, grad_x + begin, end - begin);
  });
}

void AddBiasAndApply(const BiasAndFunction& call) { HWY_DYNAMIC_DISPATCH(Finish)(call); }

}  // namespace lshformer
#endif
