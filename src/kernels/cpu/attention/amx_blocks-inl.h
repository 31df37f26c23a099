// Blocks of the executor whose products go through AMX tiles: what forward and backward share.
//
// Scores lie transposed here too, [columns][rows]. So the scores' first factor is the columns in rows, their second the
// tile's rows in pairs, turned round once; sums over columns come out turned round, outᵀ = Vᵀ·P and dQᵀ = Kᵀ·dS, with
// Vᵀ and Kᵀ in panels; sums over rows, dV = P·dO and dK = dS·Q, take probabilities as they lie. A block begins at a
// panel. Of its columns those outside of the plan's segment have the score kMasked: zeros in one factor, and where the
// other may hold no finite number, the product is done without tiles, one pair that counts after another.
#if defined(LSHFORMER_AMX_BLOCKS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LSHFORMER_AMX_BLOCKS_INL
#undef LSHFORMER_AMX_BLOCKS_INL
#else
#define LSHFORMER_AMX_BLOCKS_INL
#endif

#include <algorithm>

#include "kernels/cpu/attention/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {

// Columns first … first + columns − 1, of which begin … begin + count − 1 are the segment's.
struct AmxBlock {
  int32_t first;
  int columns;  // a multiple of kAmxPadding
  int32_t begin;
  int count;

  bool IsWhole() const { return count == columns; }
};

// Calls visit(block) for the blocks that a segment lies in.
template <class Visit>
void ForEachAmxBlock(int32_t segment_begin, int32_t segment_end, const Visit& visit) {
  for (int32_t first = segment_begin / kAmxPadding * kAmxPadding; first < segment_end; first += kBlockColumns) {
    const int32_t begin = std::max(first, segment_begin), end = std::min(first + kBlockColumns, segment_end);
    visit(AmxBlock{first, RoundUp(end - first, kAmxPadding), begin, end - begin});
  }
}

// Whether zeros among a block's probabilities must be left out of a product instead of multiplied.
HWY_INLINE bool HasPairsThatDoNotCount(const AmxBlock& block, bool every_pair) {
  return !every_pair || !block.IsWhole();
}

// products[c][r] ← Σ_k columns[c][k] rows[r][k]
template <class T>
void MultiplyColumnsByRows(const UnitWork& work, const TileRows& rows, const T* columns, const RowFactors<T>& factors,
                           const AmxBlock& block, float* products) {
  const int padded = work.padded();
  MultiplyAmxTiles<MultiplierOf<T>, false, T::kParts>(
      {columns, 2 * padded * T::kParts, kAmxTileRowBytes, &factors.transposed->numbers, rows.padded, products,
       rows.padded, block.columns, rows.padded, padded, 2 * padded, padded / 2 * rows.padded});
}

// sums[k][r] += Σ_c columns[c][k] weights[c][r], with the columns in panels and the weights in pairs, a part after
// another.
template <class T>
void AddPanelsByWeights(const UnitWork& work, const TileRows& rows, const AmxBlock& block, const Columns& columns,
                        const BFloat16Pair* weights, float* sums) {
  const int padded = work.padded();
  const int part_bytes = padded * kAmxTileRowBytes;
  MultiplyAmxTiles<MultiplierOf<T>, true, T::kParts>(
      {columns.PanelAt<T>(block.first, padded), kAmxTileRowBytes, part_bytes * T::kParts, weights, rows.padded, sums,
       rows.padded, padded, rows.padded, block.columns, part_bytes, block.columns / 2 * rows.padded});
}

// sums[c] += Σ_r weights[c][r] rows[r], with the weights in rows of kTileRows, a part of kBlockColumns after another.
template <class T>
void AddWeightsByRows(const UnitWork& work, const TileRows& rows, const AmxBlock& block, const BFloat16Pair* weights,
                      const RowFactors<T>& factors, float* sums) {
  const int padded = work.padded();
  MultiplyAmxTiles<MultiplierOf<T>, true, T::kParts>(
      {weights, 2 * kTileRows, kAmxTileRowBytes, factors.pairs, padded, sums + int64_t{block.first} * padded, padded,
       block.columns, padded, rows.padded, 2 * kTileRows * kBlockColumns, padded / 2 * rows.padded});
}

// Gives the pairs of a block that have a score of their own that score: those that do not count, rows that meet
// themselves (self_score(row)), columns outside of the segment. Such values are in the units that scores have with
// their scale, so the scale is applied to all then. Returns the one that is left to apply.
template <class SelfScore>
float SetOwnScores(const UnitWork& work, const TilePass& pass, const Tile& tile, const TileRows& rows,
                   const AmxBlock& block, bool every_pair, float scale, float* scores, const SelfScore& self_score) {
  const bool own_scores = HasPairsThatDoNotCount(block, every_pair) || (pass.rule & kSelfPenalty) != 0;
  if (!own_scores && scale > 0) return scale;
  const Floats d;
  const int stride = rows.padded;
  const auto factor = hn::Set(d, scale);
  for (int i = 0; i < block.columns * stride; i += kLanes)
    hn::Store(hn::Mul(factor, hn::Load(d, scores + i)), d, scores + i);
  const int before = block.begin - block.first, end = before + block.count;
  float* counted = scores + before * stride;
  ForEachSelf(work, pass, tile, rows, block.begin, block.count,
              [&](int column, int row) { counted[column * stride + row] = self_score(row); });
  if (!every_pair) ApplyRule(work, pass, rows, block.begin, block.count, counted);
  std::fill(scores, counted, kMasked);
  std::fill(scores + end * stride, scores + block.columns * stride, kMasked);
  return 1;
}

// Rows of floats on their way into tiles, each rounded as RoundNumbers does, and whether all of a row's numbers stay
// finite.
class RoundedRows {
 public:
  RoundedRows(const UnitInput& from, const int32_t* order) : from_(from), order_(order) {}

  void Prefetch(int64_t begin, int64_t end, int width) const {
    for (int64_t i = begin; i < end; ++i) PrefetchRow(At(i), width);
  }
  // to[k] ← a row's numbers; width: a multiple of 16.
  HWY_INLINE bool Store(int64_t i, int width, uint16_t* HWY_RESTRICT to) const {
    const float* row = At(i);
    auto largest = hn::Zero(Words());
    for (int k = 0; k < width; k += kLanes)
      hn::StoreU(hn::TruncateTo(Halves(), hn::ShiftRight<16>(Rounded(row + k, largest))), Halves(), to + k);
    return IsFinite(largest);
  }
  // to[k] ← the pairs of two rows' numbers. The second may be missing: zeros.
  HWY_INLINE void StorePairs(int64_t i, bool second, int width, BFloat16Pair* HWY_RESTRICT to,
                             uint8_t* not_finite) const {
    const Words w;
    const float *low = At(i), *high = second ? At(i + 1) : nullptr;
    auto largest = hn::Zero(w), largest_high = hn::Zero(w);
    for (int k = 0; k < width; k += kLanes) {
      const auto lower = hn::ShiftRight<16>(Rounded(low + k, largest));
      const auto upper = high ? hn::And(Rounded(high + k, largest_high), hn::Set(w, 0xFFFF0000)) : hn::Zero(w);
      hn::Store(hn::Or(upper, lower), w, to + k);
    }
    if (!IsFinite(largest)) not_finite[0] = 1;
    if (!IsFinite(largest_high)) not_finite[1] = 1;
  }

 private:
  const float* At(int64_t i) const { return from_.at(order_ ? order_[i] : i); }
  static HWY_INLINE WordVec Rounded(const float* numbers, WordVec& largest) {
    const auto rounded = RoundedAbove(hn::LoadU(Floats(), numbers));
    largest = hn::Max(largest, hn::And(rounded, hn::Set(Words(), 0x7FFFFFFF)));
    return rounded;
  }
  static HWY_INLINE bool IsFinite(WordVec largest) {
    return hn::AllTrue(Words(), hn::Lt(largest, hn::Set(Words(), 0x7F800000)));
  }
  const UnitInput& from_;
  const int32_t* order_;
};

// Whether rows in the caller's memory need nothing but to be rounded.
template <class T>
bool NeedOnlyRounding(const UnitInput& from, const UnitWork& work) {
  return T::kParts == 1 && from.rounded.data == nullptr && work.head_dim() == work.padded();
}

// What GatherRowFactors does with such rows, in one pass over them; without their float32.
template <class T>
RowFactors<T> RoundRowFactors(const UnitInput& from, const UnitWork& work, const TileRows& rows, float scale,
                              Slot transposed_slot) {
  const int padded = work.padded(), words = padded / 2;
  Workspace& memory = ThreadWorkspace();
  auto* natural = memory.Get<BFloat16Pair>(Slot::kNaturalRows, int64_t{kTileRows} * words);
  const RoundedRows rounded(from, rows.positions);
  RowFactors<T> factors;
  factors.scale = scale;
  factors.finite = true;
  for (int r = 0; r < rows.count; ++r)
    factors.finite = rounded.Store(r, padded, NumbersOf(natural + r * words)) && factors.finite;
  std::fill(natural + rows.count * words, natural + rows.padded * words, BFloat16Pair{});
  factors.transposed = memory.Get<T>(transposed_slot, int64_t{kTileRows} * words);
  TransposeWords(natural, words, rows.padded, words, &factors.transposed->numbers, rows.padded);
  return factors;
}

// What GatherColumnsInAmxTiles does with such rows, in one pass over them.
inline void RoundColumns(const RoundedRows& rows, int padded, const Columns& columns, int64_t begin, int64_t end,
                         BFloat16Pair* to_rows, BFloat16Pair* to_panels) {
  const int words = padded / 2;
  uint8_t* not_finite = columns.not_finite + (begin - columns.first);
  auto* pairs = ThreadWorkspace().Get<BFloat16Pair>(Slot::kNaturalRows, int64_t{kAmxPadding} * words);
  for (int64_t first = begin; first < end; first += kAmxPadding) {
    const auto count = static_cast<int>(std::min<int64_t>(kAmxPadding, end - first));
    const int64_t place = first - begin;
    rows.Prefetch(std::min(first + kAmxPadding, end), std::min(first + 2 * kAmxPadding, end), padded);
    for (int c = 0; c < count && to_rows; ++c) {
      if (!rows.Store(first + c, padded, NumbersOf(to_rows + (place + c) * words))) not_finite[place + c] = 1;
    }
    if (to_rows) std::fill_n(to_rows + (place + count) * words, (kAmxPadding - count) * words, BFloat16Pair{});
    if (to_panels == nullptr) continue;
    for (int c = 0; c < count; c += 2)
      rows.StorePairs(first + c, c + 1 < count, padded, pairs + c / 2 * padded, not_finite + place + c);
    std::fill_n(pairs + (count + 1) / 2 * padded, (kAmxPadding - count) / 2 * padded, BFloat16Pair{});
    TransposeWords(pairs, padded, kAmxPadding / 2, padded, to_panels + place * words, kAmxPadding / 2);
  }
}

// Gathers columns [begin, end), where begin is a panel's, as rows and as panels (nullptr: not so): gather(first, last,
// rows, not_finite) as GatherRows does. The last panel ends in zeros. key_scale: normalises them, in float32.
template <class T, class Gather>
void GatherColumnsInAmxTiles(const Gather& gather, const UnitWork& work, const Columns& columns, int64_t begin,
                             int64_t end, BFloat16Pair* to_rows, BFloat16Pair* to_panels, float* key_scale) {
  using M = MultiplierOf<T>;
  const int padded = work.padded();
  Workspace& memory = ThreadWorkspace();
  float* rows = memory.Get<float>(Slot::kRows, int64_t{kTileRows} * padded);
  auto* pairs = memory.Get<BFloat16Pair>(Slot::kNaturalRows, int64_t{kTileRows} * padded / 2);
  for (int64_t first = begin; first < end; first += kTileRows) {
    const auto count = static_cast<int>(std::min<int64_t>(kTileRows, end - first)), held = RoundUp(count, kAmxPadding);
    uint8_t* not_finite = columns.not_finite + (first - columns.first);
    gather(first, first + count, rows, not_finite);
    std::fill(rows + count * padded, rows + held * padded, 0.0f);
    if (key_scale) {
      NormalizeRows(rows, count, padded, kKeyNormEpsilon * static_cast<float>(work.head_dim()),
                    key_scale + (first - columns.first));
    }
    const auto parts = PartsOfRows<T>(rows, int64_t{held} * padded);
    // Rounding makes the largest floats infinite: then it is asked which rows had one.
    if (!RoundNumbers(rows, int64_t{held} * padded)) {
      for (int row = 0; row < count; ++row) not_finite[row] |= RoundNumbers(rows + row * padded, padded) ? 0 : 1;
    }
    const int words = HeldRow<T>(padded);  // of a row, with all of its parts
    for (int part = 0; part < T::kParts; ++part) {
      const float* numbers = parts[part];
      for (int64_t c = 0; c < held && to_rows; ++c)
        RowsOfPairs<M>(numbers + c * padded, padded, to_rows + (first - begin + c) * words + part * padded / 2);
      for (int64_t c = 0; c < held && to_panels; c += kAmxPadding) {
        PairsDown<M>(numbers + c * padded, kAmxPadding, padded, pairs);
        TransposeWords(pairs, padded, kAmxPadding / 2, padded,
                       to_panels + (first - begin + c) * words + part * padded * kAmxPadding / 2, kAmxPadding / 2);
      }
    }
  }
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
