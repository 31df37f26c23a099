// The forward half of the executor: an online softmax over the blocks that the plan names (Milakov and Gimelshein 2018;
// Dao et al., FlashAttention, 2022). Scores of a block are held transposed, [columns][rows], so that rows lie in vector
// lanes: maxima and sums need no horizontal step and the second product reads its scalars one after another.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/executor.h"
#include "kernels/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/forward.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace {

// Running state of a tile's rows.
struct RowState {
  alignas(64) float maximum[kTileRows];
  alignas(64) float sum[kTileRows];      // Σ exp2(s − maximum) over seen pairs
  alignas(64) float rescale[kTileRows];  // what the block's new maximum makes of the old sums
  alignas(64) float fill[kTileRows];     // score of unseen pairs; kNothing where there are none
  float* accumulator;                    // [rows][padded] Σ exp2(s − maximum) v
};

// Turns the scores of a block into probabilities relative to the new maximum.
void SoftmaxBlock(const Dropout& dropout, const TileRows& rows, const DropoutWords* columns, int count,
                  bool subtract_fill, float* scores, RowState& state) {
  const Floats d;
  const int stride = rows.padded;
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
        const auto p = Exp2(d, hn::Sub(hn::Load(d, at), maximum));
        sum = hn::Add(sum, p);
        hn::Store(p, d, at);
      }
    } else {
      const auto fill = subtract_fill ? Exp2(d, hn::Sub(hn::Load(d, state.fill + r), maximum)) : hn::Zero(d);
      for (c = 0; c < count; ++c) {
        float* at = scores + c * stride + r;
        const auto score = hn::Load(d, at);
        auto p = Exp2(d, hn::Sub(score, maximum));
        sum = hn::Add(sum, p);
        if (dropout.on) p = hn::Mul(p, KeepFactor(dropout, rows, r, columns[c]));
        p = hn::Sub(p, hn::IfThenZeroElse(hn::Le(score, hn::Set(d, kMasked)), fill));
        hn::Store(p, d, at);
      }
    }
    hn::Store(hn::MulAdd(hn::Load(d, state.sum + r), rescale, sum), d, state.sum + r);
  }
}

void StartRows(const UnitWork& work, const TileRows& rows, int padded, RowState& state) {
  for (int r = 0; r < rows.padded; ++r) {
    state.sum[r] = 0;
    state.fill[r] = work.fill_score ? work.fill_score[rows.positions[r]] : kNothing;
    state.maximum[r] = state.fill[r];
  }
  std::memset(state.accumulator, 0, sizeof(float) * rows.padded * padded);
}

// Between passes maximum and accumulator rest where lse and out will be.
void ResumeRows(const UnitWork& work, const TileRows& rows, int padded, RowState& state) {
  const AttentionForward& call = *work.call;
  for (int r = 0; r < rows.padded; ++r) {
    state.fill[r] = work.fill_score ? work.fill_score[rows.positions[r]] : kNothing;
    if (r >= rows.count) {
      state.sum[r] = 0;
      state.maximum[r] = kNothing;
      std::memset(state.accumulator + r * padded, 0, sizeof(float) * padded);
      continue;
    }
    const int64_t token = work.token(rows.positions[r]);
    state.sum[r] = work.row_sum[rows.positions[r]];
    state.maximum[r] = call.lse[token * call.shape.heads + work.head()];
    CopyRow(call.out.at(token, work.head()), work.head_dim(), padded, state.accumulator + r * padded);
  }
}

void KeepRows(const UnitWork& work, const TileRows& rows, int padded, const RowState& state) {
  const AttentionForward& call = *work.call;
  for (int r = 0; r < rows.count; ++r) {
    const int64_t token = work.token(rows.positions[r]);
    work.row_sum[rows.positions[r]] = state.sum[r];
    call.lse[token * call.shape.heads + work.head()] = state.maximum[r];
    std::memcpy(call.out.at(token, work.head()), state.accumulator + r * padded, sizeof(float) * work.head_dim());
  }
}

// Adds the unseen keys' share, divides, writes out and lse.
void FinishRows(const UnitWork& work, const Pass& pass, const Tile& tile, const TileRows& rows, int padded,
                RowState& state) {
  const AttentionForward& call = *work.call;
  const int head_dim = work.head_dim();
  const BucketRun* run =
      work.subtract_fill || pass.run_begin == pass.run_end ? nullptr : work.plan->runs.data() + pass.run_begin;
  const float* unseen_values = work.unseen_values;
  if (run && work.unit->fill != Fill::kNone) {
    while (run->row_end <= tile.row_begin) ++run, unseen_values += work.UnseenStride();
  }
  for (int r = 0; r < rows.count; ++r) {
    const int64_t token = work.token(rows.positions[r]);
    float* sum = state.accumulator + r * padded;
    double denominator = state.sum[r];
    if (work.unit->fill != Fill::kNone) {
      for (; run && run->row_end <= tile.row_begin + r; ++run) unseen_values += work.UnseenStride();
      const int32_t unseen = work.unit->length - work.seen()[rows.positions[r]];
      if (unseen > 0) {
        const float weight = std::exp2(state.fill[r] - state.maximum[r]);
        denominator += static_cast<double>(weight) * unseen;
        for (int k = 0; k < head_dim; ++k) sum[k] += weight * unseen_values[k];
      }
    }
    float* out = call.out.at(token, work.head());
    const bool nothing = denominator == 0;
    const auto inverse = static_cast<float>(nothing ? 0.0 : 1.0 / denominator);
    for (int k = 0; k < head_dim; ++k) out[k] = nothing ? 0.0f : sum[k] * inverse;
    call.lse[token * call.shape.heads + work.head()] =
        nothing ? -std::numeric_limits<float>::infinity()
                : static_cast<float>((static_cast<double>(state.maximum[r]) + std::log2(denominator)) * kLn2);
  }
}

void ForwardTile(const UnitWork& work, const Pass& pass, const Tile& tile, const Columns& columns, bool first,
                 bool last) {
  const AttentionForward& call = *work.call;
  const int head_dim = work.head_dim(), padded = RoundUp(head_dim, kLanes);
  TileRows rows;
  LoadTileRows(work, pass, tile, rows);
  float* gathered = work.memory->Get<float>(Slot::kRows, int64_t{kTileRows} * padded);
  float* transposed = work.memory->Get<float>(Slot::kRowsTransposed, int64_t{head_dim} * kTileRows);
  float* scores = work.memory->Get<float>(Slot::kScores, int64_t{kBlockColumns} * kTileRows);
  GatherRows(pass.swapped ? call.key : call.query, work, rows.positions, rows.count, padded, gathered);
  TransposeScaled(gathered, padded, rows.count, head_dim, rows.padded, call.scale * kLog2E, transposed);
  RowState state;
  state.accumulator = work.memory->Get<float>(Slot::kAccumulator, int64_t{kTileRows} * padded);
  if (first) {
    StartRows(work, rows, padded, state);
  } else {
    ResumeRows(work, rows, padded, state);
  }
  const Dropout dropout = MakeDropout(call.dropout);
  for (int32_t s = tile.segment_begin; s < tile.segment_end; ++s) {
    const Segment& segment = work.plan->segments[s];
    for (int32_t begin = segment.column_begin; begin < segment.column_end; begin += kBlockColumns) {
      const int count = std::min(kBlockColumns, segment.column_end - begin);
      const int64_t offset = int64_t{begin} * padded;
      Multiply<Store::kSet, false>({columns.operand + offset, padded}, {transposed, rows.padded}, {scores, rows.padded},
                                   count, rows.padded, head_dim);
      if (!segment.every_pair) ApplyRule(work, pass, rows, columns, begin, count, scores);
      SoftmaxBlock(dropout, rows, columns.dropout ? columns.dropout + begin : nullptr, count, work.subtract_fill,
                   scores, state);
      Multiply<Store::kScaleAndAdd, true>({scores, rows.padded}, {columns.value + offset, padded},
                                          {state.accumulator, padded}, rows.count, padded, count, state.rescale);
    }
  }
  if (last) {
    FinishRows(work, pass, tile, rows, padded, state);
  } else {
    KeepRows(work, rows, padded, state);
  }
}

}  // namespace

void ForwardUnit(const UnitWork& work) {
  const Unit& unit = *work.unit;
  for (int32_t p = unit.pass_begin; p < unit.pass_end; ++p) {
    const Pass& pass = work.plan->passes[p];
    const Columns columns = GatherColumns(work, pass);
    for (int64_t t = pass.tile_begin; t < pass.tile_end; ++t) {
      ForwardTile(work, pass, work.plan->tiles[t], columns, p == unit.pass_begin, p + 1 == unit.pass_end);
    }
  }
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(ForwardUnit);
void DispatchForwardUnit(const UnitWork& work) { HWY_DYNAMIC_DISPATCH(ForwardUnit)(work); }
}  // namespace lshformer
#endif
