#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows/cross_entropy.cc"
#include <hwy/foreach_target.h>

// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/cpu/rows/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {

// log Σ exp(x)
float LogSumExp(const float* HWY_RESTRICT x, int64_t columns) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  Float largest = hn::Set(kTag, x[0]);
  int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) largest = hn::Max(largest, hn::LoadU(kTag, x + c));
  float shift = hn::GetLane(hn::MaxOfLanes(kTag, largest));
  for (; c < columns; ++c) shift = std::max(shift, x[c]);
  const Float shifts = hn::Set(kTag, shift);
  Float total = hn::Zero(kTag);
  for (c = 0; c < columns; c += lanes) {
    const Float e = hn::Exp(kTag, hn::Sub(LoadPart(x + c, columns - c), shifts));
    total = hn::Add(total, hn::IfThenElseZero(hn::FirstN(kTag, columns - c), e));
  }
  return shift + std::log(Sum(total));
}

// x = scale · exp(x − lse)
void ScaledExp(float* x, int64_t columns, float lse, float scale) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  const Float shift = hn::Set(kTag, lse), factor = hn::Set(kTag, scale);
  for (int64_t c = 0; c < columns; c += lanes)
    StorePart(hn::Mul(factor, hn::Exp(kTag, hn::Sub(LoadPart(x + c, columns - c), shift))), x + c, columns - c);
}

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(LogSumExp);
HWY_EXPORT(ScaledExp);

void CrossEntropy(const float* logits, int64_t rows, int64_t columns, const int32_t* labels, float* loss, float* lse) {
  ParallelFor(rows, 4, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      lse[row] = HWY_DYNAMIC_DISPATCH(LogSumExp)(logits + row * columns, columns);
      loss[row] = labels[row] < 0 ? 0.0f : lse[row] - logits[row * columns + labels[row]];
    }
  });
}

void CrossEntropyGradient(float* logits, int64_t row_stride, int64_t rows, int64_t first, int64_t columns,
                          const int32_t* labels, const float* lse, float scale) {
  ParallelFor(rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* x = logits + row * row_stride + first;
      if (labels[row] < 0) {
        std::fill_n(x, columns, 0.0f);
        continue;
      }
      HWY_DYNAMIC_DISPATCH(ScaledExp)(x, columns, lse[row], scale);
      const int64_t label = labels[row] - first;
      if (label >= 0 && label < columns) x[label] -= scale;
    }
  });
}

double MeanCrossEntropy(const float* logits, int64_t rows, int64_t columns, const int32_t* labels) {
  std::vector<float> loss(static_cast<size_t>(rows)), lse(loss.size());
  CrossEntropy(logits, rows, columns, labels, loss.data(), lse.data());
  double total = 0;
  int64_t counted = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (labels[row] < 0) continue;
    total += loss[static_cast<size_t>(row)];
    ++counted;
  }
  return counted == 0 ? 0.0 : total / static_cast<double>(counted);
}

}  // namespace lshformer
#endif
