// Products in AMX tiles, and what gives their factors the tiles' layouts. M: AmxInstructions or AmxModel.
//
// Three layouts of numbers in bfloat16, all of them 32-bit words that hold two:
//   rows    [r][k]             as they lie: the first factor, with depth along its rows
//   pairs   [k / 2][n]         of each two rows: the second factor, with depth down its columns
//   panels  [c / 32][k][32]    turned round, 32 rows at a time: the first factor, with depth along what were rows
#if defined(LSHFORMER_AMX_PRODUCTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LSHFORMER_AMX_PRODUCTS_INL
#undef LSHFORMER_AMX_PRODUCTS_INL
#else
#define LSHFORMER_AMX_PRODUCTS_INL
#endif

#include <cstring>
#include <type_traits>

#include "base/bfloat16.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/cpu/attention/bfloat16.h"
#include "kernels/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {

// Two numbers that M multiplies, or with as many more the two parts of two numbers (Operands::kTwoParts).
template <class M, int kPartsOfNumber = 1>
struct AmxPair {
  static constexpr int kParts = kPartsOfNumber;
  BFloat16Pair numbers;
};
template <class T>
inline constexpr bool kInAmxTiles = false;
template <class M, int kParts>
inline constexpr bool kInAmxTiles<AmxPair<M, kParts>> = true;
template <class T>
struct MultiplierOfPair;
template <class M, int kParts>
struct MultiplierOfPair<AmxPair<M, kParts>> {
  using Type = M;
};
template <class T>
using MultiplierOf = typename MultiplierOfPair<T>::Type;

// The tiles that products of T need configured, nothing where they need none.
template <class T>
struct AmxTilesOf {};
template <class M, int kParts>
struct AmxTilesOf<AmxPair<M, kParts>> : ConfiguredAmxTiles<M> {};

using Halves = hn::Rebind<uint16_t, Words>;
using WordVec = hn::Vec<Words>;

// x in bfloat16, to nearest even, in the upper halves; what the lower ones hold is to be cleared. A NaN stays one.
HWY_INLINE WordVec RoundedAbove(FloatVec x) {
  const Words w;
  const auto bits = hn::BitCast(w, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(w, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(w, 0x7FFF)));
  return hn::IfThenElse(hn::RebindMask(w, hn::IsNaN(x)), hn::Or(bits, hn::Set(w, 0x400000)), rounded);
}

// What rounding leaves of x.
HWY_INLINE FloatVec RestOf(FloatVec x) {
  return hn::Sub(x, hn::BitCast(Floats(), hn::And(RoundedAbove(x), hn::Set(Words(), 0xFFFF0000))));
}

template <class M>
inline constexpr bool kRoundsInVectors = !std::is_same_v<M, AmxModel>;

// (low[i], high[i]), rounded. Processors with tiles have an instruction; here it is written out, since Highway's target
// does without AVX512_BF16. It takes numbers below 2⁻¹²⁶ for 0, as the tiles do.
template <class M>
HWY_INLINE WordVec RoundedPairs(FloatVec low, FloatVec high) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  if constexpr (kRoundsInVectors<M>) {
    alignas(64) static constexpr uint16_t kNeighbours[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                             21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                             11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i both;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(low.raw), "v"(high.raw));
    return WordVec{_mm512_permutexvar_epi16(_mm512_load_si512(kNeighbours), both)};
  }
#endif
  const Words w;
  return hn::Or(hn::And(RoundedAbove(high), hn::Set(w, 0xFFFF0000)), hn::ShiftRight<16>(RoundedAbove(low)));
}

// The same of each part of two numbers, `part` words from the first to the second.
template <class T>
HWY_INLINE void StoreRoundedPairs(FloatVec low, FloatVec high, BFloat16Pair* to, ptrdiff_t part) {
  const auto rounded = RoundedPairs<MultiplierOf<T>>(low, high);
  hn::Store(rounded, Words(), to);
  if constexpr (T::kParts == 2) {
    const Floats d;
    const auto low_rest = hn::Sub(low, hn::BitCast(d, hn::ShiftLeft<16>(rounded)));
    const auto high_rest = hn::Sub(high, hn::BitCast(d, hn::And(rounded, hn::Set(Words(), 0xFFFF0000))));
    hn::Store(RoundedPairs<MultiplierOf<T>>(low_rest, high_rest), Words(), to + part);
  }
}

HWY_INLINE uint16_t* NumbersOf(BFloat16Pair* pairs) { return reinterpret_cast<uint16_t*>(pairs); }

// Stores kLanes numbers, rounded, one after another.
template <class M>
HWY_INLINE void StoreRounded(FloatVec x, uint16_t* to) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  if constexpr (kRoundsInVectors<M>) {
    __m256i halves;
    asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(x.raw));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), halves);
    return;
  }
#endif
  hn::StoreU(hn::TruncateTo(Halves(), hn::ShiftRight<16>(RoundedAbove(x))), Halves(), to);
}

// The same of each part, `part` numbers from the first to the second.
template <class T>
HWY_INLINE void StoreRoundedParts(FloatVec x, uint16_t* to, ptrdiff_t part) {
  StoreRounded<MultiplierOf<T>>(x, to);
  if constexpr (T::kParts == 2) StoreRounded<MultiplierOf<T>>(RestOf(x), to + part);
}

// A row as linear layers round theirs (kernels/low_precision.h): any NaN becomes the positive quiet one. `from` may
// be read to the end of its last vector.
HWY_INLINE void StoreRoundedRow(const float* HWY_RESTRICT from, int count, BFloat16* HWY_RESTRICT to) {
  const Words w;
  auto* halves = reinterpret_cast<uint16_t*>(to);
  for (int k = 0; k < count; k += kLanes) {
    const auto x = hn::Load(Floats(), from + k);
    const auto rounded = hn::IfThenElse(hn::RebindMask(w, hn::IsNaN(x)), hn::Set(w, 0x7FC00000), RoundedAbove(x));
    const auto upper = hn::TruncateTo(Halves(), hn::ShiftRight<16>(rounded));
    uint16_t last[kLanes];
    const bool whole = k + kLanes <= count;
    hn::StoreU(upper, Halves(), whole ? halves + k : last);
    if (!whole) std::memcpy(halves + k, last, sizeof(uint16_t) * (count - k));
  }
}

// Numbers in place; true if all are finite once rounded. count: a multiple of 16.
HWY_INLINE bool RoundNumbers(float* numbers, int64_t count) {
  const Floats d;
  const Words w;
  const auto exponent = hn::Set(w, 0x7F800000);
  auto infinite = hn::Zero(w);  // bits of those of which the exponent is full
  for (int64_t i = 0; i < count; i += kLanes) {
    const auto rounded = hn::And(RoundedAbove(hn::Load(d, numbers + i)), hn::Set(w, 0xFFFF0000));
    infinite = hn::Or(infinite, hn::VecFromMask(w, hn::Eq(hn::And(rounded, exponent), exponent)));
    hn::Store(hn::BitCast(d, rounded), d, numbers + i);
  }
  return hn::AllTrue(w, hn::Eq(infinite, hn::Zero(w)));
}

// What rounding leaves of numbers. count: a multiple of 16.
HWY_INLINE void Rests(const float* HWY_RESTRICT numbers, int64_t count, float* HWY_RESTRICT rests) {
  for (int64_t i = 0; i < count; i += kLanes) hn::Store(RestOf(hn::Load(Floats(), numbers + i)), Floats(), rests + i);
}

// Rows: of floats, one after another. count: a multiple of 16.
template <class M>
void RowsOfPairs(const float* HWY_RESTRICT from, int64_t count, BFloat16Pair* HWY_RESTRICT to) {
  for (int64_t i = 0; i < count; i += kLanes) StoreRounded<M>(hn::Load(Floats(), from + i), NumbersOf(to) + i);
}

// Pairs: to[r / 2][c] of from [rows][stride], rows a multiple of 2, stride of 16.
template <class M>
void PairsDown(const float* HWY_RESTRICT from, int rows, int stride, BFloat16Pair* HWY_RESTRICT to) {
  const Floats d;
  for (int r = 0; r < rows; r += 2, from += 2 * stride, to += stride) {
    for (int c = 0; c < stride; c += kLanes)
      hn::Store(RoundedPairs<M>(hn::Load(d, from + c), hn::Load(d, from + stride + c)), Words(), to + c);
  }
}

// to[c][r] ← from[r][c], a block of 16 × 16.
HWY_INLINE void TransposeBlock(const uint32_t* HWY_RESTRICT from, ptrdiff_t stride, uint32_t* HWY_RESTRICT to,
                               ptrdiff_t to_stride) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  ForEachColumn(from, stride, [&](int c, __m512i column) { _mm512_storeu_si512(to + c * to_stride, column); });
#else
  for (int c = 0; c < 16; ++c) {
    for (int r = 0; r < 16; ++r) std::memcpy(to + c * to_stride + r, from + r * stride + c, sizeof(uint32_t));
  }
#endif
}

// to[c][r] ← from[r][c]; rows and columns multiples of 16. T: any of 32 bits.
template <class T>
void TransposeWords(const T* from, ptrdiff_t stride, int rows, int columns, T* to, ptrdiff_t to_stride) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  for (int r = 0; r < rows; r += 16) {
    for (int c = 0; c < columns; c += 16) {
      TransposeBlock(reinterpret_cast<const uint32_t*>(from + r * stride + c), stride,
                     reinterpret_cast<uint32_t*>(to + c * to_stride + r), to_stride);
    }
  }
}

// C[m][n] (+)= Σ_k A[m][k] B[k][n] in whole tiles. A is in rows or panels, B in pairs.
struct AmxProduct {
  const void* a;
  ptrdiff_t a_row, a_depth;  // bytes from one row to the next, and from 32 numbers of depth to the next
  const BFloat16Pair* b;     // [depth / 2][b_stride]
  ptrdiff_t b_stride;        // words
  float* c;
  ptrdiff_t c_stride;
  int rows, columns, depth;          // multiples of 32
  ptrdiff_t a_part = 0, b_part = 0;  // of two parts: bytes and words from the first to the second
};

// The factors of 32 × 32 sums, 32 of the depth at a time.
struct AmxFactors {
  const uint8_t* a;
  ptrdiff_t a_row, a_depth;
  const BFloat16Pair* b;
  ptrdiff_t b_stride;
};

// Tiles 0 … 3 += a · b; four more tiles hold two of each factor. change(T): before tile T is used.
template <class M, class Change>
HWY_INLINE void AddToFourAmxTiles(AmxFactors& at, const Change& change) {
  const ptrdiff_t b_bytes = 4 * at.b_stride;
  M::template Load<4>(at.a, at.a_row);
  M::template Load<6>(at.b, b_bytes);
  change(std::integral_constant<int, 0>());
  M::template MultiplyBFloat16<0, 4, 6>();
  M::template Load<7>(at.b + kAmxTileSide, b_bytes);
  change(std::integral_constant<int, 1>());
  M::template MultiplyBFloat16<1, 4, 7>();
  M::template Load<5>(at.a + kAmxTileSide * at.a_row, at.a_row);
  change(std::integral_constant<int, 2>());
  M::template MultiplyBFloat16<2, 5, 6>();
  change(std::integral_constant<int, 3>());
  M::template MultiplyBFloat16<3, 5, 7>();
  at.a += at.a_depth;
  at.b += kAmxTileSide * at.b_stride;
}

// Tile T holds one of four quarters of 32 × 32 sums, which begins so far from them.
template <int T>
constexpr ptrdiff_t QuarterOffset(ptrdiff_t stride) {
  return T / 2 * kAmxTileSide * stride + T % 2 * kAmxTileSide;
}

template <class M, int T>
HWY_INLINE void StoreQuarter(float* c, ptrdiff_t stride) {
  M::template Store<T>(c + QuarterOffset<T>(stride), 4 * stride);
}

// Sums at c, left in tiles 0 … 3. Those at `before` are stored meanwhile (unless it is nullptr), each just before its
// tile is needed: products would wait if all were stored at once. Small products first.
template <class M, bool kAdd, int kParts>
HWY_INLINE void MultiplyFourAmxTiles(const AmxProduct& p, const uint8_t* a, const BFloat16Pair* b, const float* c,
                                     float* before) {
  // Not of p any more: to the compiler every load of a tile may have changed that.
  const ptrdiff_t stride = p.c_stride, a_part = p.a_part, b_part = p.b_part;
  const int depth = p.depth;
  AmxFactors at{a, p.a_row, p.a_depth, b, p.b_stride};
  const auto factors_of = [&](int part, int other) {
    at.a = a + part * a_part;
    at.b = b + other * b_part;
  };
  factors_of(kParts - 1, 0);
  AddToFourAmxTiles<M>(at, [&](auto tile) {
    constexpr int kTile = tile;
    if (before != nullptr) StoreQuarter<M, kTile>(before, stride);
    if constexpr (kAdd) {
      M::template Load<kTile>(c + QuarterOffset<kTile>(stride), 4 * stride);
    } else {
      M::template Zero<kTile>();
    }
  });
  int begin = kAmxTileRowNumbers;
  // The parts that together are of order `sum`.
  for (int sum = kParts - 1; sum >= 0; --sum) {
    for (int part = sum; part >= 0; --part, begin = 0) {
      if (begin == 0) factors_of(part, sum - part);
      for (int k = begin; k < depth; k += kAmxTileRowNumbers) AddToFourAmxTiles<M>(at, [](auto) {});
    }
  }
}

template <class M, bool kAdd, int kParts = 1>
void MultiplyAmxTiles(const AmxProduct& p) {
  float* before = nullptr;
  for (int m = 0; m < p.rows; m += 2 * kAmxTileSide) {
    const uint8_t* a = static_cast<const uint8_t*>(p.a) + m * p.a_row;
    for (int n = 0; n < p.columns; n += 2 * kAmxTileSide) {
      float* c = p.c + m * p.c_stride + n;
      MultiplyFourAmxTiles<M, kAdd, kParts>(p, a, p.b + n, c, before);
      before = c;
    }
  }
  if (before == nullptr) return;
  StoreQuarter<M, 0>(before, p.c_stride);
  StoreQuarter<M, 1>(before, p.c_stride);
  StoreQuarter<M, 2>(before, p.c_stride);
  StoreQuarter<M, 3>(before, p.c_stride);
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
