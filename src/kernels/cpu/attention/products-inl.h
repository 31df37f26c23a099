// The products of forward and backward, which are written once for both kinds of operands (Operands): T is float, or
// BFloat16Pair. Where T is an AmxPair, they go through AMX tiles (amx_blocks-inl.h).
//
//   scores[c][r] = Σ_k columns[c][k] rows[r][k]     sums[r] += Σ_c weights[c][r] columns[c]
//                                                   sums[c] += Σ_r weights[c][r] rows[r]
#if defined(LSHFORMER_PRODUCTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LSHFORMER_PRODUCTS_INL
#undef LSHFORMER_PRODUCTS_INL
#else
#define LSHFORMER_PRODUCTS_INL
#endif

#include <array>
#include <type_traits>

#include "kernels/cpu/attention/amx_products-inl.h"
#include "kernels/cpu/attention/bfloat16.h"
#include "kernels/cpu/attention/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {

template <class T>
inline constexpr bool kInPairs = std::is_same_v<T, BFloat16Pair>;

template <class M, class Body>
HWY_INLINE void WithParts(int parts, const Body& body) {
  if (parts == 2) {
    body(AmxPair<M, 2>());
  } else {
    body(AmxPair<M>());
  }
}

// Calls body(T()) with the T that the unit's operands are held in.
template <class Body>
HWY_INLINE void WithOperands(const UnitWork& work, const Body& body) {
  if (work.amx_tiles == AmxTiles::kModel) {
    WithParts<AmxModel>(Parts(work.operands), body);
    return;
  }
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  if (work.amx_tiles == AmxTiles::kInstructions) {
    WithParts<AmxInstructions>(Parts(work.operands), body);
    return;
  }
  if (work.operands == Operands::kBFloat16) {
    body(BFloat16Pair());
    return;
  }
#endif
  body(float());
}

// At most kTileRows rows that are not rounded yet, and of two parts what rounding leaves of them.
template <class T>
std::array<const float*, T::kParts> PartsOfRows(const float* rows, int64_t count) {
  if constexpr (T::kParts == 1) {
    return {rows};
  } else {
    auto* rests = ThreadWorkspace().Get<float>(Slot::kSecondParts, count);
    Rests(rows, count, rests);
    return {rows, rests};
  }
}

// Rows of a tile in the forms in which products take them.
template <class T>
struct RowFactors {
  float* rows = nullptr;  // [count][padded]; with pairs of one part, rounded
  // [head_dim][rows padded], times the scale that scores get; pairs: [parts][padded / 2][rows padded], without
  T* transposed = nullptr;
  // [parts][count / 2][padded]: neighbouring rows, zeros after them; made by PairRows
  BFloat16Pair* pairs = nullptr;
  float scale = 1;
  bool finite = true;
};

// less: taken off every row, or nullptr.
template <class T>
RowFactors<T> GatherRowFactors(const UnitInput& from, const UnitWork& work, const TileRows& rows, float scale,
                               const float* less, Slot row_slot, Slot transposed_slot) {
  const int padded = work.padded();
  Workspace& memory = ThreadWorkspace();
  RowFactors<T> factors;
  factors.scale = scale;
  factors.rows = memory.Get<float>(row_slot, int64_t{kTileRows} * padded);
  factors.finite = GatherRows(from, work, rows.positions, 0, rows.count, factors.rows);
  if (less) TakeOffRows(less, rows.count, RoundUp(work.head_dim(), kRowPadding), padded, factors.rows);
  if constexpr (kInAmxTiles<T>) {
    std::fill(factors.rows + rows.count * padded, factors.rows + rows.padded * padded, 0.0f);
    const int64_t numbers = int64_t{rows.padded} * padded;
    const auto parts = PartsOfRows<T>(factors.rows, numbers);
    if (T::kParts == 1) factors.finite = RoundNumbers(factors.rows, numbers) && factors.finite;
    auto* natural = memory.Get<BFloat16Pair>(Slot::kNaturalRows, int64_t{kTileRows} * padded / 2);
    factors.transposed = memory.Get<T>(transposed_slot, int64_t{kTileRows} * padded / 2 * T::kParts);
    for (int part = 0; part < T::kParts; ++part) {
      RowsOfPairs<MultiplierOf<T>>(parts[part], numbers, natural);
      TransposeWords(natural, padded / 2, rows.padded, padded / 2, &factors.transposed->numbers + part * numbers / 2,
                     rows.padded);
    }
  } else if constexpr (kInPairs<T>) {
    factors.transposed = memory.Get<T>(transposed_slot, int64_t{kTileRows} * padded / 2);
    factors.finite = RoundInPlace(factors.rows, int64_t{rows.count} * padded) && factors.finite;
    TransposePairs(factors.rows, rows.count, padded, rows.padded, factors.transposed);
  } else {
    factors.transposed = memory.Get<T>(transposed_slot, int64_t{kTileRows} * work.head_dim());
    TransposeScaled(factors.rows, padded, rows.count, work.head_dim(), rows.padded, scale, factors.transposed);
  }
  return factors;
}

// What AddWeightedRows needs beside.
template <class T>
void PairRows(const UnitWork& work, const TileRows& rows, Slot slot, RowFactors<T>& factors) {
  if constexpr (kInAmxTiles<T>) {
    const int padded = work.padded();
    const int64_t numbers = int64_t{rows.padded} * padded;
    factors.pairs = ThreadWorkspace().Get<BFloat16Pair>(slot, int64_t{kTileRows} * padded / 2 * T::kParts);
    const auto parts = PartsOfRows<T>(factors.rows, numbers);
    for (int part = 0; part < T::kParts; ++part)
      PairsDown<MultiplierOf<T>>(parts[part], rows.padded, padded, factors.pairs + part * numbers / 2);
  } else if constexpr (kInPairs<T>) {
    factors.pairs = ThreadWorkspace().Get<BFloat16Pair>(slot, int64_t{kTileRows} * work.padded() / 2);
    PairDownColumns(factors.rows, rows.count, work.padded(), factors.pairs);
  }
}

// scores[c][r] ← scale · Σ_k columns[c][k] rows[r][k]
template <class T>
void MultiplyScores(const UnitWork& work, const TileRows& rows, const RowFactors<T>& factors, const T* columns,
                    int count, float* scores) {
  const int padded = work.padded(), stride = rows.padded;
  if constexpr (kInPairs<T>) {
    SetProduct(
        {columns, padded / 2, 1, factors.transposed, stride, scores, stride, count, stride, (work.head_dim() + 1) / 2},
        factors.scale);
  } else {
    Multiply<Store::kSet, false>({columns, padded}, {factors.transposed, stride}, {scores, stride}, count, stride,
                                 work.head_dim());
  }
}

// The n-th number of a row and those after it.
HWY_INLINE FloatVec LoadNumbers(const float* row, int n) { return hn::Load(Floats(), row + n); }
HWY_INLINE FloatVec LoadNumbers(const BFloat16Pair* row, int n) {
  return LoadFloats(reinterpret_cast<const BFloat16*>(row) + n);
}
template <class M, int kParts>
HWY_INLINE FloatVec LoadNumbers(const AmxPair<M, kParts>* row, int n) {
  return LoadNumbers(&row->numbers, n);
}

// A product whose left factor may hold pairs that do not count (exact zeros), where the right factor is not finite:
// those zeros are left out instead of multiplied, 0 · NaN would carry one row's NaN into others. kRowsNext: see Micro.
template <Store kStore, bool kRowsNext, class T>
void MultiplyNonzero(ConstMatrix a, const T* b, ptrdiff_t b_stride, Matrix c, int rows, int columns, int depth,
                     const float* scale = nullptr) {
  static_assert(kStore != Store::kSet);
  const Floats d;
  for (int m = 0; m < rows; ++m) {
    for (int n = 0; n < columns; n += kLanes) {
      float* at = c.data + m * c.stride + n;
      FloatVec sum = hn::Load(d, at);
      if (kStore == Store::kScaleAndAdd) sum = hn::Mul(sum, hn::Set(d, scale[m]));
      for (int k = 0; k < depth; ++k) {
        const float factor = kRowsNext ? a.data[k * a.stride + m] : a.data[m * a.stride + k];
        if (factor != 0) sum = hn::MulAdd(hn::Set(d, factor), LoadNumbers(b + k * b_stride, n), sum);
      }
      hn::Store(sum, d, at);
    }
  }
}

// sums[r] ← (1 | rescale[r]) · sums[r] + Σ_c weights[c][r] columns[c]; weights: [count][rows padded].
template <Store kStore, class T>
void AddWeightedColumns(const UnitWork& work, const TileRows& rows, bool leave_out_zeros, const float* weights,
                        const T* columns, int count, float* sums, const float* rescale = nullptr) {
  const int padded = work.padded(), stride = rows.padded;
  if (leave_out_zeros) {
    MultiplyNonzero<kStore, true>({weights, stride}, columns, HeldRow<T>(padded), {sums, padded}, rows.count, padded,
                                  count, rescale);
  } else if constexpr (kInPairs<T>) {
    Workspace& memory = ThreadWorkspace();
    T* weight_pairs = memory.Get<T>(Slot::kWeightPairs, int64_t{kBlockColumns} * kTileRows / 2);
    T* column_pairs = memory.Get<T>(Slot::kColumnPairs, int64_t{kBlockColumns} * padded / 2);
    PairDownColumns(weights, count, stride, weight_pairs);
    PairDownColumns(columns, count, padded, column_pairs);
    const PairedProduct product{weight_pairs, 1,      stride,     column_pairs, padded,
                                sums,         padded, rows.count, padded,       (count + 1) / 2};
    kStore == Store::kAdd ? AddProduct(product) : ScaleAndAddProduct(product, rescale);
  } else {
    Multiply<kStore, true>({weights, stride}, {columns, padded}, {sums, padded}, rows.count, padded, count, rescale);
  }
}

// sums[c] += Σ_r weights[c][r] rows[r]
template <class T>
void AddWeightedRows(const UnitWork& work, const TileRows& rows, bool leave_out_zeros, const float* weights,
                     const RowFactors<T>& factors, int count, float* sums) {
  const int padded = work.padded(), stride = rows.padded;
  if (leave_out_zeros) {
    MultiplyNonzero<Store::kAdd, false>({weights, stride}, factors.rows, padded, {sums, padded}, count, padded,
                                        rows.count);
  } else if constexpr (kInPairs<T>) {
    T* weight_pairs = ThreadWorkspace().Get<T>(Slot::kWeightPairs, int64_t{kBlockColumns} * kTileRows / 2);
    PairAlongRows(weights, count, stride, rows.count, weight_pairs);
    AddProduct({weight_pairs, stride / 2, 1, factors.pairs, padded, sums, padded, count, padded, (rows.count + 1) / 2});
  } else {
    Multiply<Store::kAdd, false>({weights, stride}, {factors.rows, padded}, {sums, padded}, count, padded, rows.count);
  }
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
