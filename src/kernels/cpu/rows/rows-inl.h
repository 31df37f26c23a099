// Pieces shared by the row-wise kernels of one Highway target.
#if defined(LSHFORMER_KERNELS_CPU_ROWS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LSHFORMER_KERNELS_CPU_ROWS_ROWS_INL_H_
#undef LSHFORMER_KERNELS_CPU_ROWS_ROWS_INL_H_
#else
#define LSHFORMER_KERNELS_CPU_ROWS_ROWS_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/bfloat16.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes: the order of sums and of random bits is written for that.
using FloatTag = hn::CappedTag<float, 16>;
using Float = hn::Vec<FloatTag>;
inline constexpr FloatTag kTag{};

// Up to Lanes() floats; what is missing is 0. Never touches memory behind p + count.
HWY_INLINE Float LoadPart(const float* HWY_RESTRICT p, size_t count) {
  if (HWY_LIKELY(count >= hn::Lanes(kTag))) return hn::LoadU(kTag, p);
  HWY_ALIGN float part[16] = {};
  std::memcpy(part, p, count * sizeof(float));
  return hn::Load(kTag, part);
}

HWY_INLINE void StorePart(Float v, float* HWY_RESTRICT p, size_t count) {
  if (HWY_LIKELY(count >= hn::Lanes(kTag))) return hn::StoreU(v, kTag, p);
  HWY_ALIGN float part[16];
  hn::Store(v, kTag, part);
  std::memcpy(p, part, count * sizeof(float));
}

// Vectors of fewer bits than lanes need are stored through a buffer at the end of a row.
template <class T, class V>
HWY_INLINE void StoreNarrow(V v, T* HWY_RESTRICT p, size_t count) {
  const hn::Rebind<T, FloatTag> d;
  if (HWY_LIKELY(count >= hn::Lanes(d))) return hn::StoreU(v, d, p);
  HWY_ALIGN T part[16];
  hn::StoreU(v, d, part);
  std::memcpy(p, part, count * sizeof(T));
}

// Rounded to nearest even; any NaN becomes the positive quiet one.
HWY_INLINE void StorePart(Float v, BFloat16* HWY_RESTRICT p, size_t count) {
  const hn::Rebind<uint32_t, FloatTag> bits_tag;
  const auto bits = hn::BitCast(bits_tag, v);
  const auto even = hn::And(hn::ShiftRight<16>(bits), hn::Set(bits_tag, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(hn::Set(bits_tag, 0x7FFFu), even)));
  const auto halves = hn::IfThenElse(hn::RebindMask(bits_tag, hn::IsNaN(v)), hn::Set(bits_tag, 0x7FC0u), rounded);
  const hn::Rebind<int32_t, FloatTag> integers;
  StoreNarrow(hn::DemoteTo(hn::Rebind<uint16_t, FloatTag>(), hn::BitCast(integers, halves)),
              reinterpret_cast<uint16_t*>(p), count);
}

HWY_INLINE float Sum(Float v) { return hn::GetLane(hn::SumOfLanes(kTag, v)); }

// σ(x) and its derivative σ(x)·(1 − σ(x)), both without cancellation.
struct Logistic {
  HWY_INLINE explicit Logistic(Float x) {
    const Float one = hn::Set(kTag, 1.0f), e = hn::Exp(kTag, hn::Neg(hn::Abs(x))), r = hn::Div(one, hn::Add(one, e));
    value = hn::IfThenElse(hn::Lt(x, hn::Zero(kTag)), hn::Mul(e, r), r);
    slope = hn::Mul(e, hn::Mul(r, r));
  }
  Float value, slope;
};

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#endif
