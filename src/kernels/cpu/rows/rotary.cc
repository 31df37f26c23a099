#include "kernels/rotary.h"

#include <cmath>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows/rotary.cc"
#include <hwy/foreach_target.h>

// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/cpu/rows/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {

// One head of a token, to where it lies or elsewhere.
template <class T>
void RotateHead(const float* x, const float* HWY_RESTRICT cos, const float* HWY_RESTRICT sin, int64_t half, bool back,
                T* to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(kTag));
  for (int64_t i = 0; i < half; i += lanes) {
    const int64_t n = half - i;
    const Float first = LoadPart(x + i, n), second = LoadPart(x + half + i, n), c = LoadPart(cos + i, n);
    const Float s = back ? hn::Neg(LoadPart(sin + i, n)) : LoadPart(sin + i, n);
    StorePart(hn::NegMulAdd(second, s, hn::Mul(first, c)), to + i, n);
    StorePart(hn::MulAdd(first, s, hn::Mul(second, c)), to + half + i, n);
  }
}

// All heads of one token.
void RotateToken(const RotaryCall& call, int64_t token) {
  const int64_t half = call.head_dim / 2, lanes = static_cast<int64_t>(hn::Lanes(kTag));
  const float* cos = call.cos + call.positions[token] * half;
  const float* sin = call.sin + call.positions[token] * half;
  for (int head = 0; head < call.heads; ++head) {
    float* x = call.x.at(token, head);
    if (call.rounded.data != nullptr) {
      RotateHead(x, cos, sin, half, call.back, call.rounded.at(token, head));
    } else {
      RotateHead(x, cos, sin, half, call.back, x);
    }
  }
  for (int head = call.heads; head < call.heads + call.plain; ++head) {
    const float* x = call.x.at(token, head);
    BFloat16* to = call.rounded.at(token, head);
    for (int64_t i = 0; i < call.head_dim; i += lanes)
      StorePart(LoadPart(x + i, call.head_dim - i), to + i, call.head_dim - i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(RotateToken);

std::vector<float> RotaryFrequencies(const Rotary& rotary, int head_dim, int64_t length) {
  double theta = rotary.theta;
  if (rotary.Grows(length)) {
    const double growth = rotary.factor * static_cast<double>(length) / static_cast<double>(rotary.original);
    theta *= std::pow(growth - (rotary.factor - 1), head_dim / (head_dim - 2.0));
  }
  std::vector<float> frequencies;
  for (int i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    frequencies.push_back(1 / static_cast<float>(std::pow(theta, double{exponent})));
    if (rotary.scaling == RotaryScaling::kLinear) frequencies.back() /= static_cast<float>(rotary.factor);
  }
  return frequencies;
}

void WriteRotaryAngles(std::span<const float> frequencies, int64_t begin, int64_t end, float* cos, float* sin) {
  const auto half = static_cast<int64_t>(frequencies.size());
  ParallelFor(end - begin, /*grain=*/32, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      for (int64_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(begin + row) * frequencies[static_cast<size_t>(i)];
        cos[row * half + i] = static_cast<float>(std::cos(double{angle}));
        sin[row * half + i] = static_cast<float>(std::sin(double{angle}));
      }
    }
  });
}

void Rotate(const RotaryCall& call) {
  ParallelFor(call.tokens, /*grain=*/64, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) HWY_DYNAMIC_DISPATCH(RotateToken)(call, token);
  });
}

}  // namespace lshformer
#endif
