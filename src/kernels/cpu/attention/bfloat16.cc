#include "kernels/cpu/attention/bfloat16.h"

#include <hwy/base.h>

#include <cstring>

#if HWY_ARCH_X86
#include <immintrin.h>

#if HWY_COMPILER_GCC_ACTUAL
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 at intrinsics (its bug 105593)
#endif

HWY_PUSH_ATTRIBUTES("avx,avx2,fma,avx512f,avx512vl,avx512dq,avx512bw,avx512bf16")
namespace lshformer {
namespace {

constexpr int kLanes = 16;
// Rows of C in registers beside two vectors of columns, as in the float32 kernel: 16 sums cover the latency.
constexpr int kMicroRows = 8;

enum class Store { kSet, kAdd, kScaleAndAdd };

// 16 numbers, rounded.
inline __m256i Round(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }
inline __m512i Widen(__m256i x) { return _mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16); }
// (low[i], high[i]) of bfloat16 numbers.
inline __m512i Pairs(__m256i low, __m256i high) { return _mm512_or_si512(_mm512_cvtepu16_epi32(low), Widen(high)); }
inline __mmask16 IsFinite(__m512i x) {
  const __m512i exponent = _mm512_set1_epi32(0x7F800000);
  return _mm512_cmpneq_epi32_mask(_mm512_and_si512(x, exponent), exponent);
}
inline __m256i LoadHalf(const BFloat16Pair* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
inline void StoreHalf(__m256i x, BFloat16Pair* to) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x); }
inline __m512 Multiply(__m512 sum, __m512i a, __m512i b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }

// M rows and N vectors of columns of C. kRowsNext: A's rows are adjacent, a_step leads to the next pair; otherwise its
// pairs are, and a_step leads to the next row.
template <int M, int N, Store kStore, bool kRowsNext>
inline __attribute__((always_inline)) void Micro(const BFloat16Pair* a, ptrdiff_t a_step, const BFloat16Pair* b,
                                                 const PairedProduct& p, float* c, const float* scale) {
  __m512 sums[M][N];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) {
      sums[m][n] = kStore == Store::kSet ? _mm512_setzero_ps() : _mm512_load_ps(c + m * p.c_stride + n * kLanes);
      if (kStore == Store::kScaleAndAdd) sums[m][n] = _mm512_mul_ps(_mm512_set1_ps(scale[m]), sums[m][n]);
    }
  }
  for (int k = 0; k < p.pairs; ++k) {
    __m512i columns[N];
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) columns[n] = _mm512_load_si512(b + n * kLanes);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const __m512i value = _mm512_set1_epi32(static_cast<int>(a[kRowsNext ? m : m * a_step]));
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) sums[m][n] = Multiply(sums[m][n], value, columns[n]);
    }
    a += kRowsNext ? a_step : 1;
    b += p.b_stride;
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) {
      if (kStore == Store::kSet) sums[m][n] = _mm512_mul_ps(_mm512_set1_ps(*scale), sums[m][n]);
      _mm512_store_ps(c + m * p.c_stride + n * kLanes, sums[m][n]);
    }
  }
}

// The remaining rows: M counts down at compile time to the number wanted.
template <int M, int N, Store kStore, bool kRowsNext>
inline void MicroTail(int rows, const BFloat16Pair* a, ptrdiff_t a_step, const BFloat16Pair* b, const PairedProduct& p,
                      float* c, const float* scale) {
  if constexpr (M > 0) {
    if (rows == M) {
      Micro<M, N, kStore, kRowsNext>(a, a_step, b, p, c, scale);
    } else {
      MicroTail<M - 1, N, kStore, kRowsNext>(rows, a, a_step, b, p, c, scale);
    }
  }
}

// N vectors of columns from column n on. scale: of each row, or the factor of all (kSet).
template <int N, Store kStore, bool kRowsNext>
void MultiplyColumns(const PairedProduct& p, int n, const float* scale) {
  const ptrdiff_t step = kRowsNext ? p.a_pair : p.a_row;
  const auto at = [&](int m) { return p.a + (kRowsNext ? m : m * step); };
  const auto scale_of = [&](int m) { return kStore == Store::kScaleAndAdd ? scale + m : scale; };
  int m = 0;
  for (; m + kMicroRows <= p.rows; m += kMicroRows)
    Micro<kMicroRows, N, kStore, kRowsNext>(at(m), step, p.b + n, p, p.c + m * p.c_stride + n, scale_of(m));
  if (m < p.rows) {
    MicroTail<kMicroRows - 1, N, kStore, kRowsNext>(p.rows - m, at(m), step, p.b + n, p, p.c + m * p.c_stride + n,
                                                    scale_of(m));
  }
}

template <Store kStore, bool kRowsNext>
void Multiply(const PairedProduct& p, const float* scale) {
  int n = 0;
  for (; n + 2 * kLanes <= p.columns; n += 2 * kLanes) MultiplyColumns<2, kStore, kRowsNext>(p, n, scale);
  if (n < p.columns) MultiplyColumns<1, kStore, kRowsNext>(p, n, scale);
}

}  // namespace

bool RoundToPairs(const float* from, int64_t count, BFloat16Pair* to) {
  __mmask16 finite = 0xFFFF;
  for (int64_t i = 0; i < count; i += kLanes) {
    const __m256i rounded = Round(_mm512_loadu_ps(from + i));
    finite &= IsFinite(Widen(rounded));
    StoreHalf(rounded, to + i / 2);
  }
  return finite == 0xFFFF;
}

bool RoundInPlace(float* numbers, int64_t count) {
  __mmask16 finite = 0xFFFF;
  for (int64_t i = 0; i < count; i += kLanes) {
    const __m512i rounded = Widen(Round(_mm512_loadu_ps(numbers + i)));
    finite &= IsFinite(rounded);
    _mm512_storeu_si512(numbers + i, rounded);
  }
  return finite == 0xFFFF;
}

void PairAlongRows(const float* from, int rows, int stride, int columns, BFloat16Pair* to) {
  for (int r = 0; r < rows; ++r, from += stride, to += stride / 2) {
    for (int c = 0; c < stride; c += kLanes) {
      const int kept = columns - c;
      const auto mask = static_cast<__mmask16>(kept >= kLanes ? 0xFFFF : kept <= 0 ? 0 : (1 << kept) - 1);
      StoreHalf(Round(_mm512_maskz_load_ps(mask, from + c)), to + c / 2);
    }
  }
}

void PairDownColumns(const float* from, int rows, int stride, BFloat16Pair* to) {
  for (int r = 0; r < rows; r += 2, from += 2 * stride, to += stride) {
    for (int c = 0; c < stride; c += kLanes) {
      const __m256i first = Round(_mm512_load_ps(from + c));
      const __m256i second = r + 1 < rows ? Round(_mm512_load_ps(from + stride + c)) : _mm256_setzero_si256();
      _mm512_store_si512(to + c, Pairs(first, second));
    }
  }
}

void PairDownColumns(const BFloat16Pair* from, int rows, int stride, BFloat16Pair* to) {
  for (int r = 0; r < rows; r += 2, from += stride, to += stride) {
    for (int c = 0; c < stride; c += kLanes) {
      const __m256i first = LoadHalf(from + c / 2);
      const __m256i second = r + 1 < rows ? LoadHalf(from + (stride + c) / 2) : _mm256_setzero_si256();
      _mm512_store_si512(to + c, Pairs(first, second));
    }
  }
}

void TransposePairs(const float* from, int rows, int stride, int padded, BFloat16Pair* to) {
  // Four rows of eight numbers, that is of four pairs, at a time. Rows beyond the last are zeros.
  const auto load = [&](int r, int c) {
    if (r >= rows) return _mm_setzero_ps();
    return _mm_castsi128_ps((__m128i)_mm256_cvtneps_pbh(_mm256_load_ps(from + r * stride + c)));
  };
  for (int r = 0; r < padded; r += 4) {
    for (int c = 0; c < stride; c += 8) {
      __m128 r0 = load(r, c), r1 = load(r + 1, c), r2 = load(r + 2, c), r3 = load(r + 3, c);
      _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
      float* at = reinterpret_cast<float*>(to + c / 2 * padded + r);
      _mm_store_ps(at, r0);
      _mm_store_ps(at + padded, r1);
      _mm_store_ps(at + 2 * padded, r2);
      _mm_store_ps(at + 3 * padded, r3);
    }
  }
}

void SetProduct(const PairedProduct& product, float factor) { Multiply<Store::kSet, false>(product, &factor); }

void AddProduct(const PairedProduct& product) {
  product.a_pair == 1 ? Multiply<Store::kAdd, false>(product, nullptr) : Multiply<Store::kAdd, true>(product, nullptr);
}

void ScaleAndAddProduct(const PairedProduct& product, const float* scale) {
  Multiply<Store::kScaleAndAdd, true>(product, scale);
}

}  // namespace lshformer
HWY_POP_ATTRIBUTES

namespace lshformer {
bool HasBFloat16Products() { return __builtin_cpu_supports("avx512bf16") != 0; }
bool BFloat16ProductsPay() { return HasBFloat16Products() && __builtin_cpu_is("amd") != 0; }
}  // namespace lshformer
#else
namespace lshformer {
bool HasBFloat16Products() { return false; }
bool BFloat16ProductsPay() { return false; }
}  // namespace lshformer
#endif
