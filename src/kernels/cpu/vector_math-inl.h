// Small vectorised pieces shared by forward and backward, compiled once for each instruction set.
#if defined(LSHFORMER_VECTOR_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LSHFORMER_VECTOR_MATH_INL
#undef LSHFORMER_VECTOR_MATH_INL
#else
#define LSHFORMER_VECTOR_MATH_INL
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::ScalableTag<uint32_t>;
using Ints = hn::ScalableTag<int32_t>;
using FloatVec = hn::Vec<Floats>;

inline constexpr int kLanes = static_cast<int>(HWY_LANES(float));
// Rows of C that the inner kernel keeps in registers, beside two vectors of columns: 32 registers hold 8 × 2 sums, 16
// hold 4 × 2.
inline constexpr int kMicroRows = (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL) ? 8 : 4;

inline int RoundUp(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

// 2^x for x ≤ 0 (and a little above). Below −126 exactly 0, NaN stays NaN. Error < 2 ulp.
// x = n + f with |f| ≤ 1/2; 2^f by a polynomial of degree 5 (minimax, relative error 2^-23.4), 2^n by its exponent
// bits.
HWY_INLINE FloatVec Exp2(Floats d, FloatVec x) {
  const FloatVec magic = hn::Set(d, 12582912.0f + 127.0f);  // 1.5·2²³ + bias: the sum's low bits are n + 127
  const FloatVec shifted = hn::Add(x, magic);
  const FloatVec f = hn::Sub(x, hn::Sub(shifted, magic));
  FloatVec p = hn::Set(d, 1.3264727e-3f);
  p = hn::MulAdd(p, f, hn::Set(d, 9.671513e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 5.5507336e-2f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.4022242e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.93147e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  const Words w;
  const FloatVec power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(w, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0f)), hn::Mul(p, power));
}

// 2^x as far as bfloat16 keeps it: x = n + f with 0 ≤ f ≤ 1, a polynomial of degree 3 in f (minimax with 2^0 = 1,
// relative error 2^-13.5, a twentieth of bfloat16's rounding). Else as Exp2.
HWY_INLINE FloatVec Exp2ForBFloat16(Floats d, FloatVec x) {
  const auto polynomial = [d](FloatVec f) {
    FloatVec p = hn::Set(d, 7.706705e-2f);
    p = hn::MulAdd(p, f, hn::Set(d, 2.2764498e-1f));
    p = hn::MulAdd(p, f, hn::Set(d, 6.9511679e-1f));
    return hn::MulAdd(p, f, hn::Set(d, 1.0f));
  };
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  const FloatVec p = polynomial(FloatVec{_mm512_reduce_ps(x.raw, _MM_FROUND_TO_NEG_INF)});
  const __mmask16 not_below = _mm512_cmp_ps_mask(x.raw, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
  return FloatVec{_mm512_maskz_scalef_ps(not_below, p.raw, x.raw)};
#else
  const FloatVec magic = hn::Set(d, 12582912.0f + 127.0f);
  const FloatVec below_half = hn::Set(d, 0.49999997f);  // so that a whole number is its own n
  const FloatVec shifted = hn::Add(hn::Sub(x, below_half), magic);
  const FloatVec p = polynomial(hn::Sub(x, hn::Sub(shifted, magic)));
  const Words w;
  const FloatVec power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(w, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0f)), hn::Mul(p, power));
#endif
}

enum class Store { kSet, kAdd, kScaleAndAdd };

// C[m][n] ← (0 | C | scale[m]·C)[m][n] + Σ_k A[m][k] B[k][n] for M rows and N vectors of columns.
// kRowsNext: A's rows are adjacent (stride 1) and a_stride is the step in k; otherwise a_stride is the step in m, k
// adjacent.
template <int M, int N, Store kStore, bool kRowsNext>
HWY_INLINE void Micro(const float* HWY_RESTRICT a, ptrdiff_t a_stride, const float* HWY_RESTRICT b, ptrdiff_t b_stride,
                      int depth, float* HWY_RESTRICT c, ptrdiff_t c_stride, const float* HWY_RESTRICT scale) {
  const Floats d;
  FloatVec sums[M][N];
  HWY_UNROLL(8)
  for (int m = 0; m < M; ++m) {
    HWY_UNROLL(2)
    for (int n = 0; n < N; ++n) {
      if constexpr (kStore == Store::kSet) {
        sums[m][n] = hn::Zero(d);
      } else if constexpr (kStore == Store::kAdd) {
        sums[m][n] = hn::Load(d, c + m * c_stride + n * kLanes);
      } else {
        sums[m][n] = hn::Mul(hn::Set(d, scale[m]), hn::Load(d, c + m * c_stride + n * kLanes));
      }
    }
  }
  for (int k = 0; k < depth; ++k) {
    FloatVec columns[N];
    HWY_UNROLL(2)
    for (int n = 0; n < N; ++n) columns[n] = hn::Load(d, b + n * kLanes);
    HWY_UNROLL(8)
    for (int m = 0; m < M; ++m) {
      const FloatVec value = hn::Set(d, kRowsNext ? a[m] : a[m * a_stride]);
      HWY_UNROLL(2)
      for (int n = 0; n < N; ++n) sums[m][n] = hn::MulAdd(value, columns[n], sums[m][n]);
    }
    a += kRowsNext ? a_stride : 1;
    b += b_stride;
  }
  HWY_UNROLL(8)
  for (int m = 0; m < M; ++m) {
    HWY_UNROLL(2)
    for (int n = 0; n < N; ++n) hn::Store(sums[m][n], d, c + m * c_stride + n * kLanes);
  }
}

struct Matrix {
  float* data;
  ptrdiff_t stride;
};
struct ConstMatrix {
  const float* data;
  ptrdiff_t stride;
};

// The remaining rows: M counts down at compile time to the number wanted.
template <int M, int N, Store kStore, bool kRowsNext>
HWY_INLINE void MicroTail(int rows, const float* a, ptrdiff_t a_stride, const float* b, ptrdiff_t b_stride, int depth,
                          float* c, ptrdiff_t c_stride, const float* scale) {
  if constexpr (M > 0) {
    if (rows == M) {
      Micro<M, N, kStore, kRowsNext>(a, a_stride, b, b_stride, depth, c, c_stride, scale);
    } else {
      MicroTail<M - 1, N, kStore, kRowsNext>(rows, a, a_stride, b, b_stride, depth, c, c_stride, scale);
    }
  }
}

template <int N, Store kStore, bool kRowsNext>
HWY_NOINLINE void MultiplyColumns(ConstMatrix a, ConstMatrix b, Matrix c, int rows, int depth, const float* scale) {
  int m = 0;
  for (; m + kMicroRows <= rows; m += kMicroRows) {
    Micro<kMicroRows, N, kStore, kRowsNext>(a.data + (kRowsNext ? m : m * a.stride), a.stride, b.data, b.stride, depth,
                                            c.data + m * c.stride, c.stride, scale + m);
  }
  if (m < rows) {
    MicroTail<kMicroRows - 1, N, kStore, kRowsNext>(rows - m, a.data + (kRowsNext ? m : m * a.stride), a.stride, b.data,
                                                    b.stride, depth, c.data + m * c.stride, c.stride, scale + m);
  }
}

// C ← (0 | C | diag(scale)·C) + A·B; columns is a multiple of kLanes. See Micro for kRowsNext.
template <Store kStore, bool kRowsNext>
HWY_INLINE void Multiply(ConstMatrix a, ConstMatrix b, Matrix c, int rows, int columns, int depth,
                         const float* scale = nullptr) {
  int n = 0;
  for (; n + 2 * kLanes <= columns; n += 2 * kLanes) {
    MultiplyColumns<2, kStore, kRowsNext>(a, {b.data + n, b.stride}, {c.data + n, c.stride}, rows, depth, scale);
  }
  if (n < columns)
    MultiplyColumns<1, kStore, kRowsNext>(a, {b.data + n, b.stride}, {c.data + n, c.stride}, rows, depth, scale);
}

// Rows that lie far apart, in an order only the plan knows, are asked for this many rows before they are needed: about
// what memory takes to answer.
inline constexpr int kRowsAhead = 8;
template <class T>
HWY_INLINE void PrefetchRow(const T* row, int count) {
  constexpr int kLine = 64 / sizeof(T);
  for (int k = 0; k < count; k += kLine) hwy::Prefetch(row + k);
}

// Σ a[k] b[k]; both aligned, zeros up to `padded`.
HWY_INLINE float Dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int padded) {
  const Floats d;
  FloatVec sum = hn::Zero(d);
  for (int k = 0; k < padded; k += kLanes) sum = hn::MulAdd(hn::Load(d, a + k), hn::Load(d, b + k), sum);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// row *= 1/√(Σ row² + epsilon) for rows of `padded` numbers, aligned, zeros at the end; writes what multiplied each.
inline void NormalizeRows(float* HWY_RESTRICT rows, int64_t count, int padded, float epsilon,
                          float* HWY_RESTRICT scales) {
  const Floats d;
  for (int64_t i = 0; i < count; ++i, rows += padded) {
    const float scale = 1.0f / std::sqrt(Dot(rows, rows, padded) + epsilon);
    scales[i] = scale;
    const FloatVec factor = hn::Set(d, scale);
    for (int k = 0; k < padded; k += kLanes) hn::Store(hn::Mul(factor, hn::Load(d, rows + k)), d, rows + k);
  }
}

// to += scale · from; `from` is aligned.
HWY_INLINE void AddScaled(const float* HWY_RESTRICT from, float scale, int count, float* HWY_RESTRICT to) {
  const Floats d;
  const FloatVec factor = hn::Set(d, scale);
  int k = 0;
  for (; k + kLanes <= count; k += kLanes)
    hn::StoreU(hn::MulAdd(factor, hn::Load(d, from + k), hn::LoadU(d, to + k)), d, to + k);
  for (; k < count; ++k) to[k] += scale * from[k];
}

// to = scale · from; `from` is aligned, and may be `to`.
HWY_INLINE void CopyScaled(const float* from, float scale, int count, float* to) {
  const Floats d;
  const FloatVec factor = hn::Set(d, scale);
  int k = 0;
  for (; k + kLanes <= count; k += kLanes) hn::StoreU(hn::Mul(factor, hn::Load(d, from + k)), d, to + k);
  for (; k < count; ++k) to[k] = scale * from[k];
}

// rows[r] −= vector, of `width` numbers, a multiple of 16; rows are aligned, [count][stride].
inline void TakeOffRows(const float* HWY_RESTRICT vector, int count, int width, int stride, float* HWY_RESTRICT rows) {
  const Floats d;
  for (int r = 0; r < count; ++r, rows += stride) {
    for (int k = 0; k < width; k += kLanes)
      hn::Store(hn::Sub(hn::Load(d, rows + k), hn::LoadU(d, vector + k)), d, rows + k);
  }
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
// Calls store(c, column c) for the columns of a block of 16 × 16 words.
template <class Store>
HWY_INLINE void ForEachColumn(const void* from_rows, ptrdiff_t stride, const Store& store) {
  const auto* from = static_cast<const uint32_t*>(from_rows);
  __m512i quarters[4][4];  // [i][j]: of rows 4i …, columns j, 4 + j, 8 + j, 12 + j, one in each 128 bits
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const uint32_t* row = from + 4 * i * stride;
    const __m512i r0 = _mm512_loadu_si512(row), r1 = _mm512_loadu_si512(row + stride);
    const __m512i r2 = _mm512_loadu_si512(row + 2 * stride), r3 = _mm512_loadu_si512(row + 3 * stride);
    const __m512i a = _mm512_unpacklo_epi32(r0, r1), b = _mm512_unpackhi_epi32(r0, r1);
    const __m512i c = _mm512_unpacklo_epi32(r2, r3), e = _mm512_unpackhi_epi32(r2, r3);
    quarters[i][0] = _mm512_unpacklo_epi64(a, c);
    quarters[i][1] = _mm512_unpackhi_epi64(a, c);
    quarters[i][2] = _mm512_unpacklo_epi64(b, e);
    quarters[i][3] = _mm512_unpackhi_epi64(b, e);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    constexpr int kEven = 0x88, kOdd = 0xDD;
    const __m512i a = _mm512_shuffle_i32x4(quarters[0][j], quarters[1][j], kEven);
    const __m512i b = _mm512_shuffle_i32x4(quarters[2][j], quarters[3][j], kEven);
    const __m512i c = _mm512_shuffle_i32x4(quarters[0][j], quarters[1][j], kOdd);
    const __m512i e = _mm512_shuffle_i32x4(quarters[2][j], quarters[3][j], kOdd);
    store(j, _mm512_shuffle_i32x4(a, b, kEven));
    store(4 + j, _mm512_shuffle_i32x4(c, e, kEven));
    store(8 + j, _mm512_shuffle_i32x4(a, b, kOdd));
    store(12 + j, _mm512_shuffle_i32x4(c, e, kOdd));
  }
}
#endif

// to[k][r] ← scale · rows[r][k] for r < count; zeros up to `padded`. `rows` is [count][stride].
inline void TransposeScaled(const float* HWY_RESTRICT rows, ptrdiff_t stride, int count, int depth, int padded,
                            float scale, float* HWY_RESTRICT to) {
  int r = 0;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  const __m512 all = _mm512_set1_ps(scale);
  for (; r + 16 <= count && depth % 16 == 0; r += 16) {
    for (int k = 0; k < depth; k += 16) {
      ForEachColumn(rows + r * stride + k, stride, [&](int c, __m512i column) {
        _mm512_storeu_ps(to + (k + c) * padded + r, _mm512_mul_ps(all, _mm512_castsi512_ps(column)));
      });
    }
  }
#endif
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> four;
  const auto factor = hn::Set(four, scale);
  for (; r + 4 <= count; r += 4) {
    const float* from = rows + r * stride;
    int k = 0;
    for (; k + 4 <= depth; k += 4) {
      const auto r0 = hn::Mul(factor, hn::LoadU(four, from + k)),
                 r1 = hn::Mul(factor, hn::LoadU(four, from + stride + k));
      const auto r2 = hn::Mul(factor, hn::LoadU(four, from + 2 * stride + k));
      const auto r3 = hn::Mul(factor, hn::LoadU(four, from + 3 * stride + k));
      const auto a = hn::InterleaveLower(four, r0, r2), b = hn::InterleaveLower(four, r1, r3);
      const auto e = hn::InterleaveUpper(four, r0, r2), f = hn::InterleaveUpper(four, r1, r3);
      hn::StoreU(hn::InterleaveLower(four, a, b), four, to + (k + 0) * padded + r);
      hn::StoreU(hn::InterleaveUpper(four, a, b), four, to + (k + 1) * padded + r);
      hn::StoreU(hn::InterleaveLower(four, e, f), four, to + (k + 2) * padded + r);
      hn::StoreU(hn::InterleaveUpper(four, e, f), four, to + (k + 3) * padded + r);
    }
    for (; k < depth; ++k) {
      for (int i = 0; i < 4; ++i) to[k * padded + r + i] = scale * from[i * stride + k];
    }
  }
#endif
  for (; r < count; ++r) {
    for (int k = 0; k < depth; ++k) to[k * padded + r] = scale * rows[r * stride + k];
  }
  for (; r < padded; ++r) {
    for (int k = 0; k < depth; ++k) to[k * padded + r] = 0;
  }
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
