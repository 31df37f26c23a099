// The backward half of the executor. Scores are computed again tile by tile:
//
//   p = exp(s − lse),  dV_j = Σ_i p dO_i,  dp = dO_i·v_j,  ds = p (dp − dO_i·out_i),  dQ_i = scale Σ_j ds k_j,  dK_j =
//   scale Σ_i ds q_i
//
// with p in dV and dp multiplied by the dropout factor of the pair, and p in dV lessened by the fill's weight where a
// pair is taken out of the fill's total. A shared key is k = a q with a = 1/√(Σ q² + ε), so dK goes on into dQ as
//
//   a (dK − k (k·dK))
//
// and ds = 0 where a row meets its own position, whose score is a constant.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/executor.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/backward.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/products-inl.h"
#include "kernels/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace {

struct RowGradients {
  TileRows rows;
  alignas(64) float lse[kTileRows];    // units of log 2; huge in padding and where a row sees nothing: p = 0
  alignas(64) float delta[kTileRows];  // dO_i·out_i
  alignas(64) float fill_weight[kTileRows];
  alignas(64) float gradient_sum[kTileRows];
  alignas(64) float self_score[kTileRows];  // units of log 2
  float *scores, *gradients;                // [columns][rows padded]
};

template <class T>
struct BackwardRows : RowGradients {
  RowFactors<T> operand, grad_out;
};

// Scores → p (for dV); dp → ds. Every pair counts, and counts as it stands.
void PlainGradientBlock(RowGradients& tile, int count) {
  const Floats d;
  const int stride = tile.rows.padded;
  for (int r = 0; r < stride; r += kLanes) {
    const auto lse = hn::Load(d, tile.lse + r), delta = hn::Load(d, tile.delta + r);
    for (int c = 0; c < count; ++c) {
      float* score = tile.scores + c * stride + r;
      float* gradient = tile.gradients + c * stride + r;
      const auto p = Exp2(d, hn::Sub(hn::Load(d, score), lse));
      hn::Store(hn::Mul(p, hn::Sub(hn::Load(d, gradient), delta)), d, gradient);
      hn::Store(p, d, score);
    }
  }
}

// The same with pairs that do not count, dropout, and a fill to take off.
void GradientBlock(const Dropout& dropout, RowGradients& tile, const DropoutWords* columns, int count,
                   bool subtract_fill) {
  const Floats d;
  const int stride = tile.rows.padded;
  for (int r = 0; r < stride; r += kLanes) {
    const auto lse = hn::Load(d, tile.lse + r), delta = hn::Load(d, tile.delta + r);
    const auto fill = subtract_fill ? hn::Load(d, tile.fill_weight + r) : hn::Zero(d);
    auto sum = hn::Load(d, tile.gradient_sum + r);
    for (int c = 0; c < count; ++c) {
      float* score = tile.scores + c * stride + r;
      float* gradient = tile.gradients + c * stride + r;
      const auto left_out = hn::Le(hn::Load(d, score), hn::Set(d, kMasked));
      const auto p = Exp2(d, hn::Sub(hn::Load(d, score), lse));
      const auto keep = dropout.on ? KeepFactor(dropout, tile.rows, r, columns[c]) : hn::Set(d, 1.0f);
      const auto ds = hn::IfThenZeroElse(left_out, hn::Mul(p, hn::MulSub(hn::Load(d, gradient), keep, delta)));
      sum = hn::Add(sum, ds);
      hn::Store(hn::IfThenZeroElse(left_out, hn::MulSub(p, keep, fill)), d, score);
      hn::Store(ds, d, gradient);
    }
    hn::Store(sum, d, tile.gradient_sum + r);
  }
}

// A row that saw nothing but itself has an lse so low that float holds its fraction badly. Its scores are counted from
// the penalty then: how often it met itself is a whole number.
void SetLse(float lse, bool self_penalty, RowGradients& into, int r) {
  constexpr float kMostTimes = 10;  // in natural logs: e¹⁰ meetings
  into.self_score[r] = kSelfScore;
  into.lse[r] = lse < -1e37f ? -kNothing : lse * kLog2E;
  if (!self_penalty || !(std::abs(lse - kSelfPenaltyScore) < kMostTimes)) return;
  into.self_score[r] = 0;
  into.lse[r] = std::log2(std::fmax(1.0f, std::round(std::exp(lse - kSelfPenaltyScore))));
}

template <class T>
void LoadBackwardRows(const UnitWork& work, const TilePass& pass, const Tile& tile, BackwardRows<T>& into) {
  const AttentionForward& call = *work.call;
  const int padded = work.padded();
  TileRows& rows = into.rows;
  LoadTileRows(work, pass, tile, rows);
  Workspace& memory = ThreadWorkspace();
  into.operand = GatherRowFactors<T>(pass.swapped ? call.key : call.query, work, rows, call.scale * kLog2E, Slot::kRows,
                                     Slot::kRowsTransposed);
  into.grad_out =
      GatherRowFactors<T>(work.backward->grad_out, work, rows, 1.0f, Slot::kGradOut, Slot::kGradOutTransposed);
  PairRows(work, rows, Slot::kRowPairs, into.operand);
  PairRows(work, rows, Slot::kGradOutPairs, into.grad_out);
  into.scores = memory.Get<float>(Slot::kScores, int64_t{kBlockColumns} * kTileRows);
  into.gradients = memory.Get<float>(Slot::kProbabilityGradients, int64_t{kBlockColumns} * kTileRows);
  float* out = memory.Get<float>(Slot::kAccumulator, int64_t{kTileRows} * padded);
  GatherRows({call.out.data, call.out.token_stride, call.out.head_stride}, work, rows.positions, 0, rows.count, out);
  for (int r = 0; r < rows.padded; ++r) {
    into.gradient_sum[r] = into.delta[r] = into.fill_weight[r] = 0;
    into.lse[r] = -kNothing;
    if (r >= rows.count) continue;
    SetLse(work.lse(rows.positions[r]), (pass.rule & kSelfPenalty) != 0, into, r);
    into.delta[r] = Dot(into.grad_out.rows + r * padded, out + r * padded, padded);
    if (work.fill_weight) into.fill_weight[r] = work.fill_weight[rows.positions[r]];
  }
}

template <class T>
void BackwardBlock(const UnitWork& work, const TilePass& pass, const Tile& range, BackwardRows<T>& tile, int32_t begin,
                   int count, bool every_pair, float* row_gradient) {
  const int padded = work.padded(), stride = tile.rows.padded;
  const int64_t offset = int64_t{begin} * padded;
  const Columns& columns = work.columns;
  const T* operand = columns.OperandAt<T>(begin, padded);
  MultiplyScores(work, tile.rows, tile.operand, operand, count, tile.scores);
  MultiplyScores(work, tile.rows, tile.grad_out, columns.ValueAt<T>(begin, padded), count, tile.gradients);
  ForEachSelf(work, pass, range, tile.rows, begin, count,
              [&](int column, int row) { tile.scores[column * stride + row] = tile.self_score[row]; });
  if (!every_pair) ApplyRule(work, pass, tile.rows, begin, count, tile.scores);
  const Dropout dropout = MakeDropout(work.call->dropout);
  if (every_pair && !dropout.on && !work.fill_score) {
    PlainGradientBlock(tile, count);
  } else {
    GradientBlock(dropout, tile, columns.dropout_at(begin), count, work.subtract_fill);
  }
  ForEachSelf(work, pass, range, tile.rows, begin, count,
              [&](int column, int row) { tile.gradients[column * stride + row] = 0; });
  const bool leave_out_zeros = !every_pair && !tile.grad_out.finite;
  if (leave_out_zeros) KeepSelf(work, pass, range, tile.rows, begin, count, tile.scores);
  AddWeightedRows(work, tile.rows, leave_out_zeros, tile.scores, tile.grad_out, count, work.value_gradients + offset);
  AddWeightedRows(work, tile.rows, !every_pair && !tile.operand.finite, tile.gradients, tile.operand, count,
                  work.operand_gradients + offset);
  AddWeightedColumns<Store::kAdd>(work, tile.rows, !every_pair && !columns.AllFinite(begin, count), tile.gradients,
                                  operand, count, row_gradient);
}

// The part of a segment that lies in a group of columns.
Segment InGroup(const UnitWork& work, const Segment& segment, int group) {
  return {std::max(segment.column_begin, work.GroupBegin(group)),
          std::min(segment.column_end, work.GroupBegin(group + 1)), segment.every_pair};
}

bool Meets(const UnitWork& work, const Tile& tile, int group) {
  for (int32_t s = tile.segment_begin; s < tile.segment_end; ++s) {
    const Segment part = InGroup(work, work.plan->segments[s], group);
    if (part.column_begin < part.column_end) return true;
  }
  return false;
}

template <class T>
void BackwardTile(const UnitWork& work, const TilePass& pass, const Tile& tile, int group) {
  const int padded = work.padded();
  BackwardRows<T> into;
  LoadBackwardRows(work, pass, tile, into);
  const int64_t part = work.shared ? group : 0;
  const int64_t row = part * work.unit->length + tile.row_begin;
  float* row_gradient = work.row_gradients + row * padded;
  std::memset(row_gradient, 0, sizeof(float) * into.rows.count * padded);
  for (int32_t s = tile.segment_begin; s < tile.segment_end; ++s) {
    const Segment segment = InGroup(work, work.plan->segments[s], group);
    for (int32_t begin = segment.column_begin; begin < segment.column_end; begin += kBlockColumns) {
      const int count = std::min(kBlockColumns, segment.column_end - begin);
      BackwardBlock(work, pass, tile, into, begin, count, segment.every_pair, row_gradient);
    }
  }
  std::memcpy(work.row_gradient_sums + row, into.gradient_sum, sizeof(float) * into.rows.count);
}

}  // namespace

void BackwardGroup(const UnitWork& work, const TilePass& pass, int group) {
  const int64_t begin = work.GroupBegin(group), end = work.GroupBegin(group + 1);
  const size_t bytes = sizeof(float) * (end - begin) * work.padded();
  std::memset(work.operand_gradients + begin * work.padded(), 0, bytes);
  std::memset(work.value_gradients + begin * work.padded(), 0, bytes);
  WithOperands(work, [&](auto number) {
    for (int64_t t = pass.tile_begin; t < pass.tile_end; ++t) {
      if (Meets(work, work.plan->tiles[t], group))
        BackwardTile<decltype(number)>(work, pass, work.plan->tiles[t], group);
    }
  });
}

void AddRowGradients(const UnitWork& work, const TilePass& pass, int group, int64_t tile_begin, int64_t tile_end) {
  const HeadTensor<float>& target = pass.swapped ? work.backward->grad_key : work.backward->grad_query;
  const int32_t* order = work.plan->Order(pass.row_order);
  const int64_t part = (work.shared ? group : 0) * int64_t{work.unit->length};
  for (int64_t t = tile_begin; t < tile_end; ++t) {
    const Tile& tile = work.plan->tiles[t];
    if (!Meets(work, tile, group)) continue;
    const auto at = [&](int64_t row) { return target.at(work.token(order ? order[row] : row), work.head()); };
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const int64_t position = order ? order[row] : row;
      if (row + kRowsAhead < tile.row_end) PrefetchRow(at(row + kRowsAhead), work.head_dim());
      AddScaled(work.row_gradients + (part + row) * work.padded(), work.call->scale, work.head_dim(), at(row));
      if (work.score_gradient_sum) work.score_gradient_sum[position] += work.row_gradient_sums[part + row];
    }
  }
}

void AddColumnGradients(const UnitWork& work, const TilePass& pass, int64_t begin, int64_t end) {
  const int padded = work.padded();
  float* wide = ThreadWorkspace().Get<float>(Slot::kRows, padded);  // a key
  const bool queries = pass.swapped || work.plan->shared_keys;
  const HeadTensor<float>& target = queries ? work.backward->grad_query : work.backward->grad_key;
  for (int64_t c = begin; c < end; ++c) {
    if (c + kRowsAhead < end) {
      const int64_t next = work.token(work.columns.position(c + kRowsAhead));
      PrefetchRow(target.at(next, work.head()), work.head_dim());
      PrefetchRow(work.backward->grad_value.at(next, work.head()), work.head_dim());
    }
    const int64_t token = work.token(work.columns.position(c));
    const float* gradient = work.operand_gradients + c * padded;
    float scale = work.call->scale;
    if (work.columns.key_scale) {
      WithOperands(work, [&](auto number) {
        const auto* key = work.columns.OperandAt<decltype(number)>(c, padded);
        for (int k = 0; k < padded; k += kLanes) hn::Store(LoadNumbers(key, k), Floats(), wide + k);
      });
      scale *= work.columns.key_scale[c];
      AddScaled(wide, -scale * Dot(wide, gradient, padded), work.head_dim(), target.at(token, work.head()));
    }
    AddScaled(gradient, scale, work.head_dim(), target.at(token, work.head()));
    AddScaled(work.value_gradients + c * padded, 1.0f, work.head_dim(),
              work.backward->grad_value.at(token, work.head()));
  }
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(BackwardGroup);
HWY_EXPORT(AddRowGradients);
HWY_EXPORT(AddColumnGradients);
void BackwardGroup(const UnitWork& work, const TilePass& pass, int group) {
  HWY_DYNAMIC_DISPATCH(BackwardGroup)(work, pass, group);
}
void AddRowGradients(const UnitWork& work, const TilePass& pass, int group, int64_t tile_begin, int64_t tile_end) {
  HWY_DYNAMIC_DISPATCH(AddRowGradients)(work, pass, group, tile_begin, tile_end);
}
void AddColumnGradients(const UnitWork& work, const TilePass& pass, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(AddColumnGradients)(work, pass, begin, end);
}
}  // namespace lshformer
#endif
