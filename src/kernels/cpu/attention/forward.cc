// The forward half of the executor: an online softmax over the blocks that the plan names (Milakov and Gimelshein 2018;
// Dao et al., FlashAttention, 2022). Scores of a block are held transposed, [columns][rows], so that rows lie in vector
// lanes: maxima and sums need no horizontal step and the second product reads its scalars one after another.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/attention/executor.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/forward.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/attention/amx_blocks-inl.h"
#include "kernels/cpu/attention/centroids-inl.h"
#include "kernels/cpu/attention/products-inl.h"
#include "kernels/cpu/attention/row_sums-inl.h"
#include "kernels/cpu/attention/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace {

// Turns the scores of a block into probabilities relative to the new maximum, as exact as the T that they are made
// into.
template <class T>
void SoftmaxBlock(const Dropout& dropout, const TileRows& rows, const DropoutWords* columns, int count,
                  bool subtract_fill, float* scores, RowState& state) {
  const Floats d;
  const int stride = rows.padded;
  const auto power = [d](FloatVec exponent) { return kInPairs<T> ? Exp2ForBFloat16(d, exponent) : Exp2(d, exponent); };
  for (int r = 0; r < stride; r += kLanes) {
    const auto old_maximum = hn::Load(d, state.maximum + r);
    auto maximum = old_maximum, second = old_maximum;
    int c = 0;
    for (; c + 2 <= count; c += 2) {
      maximum = hn::Max(maximum, hn::Load(d, scores + c * stride + r));
      second = hn::Max(second, hn::Load(d, scores + (c + 1) * stride + r));
    }
    if (c < count) maximum = hn::Max(maximum, hn::Load(d, scores + c * stride + r));
    maximum = hn::Max(maximum, second);
    hn::Store(maximum, d, state.maximum + r);
    const auto rescale = Exp2(d, hn::Sub(old_maximum, maximum));
    hn::Store(rescale, d, state.rescale + r);
    auto sum = hn::Zero(d);
    if (!dropout.on && !subtract_fill) {
      for (c = 0; c < count; ++c) {
        float* at = scores + c * stride + r;
        const auto p = power(hn::Sub(hn::Load(d, at), maximum));
        sum = hn::Add(sum, p);
        hn::Store(p, d, at);
      }
    } else {
      const auto fill = subtract_fill ? Exp2(d, hn::Sub(hn::Load(d, state.fill + r), maximum)) : hn::Zero(d);
      for (c = 0; c < count; ++c) {
        float* at = scores + c * stride + r;
        const auto score = hn::Load(d, at);
        auto p = power(hn::Sub(score, maximum));
        sum = hn::Add(sum, p);
        if (dropout.on) p = hn::Mul(p, KeepFactor(dropout, rows, r, columns[c]));
        p = hn::Sub(p, hn::IfThenZeroElse(hn::Le(score, hn::Set(d, kMasked)), fill));
        hn::Store(p, d, at);
      }
    }
    hn::Store(hn::MulAdd(hn::Load(d, state.sum + r), rescale, sum), d, state.sum + r);
  }
}

// The same for AMX tiles: probabilities go to `pairs` [parts][columns / 2][rows], in bfloat16. scale: of the scores,
// > 0. kPlain: neither dropout nor a fill is to be heeded, and the scores are not needed again; otherwise they become
// what the pairs hold, unrounded.
template <class T, bool kPlain>
void SoftmaxPairs(const Dropout& dropout, const TileRows& rows, const DropoutWords* words, int columns,
                  bool subtract_fill, float scale, float* scores, RowState& state, BFloat16Pair* pairs) {
  const Floats d;
  const int stride = rows.padded;
  const auto factor = hn::Set(d, scale);
  for (int r = 0; r < stride; r += kLanes) {
    auto first = hn::Load(d, scores + r), second = hn::Load(d, scores + stride + r);
    for (int c = 2; c < columns; c += 2) {
      first = hn::Max(first, hn::Load(d, scores + c * stride + r));
      second = hn::Max(second, hn::Load(d, scores + (c + 1) * stride + r));
    }
    const auto old_maximum = hn::Load(d, state.maximum + r);
    const auto maximum = hn::Max(old_maximum, hn::Mul(factor, hn::Max(first, second)));
    hn::Store(maximum, d, state.maximum + r);
    const auto rescale = Exp2(d, hn::Sub(old_maximum, maximum));
    hn::Store(rescale, d, state.rescale + r);
    const auto fill = !kPlain && subtract_fill ? Exp2(d, hn::Sub(hn::Load(d, state.fill + r), maximum)) : hn::Zero(d);
    auto even_sum = hn::Zero(d), odd_sum = hn::Zero(d);
    const auto probability = [&](int c, FloatVec& sum) {
      float* at = scores + c * stride + r;
      const auto score = hn::Load(d, at);
      const auto exponent = hn::MulSub(score, factor, maximum);
      auto p = T::kParts == 1 ? Exp2ForBFloat16(d, exponent) : Exp2(d, exponent);
      sum = hn::Add(sum, p);
      if (kPlain) return p;
      if (dropout.on) p = hn::Mul(p, KeepFactor(dropout, rows, r, words[c]));
      p = hn::Sub(p, hn::IfThenZeroElse(hn::Le(score, hn::Set(d, kMasked)), fill));
      hn::Store(p, d, at);
      return p;
    };
    BFloat16Pair* to = pairs + r;
    for (int c = 0; c < columns; c += 2, to += stride) {
      const auto even = probability(c, even_sum), odd = probability(c + 1, odd_sum);
      StoreRoundedPairs<T>(even, odd, to, columns / 2 * stride);
    }
    const auto sum = hn::Add(even_sum, odd_sum);
    hn::Store(hn::MulAdd(hn::Load(d, state.sum + r), rescale, sum), d, state.sum + r);
  }
}

// sums[k] ← rescale · sums[k], [padded][rows]. Past its first blocks a tile mostly has its maxima.
void RescaleTransposed(const RowState& state, int stride, int padded, float* sums) {
  const Floats d;
  for (int r = 0; r < stride; r += kLanes) {
    const auto rescale = hn::Load(d, state.rescale + r);
    if (hn::AllTrue(d, hn::Eq(rescale, hn::Set(d, 1.0f)))) continue;
    for (float* sum = sums + r; sum < sums + padded * stride; sum += stride)
      hn::Store(hn::Mul(rescale, hn::Load(d, sum)), d, sum);
  }
}

// sums[k][r] += Σ_c values[c][k] weights[c][r] over the pairs whose weight is not 0; weights [count][stride], values in
// panels, from column `begin` on. Of one part: where numbers have more, all are finite.
template <class T>
void AddNonzeroTransposed(const Columns& columns, int32_t begin, int count, int padded, const float* weights,
                          int stride, float* sums) {
  const Floats d;
  for (int32_t c = begin; c < begin + count; ++c, weights += stride) {
    const BFloat16Pair* panel = columns.PanelAt<T>(c / kAmxPadding * kAmxPadding, padded);
    for (int k = 0; k < padded; ++k) {
      const BFloat16Pair pair = panel[k * kAmxPadding / 2 + c % kAmxPadding / 2];
      const auto value = hn::BitCast(d, hn::Set(Words(), c % 2 == 0 ? pair << 16 : pair & 0xFFFF0000));
      for (int r = 0; r < stride; r += kLanes) {
        const auto weight = hn::Load(d, weights + r), sum = hn::Load(d, sums + k * stride + r);
        const auto counts = hn::Ne(weight, hn::Zero(d));
        hn::Store(hn::IfThenElse(counts, hn::MulAdd(weight, value, sum), sum), d, sums + k * stride + r);
      }
    }
  }
}

// The columns of a pass that the tile in work meets, gathered as tiles go by: a tile's columns mostly begin where those
// of the last one did or a little later, so a column is gathered once, and is still in the second-level cache when it
// is met.
class HeldColumns {
 public:
  HeldColumns(const UnitWork& work, const TilePass& pass) : work_(work), pass_(pass) {
    if (work.held > 0) held_ = HoldColumns(work, pass, ThreadWorkspace(), work.held);
  }

  const Columns& For(const Tile& tile) {
    if (work_.held == 0) return work_.columns;
    auto [begin, end] = ColumnsMet(*work_.plan, tile);
    if (work_.in_amx_tiles()) {  // whole panels
      begin = begin / kAmxPadding * kAmxPadding;
      end = std::min<int64_t>((end + kAmxPadding - 1) / kAmxPadding * kAmxPadding, pass_.columns);
    }
    if (begin < held_.first || begin > end_) {
      held_.first = end_ = begin;
    } else if (end - held_.first > work_.held) {
      MoveTo(begin);
    }
    if (end > end_) {
      GatherColumns(work_, pass_, held_, end_, end);
      end_ = end;
    }
    return held_;
  }

 private:
  // Columns from `begin` on are kept, at the front.
  void MoveTo(int64_t begin) {
    // A panel is moved as a whole: its columns do not lie one after another.
    const int64_t skipped = begin - held_.first, held = end_ - begin;
    const int64_t kept = work_.in_amx_tiles() ? (held + kAmxPadding - 1) / kAmxPadding * kAmxPadding : held;
    const auto move = [&](void* data, int64_t bytes) {
      if (data) std::memmove(data, static_cast<uint8_t*>(data) + skipped * bytes, kept * bytes);
    };
    WithOperands(work_, [&](auto number) {
      const int64_t row_bytes = int64_t{HeldRow<decltype(number)>(work_.padded())} * sizeof(number);
      move(held_.operand, row_bytes);
      move(kInAmxTiles<decltype(number)> ? held_.panels : held_.value, row_bytes);
    });
    move(held_.key_scale, sizeof(*held_.key_scale));
    move(held_.not_finite, sizeof(*held_.not_finite));
    move(held_.dropout, sizeof(*held_.dropout));
    held_.first = begin;
  }

  const UnitWork& work_;
  const TilePass& pass_;
  Columns held_;
  int64_t end_ = 0;  // columns first … end − 1 are held
};

template <class T>
void ForwardBlock(const UnitWork& work, const TilePass& pass, const Tile& tile, const TileRows& rows,
                  const RowFactors<T>& factors, const Columns& columns, int32_t begin, int count, bool every_pair,
                  float* scores, RowState& state) {
  const int padded = work.padded();
  MultiplyScores(work, rows, factors, columns.OperandAt<T>(begin, padded), count, scores);
  ForEachSelf(work, pass, tile, rows, begin, count,
              [&](int column, int row) { scores[column * rows.padded + row] = kSelfScore; });
  if (!every_pair) ApplyRule(work, pass, rows, begin, count, scores);
  SoftmaxBlock<T>(MakeDropout(work.call->dropout), rows, columns.dropout_at(begin), count, work.subtract_fill, scores,
                  state);
  const bool leave_out_zeros = !every_pair && !columns.AllFinite(begin, count);
  if (leave_out_zeros) KeepSelf(work, pass, tile, rows, begin, count, scores);
  AddWeightedColumns<Store::kScaleAndAdd>(work, rows, leave_out_zeros, scores, columns.ValueAt<T>(begin, padded), count,
                                          state.accumulator, state.rescale);
}

template <class T>
void ForwardTileBlock(const UnitWork& work, const TilePass& pass, const Tile& tile, const TileRows& rows,
                      const RowFactors<T>& factors, const Columns& columns, const AmxBlock& block, bool every_pair,
                      float* scores, RowState& state) {
  const int padded = work.padded(), stride = rows.padded;
  MultiplyColumnsByRows(work, rows, columns.OperandAt<T>(block.first, padded), factors, block, scores);
  const float scale =
      SetOwnScores(work, pass, tile, rows, block, every_pair, factors.scale, scores, [](int) { return kSelfScore; });
  const bool leave_out_zeros =
      HasPairsThatDoNotCount(block, every_pair) && !columns.AllFinite(block.first, block.columns);
  const Dropout dropout = MakeDropout(work.call->dropout);
  const bool plain = !dropout.on && !work.subtract_fill && !leave_out_zeros;
  const auto softmax = plain ? SoftmaxPairs<T, true> : SoftmaxPairs<T, false>;
  // In place of scores that are not needed again: what a tile works with just fits into the first cache.
  auto* pairs = plain && T::kParts == 1 ? reinterpret_cast<BFloat16Pair*>(scores)
                                        : ThreadWorkspace().Get<BFloat16Pair>(
                                              Slot::kWeightPairs, int64_t{kBlockColumns} * kTileRows / 2 * T::kParts);
  softmax(dropout, rows, columns.dropout_at(block.first), block.columns, work.subtract_fill, scale, scores, state,
          pairs);
  RescaleTransposed(state, stride, padded, state.transposed);
  if (!leave_out_zeros) {
    AddPanelsByWeights<T>(work, rows, block, columns, pairs, state.transposed);
    return;
  }
  float* counted = scores + (block.begin - block.first) * stride;
  KeepSelf(work, pass, tile, rows, block.begin, block.count, counted);
  AddNonzeroTransposed<T>(columns, block.begin, block.count, padded, counted, stride, state.transposed);
}

template <class T>
RowFactors<T> RowFactorsOf(const UnitWork& work, const TilePass& pass, const TileRows& rows) {
  const UnitInput& from = pass.swapped ? work.key : work.query;
  const float scale = work.call->scale * kLog2E;
  if constexpr (kInAmxTiles<T>) {
    if (!rows.less && NeedOnlyRounding<T>(from, work))
      return RoundRowFactors<T>(from, work, rows, scale, Slot::kRowsTransposed);
  }
  return GatherRowFactors<T>(from, work, rows, scale, rows.less, Slot::kRows, Slot::kRowsTransposed);
}

// Rows of a tile that are taken at once. In AMX tiles all that a block works with stays in the first cache with half
// of them, which pays where there are many blocks.
template <class T>
int32_t RowsAtOnce(const AttentionPlan& plan, const Tile& tile) {
  constexpr int32_t kManyColumns = 400;
  if (!kInAmxTiles<T>) return kTileRows;
  int32_t columns = 0;
  for (int32_t s = tile.segment_begin; s < tile.segment_end; ++s)
    columns += plan.segments[s].column_end - plan.segments[s].column_begin;
  return columns < kManyColumns ? kTileRows : kTileRows / 2;
}

template <class T>
void ForwardTile(const UnitWork& work, const TilePass& pass, const Tile& tile, bool last, HeldColumns& held) {
  const int padded = work.padded();
  const Columns& columns = held.For(tile);
  Workspace& memory = ThreadWorkspace();
  TileRows rows;
  LoadTileRows(work, pass, tile, rows);
  const RowFactors<T> factors = RowFactorsOf<T>(work, pass, rows);
  float* scores = memory.Get<float>(Slot::kScores, int64_t{kBlockColumns} * kTileRows);
  RowState state;
  state.accumulator = memory.Get<float>(Slot::kAccumulator, int64_t{kTileRows} * padded);
  BeginRows(work, pass, rows, state);
  if constexpr (kInAmxTiles<T>) {
    state.transposed = memory.Get<float>(Slot::kTransposedSums, int64_t{kTileRows} * padded);
    TransposeWords(state.accumulator, padded, rows.padded, padded, state.transposed, rows.padded);
  }
  for (int32_t s = tile.segment_begin; s < tile.segment_end; ++s) {
    const Segment& segment = work.plan->segments[s];
    if constexpr (kInAmxTiles<T>) {
      ForEachAmxBlock(segment.column_begin, segment.column_end, [&](const AmxBlock& block) {
        ForwardTileBlock(work, pass, tile, rows, factors, columns, block, segment.every_pair, scores, state);
      });
    } else {
      for (int32_t begin = segment.column_begin; begin < segment.column_end; begin += kBlockColumns) {
        const int count = std::min(kBlockColumns, segment.column_end - begin);
        ForwardBlock(work, pass, tile, rows, factors, columns, begin, count, segment.every_pair, scores, state);
      }
    }
  }
  if constexpr (kInAmxTiles<T>)
    TransposeWords(state.transposed, rows.padded, padded, rows.padded, state.accumulator, padded);
  if (pass.visits > 1) {
    KeepVisits(work, pass, tile, rows, state);
  } else {
    last ? FinishRows(work, pass, tile, rows, state) : KeepRows(work, rows, state);
  }
}

// Gathers columns [begin, end) to `to`, float or rounded: gather(first, last, rows, not_finite) as GatherRows does.
// key_scale: normalises them, float32.
template <class T, class Gather>
void GatherColumnRows(const Gather& gather, const UnitWork& work, const Columns& columns, int64_t begin, int64_t end,
                      T* to, float* key_scale) {
  const int padded = work.padded();
  const int64_t piece = kInPairs<T> ? kTileRows : end - begin;
  for (int64_t first = begin; first < end; first += piece) {
    const int64_t last = std::min(end, first + piece), row_values = HeldRow<T>(padded);
    uint8_t* not_finite = columns.not_finite + (first - columns.first);
    float* rows;
    if constexpr (kInPairs<T>) {
      rows = ThreadWorkspace().Get<float>(Slot::kRows, kTileRows * int64_t{padded});
    } else {
      rows = to;
    }
    gather(first, last, rows, not_finite);
    if (key_scale) {
      NormalizeRows(rows, last - first, padded, kKeyNormEpsilon * static_cast<float>(work.head_dim()),
                    key_scale + (first - columns.first));
    }
    if constexpr (kInPairs<T>) {
      // Rounding makes the largest floats infinite: then it is asked which rows had one.
      const bool finite = RoundToPairs(rows, (last - first) * padded, to);
      for (int64_t row = 0; !finite && row < last - first; ++row) {
        if (!RoundToPairs(rows + row * padded, padded, to + row * row_values)) not_finite[row] = 1;
      }
    }
    to += (last - first) * row_values;
  }
}

}  // namespace

void GatherColumns(const UnitWork& work, const TilePass& pass, const Columns& columns, int64_t begin, int64_t end) {
  const int padded = work.padded();
  const UnitInput& keys = pass.swapped || work.plan->shared_keys ? work.query : work.key;
  const int64_t held = work.in_amx_tiles() ? (end - begin + kAmxPadding - 1) / kAmxPadding * kAmxPadding : end - begin;
  std::fill_n(columns.not_finite + (begin - columns.first), held, uint8_t{0});
  const auto operand = [&](int64_t first, int64_t last, float* rows, uint8_t* not_finite) {
    if (pass.centroids) {
      CopyCentroidKeys(work, pass, first, last, rows, not_finite);
    } else {
      GatherRows(keys, work, columns.order, first, last, rows, not_finite);
    }
  };
  const auto value = [&](int64_t first, int64_t last, float* rows, uint8_t* not_finite) {
    if (pass.centroids) {
      GatherCentroidValues(work, pass, first, last, rows, not_finite);
    } else {
      GatherRows(work.value, work, columns.order, first, last, rows, not_finite);
    }
  };
  WithOperands(work, [&](auto number) {
    using T = decltype(number);
    if constexpr (kInAmxTiles<T>) {
      auto* operands = &columns.OperandAt<T>(begin, padded)->numbers;
      BFloat16Pair* panels = columns.PanelAt<T>(begin, padded);
      auto* values = columns.value ? &columns.ValueAt<T>(begin, padded)->numbers : nullptr;
      const auto gather = [&](const UnitInput& from, const auto& rows, BFloat16Pair* to_rows, BFloat16Pair* to_panels,
                              float* key_scale) {
        if (!pass.centroids && !key_scale && NeedOnlyRounding<T>(from, work)) {
          RoundColumns(RoundedRows(from, columns.order), padded, columns, begin, end, to_rows, to_panels);
        } else {
          GatherColumnsInAmxTiles<T>(rows, work, columns, begin, end, to_rows, to_panels, key_scale);
        }
      };
      gather(keys, operand, operands, values ? panels : nullptr, columns.key_scale);
      gather(work.value, value, values, values ? nullptr : panels, nullptr);
    } else {
      GatherColumnRows(operand, work, columns, begin, end, columns.OperandAt<T>(begin, padded), columns.key_scale);
      GatherColumnRows(value, work, columns, begin, end, columns.ValueAt<T>(begin, padded), nullptr);
    }
  });
  if (!columns.dropout) return;
  for (int64_t c = begin; c < end; ++c)
    columns.dropout[c - columns.first] = DropoutSide(work.dropout_key, DropoutPosition(work, pass, columns, c), 1);
  std::fill_n(columns.dropout + (end - columns.first), held - (end - begin), DropoutWords{});
}

void ForwardTiles(const UnitWork& work, const TilePass& pass, int64_t tile_begin, int64_t tile_end) {
  const bool last = &pass + 1 == work.plan->passes.data() + work.unit->pass_end;
  HeldColumns held(work, pass);
  WithOperands(work, [&](auto number) {
    using T = decltype(number);
    [[maybe_unused]] const AmxTilesOf<T> tiles;
    for (int64_t t = tile_begin; t < tile_end; ++t) {
      const Tile& tile = work.plan->tiles[t];
      const int32_t rows = RowsAtOnce<T>(*work.plan, tile);
      for (int32_t row = tile.row_begin; row < tile.row_end; row += rows) {
        Tile part = tile;
        part.row_begin = row;
        part.row_end = std::min(row + rows, tile.row_end);
        ForwardTile<T>(work, pass, part, last, held);
      }
    }
  });
}

bool HasParts(const UnitWork& work) {
  const Floats d;
  constexpr float kLimit = 0x1p56f;
  const int whole = work.head_dim() / kLanes * kLanes;
  bool fit = true;
  auto misfits = hn::Zero(d);
  for (const UnitTensor<const float>& tensor : {work.query, work.key, work.value, work.grad_out}) {
    for (int32_t row = 0; row < work.unit->length && tensor.data != nullptr; ++row) {
      const float* numbers = tensor.at(row);
      for (int k = 0; k < whole; k += kLanes) {
        const auto number = hn::Abs(hn::LoadU(d, numbers + k));
        misfits = hn::IfThenElse(hn::Lt(number, hn::Set(d, kLimit)), misfits, hn::Set(d, 1.0f));
      }
      for (int k = whole; k < work.head_dim(); ++k) fit = fit && std::abs(numbers[k]) < kLimit;
    }
  }
  return fit && hn::AllTrue(d, hn::Eq(misfits, hn::Zero(d)));
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(HasParts);
bool HasParts(const UnitWork& work) { return HWY_DYNAMIC_DISPATCH(HasParts)(work); }
HWY_EXPORT(GatherColumns);
HWY_EXPORT(ForwardTiles);
void GatherColumns(const UnitWork& work, const TilePass& pass, const Columns& columns, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(GatherColumns)(work, pass, columns, begin, end);
}
void ForwardTiles(const UnitWork& work, const TilePass& pass, int64_t tile_begin, int64_t tile_end) {
  HWY_DYNAMIC_DISPATCH(ForwardTiles)(work, pass, tile_begin, tile_end);
}
}  // namespace lshformer
#endif
