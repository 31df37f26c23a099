// The backward half of the executor. Scores are computed again tile by tile:
//
//   p = exp(s − lse),  dV_j = Σ_i p dO_i,  dp = dO_i·v_j,  ds = p (dp − dO_i·out_i),  dQ_i = scale Σ_j ds k_j,  dK_j =
//   scale Σ_i ds q_i
//
// with p in dV and dp multiplied by the dropout factor of the pair, and p in dV lessened by the fill's weight where a
// pair is taken out of the fill's total.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/executor.h"
#include "kernels/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/backward.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace {

struct BackwardRows {
  TileRows rows;
  alignas(64) float lse[kTileRows];    // units of log 2; huge in padding and where a row sees nothing: p = 0
  alignas(64) float delta[kTileRows];  // dO_i·out_i
  alignas(64) float fill_weight[kTileRows];
  alignas(64) float gradient_sum[kTileRows];
  float *operand, *grad_out;                        // [rows][padded]
  float *operand_transposed, *grad_out_transposed;  // [head_dim][rows padded]
  float* gradient;                                  // [rows][padded]
};

// Scores → p (for dV) in `scores`; dp → ds in `gradients`.
void GradientBlock(const Dropout& dropout, BackwardRows& tile, const DropoutWords* columns, int count,
                   bool subtract_fill, float* scores, float* gradients) {
  const Floats d;
  const int stride = tile.rows.padded;
  for (int r = 0; r < stride; r += kLanes) {
    const auto lse = hn::Load(d, tile.lse + r), delta = hn::Load(d, tile.delta + r);
    auto sum = hn::Load(d, tile.gradient_sum + r);
    if (!dropout.on && !subtract_fill) {
      for (int c = 0; c < count; ++c) {
        float* at = scores + c * stride + r;
        const auto p = Exp2(d, hn::Sub(hn::Load(d, at), lse));
        float* gradient = gradients + c * stride + r;
        const auto ds = hn::Mul(p, hn::Sub(hn::Load(d, gradient), delta));
        sum = hn::Add(sum, ds);
        hn::Store(p, d, at);
        hn::Store(ds, d, gradient);
      }
    } else {
      const auto fill = subtract_fill ? hn::Load(d, tile.fill_weight + r) : hn::Zero(d);
      for (int c = 0; c < count; ++c) {
        float* at = scores + c * stride + r;
        const auto score = hn::Load(d, at);
        const auto p = Exp2(d, hn::Sub(score, lse));
        const auto keep = dropout.on ? KeepFactor(dropout, tile.rows, r, columns[c]) : hn::Set(d, 1.0f);
        float* gradient = gradients + c * stride + r;
        const auto ds = hn::Mul(p, hn::MulSub(hn::Load(d, gradient), keep, delta));
        sum = hn::Add(sum, ds);
        hn::Store(hn::Sub(hn::Mul(p, keep), hn::IfThenZeroElse(hn::Le(score, hn::Set(d, kMasked)), fill)), d, at);
        hn::Store(ds, d, gradient);
      }
    }
    hn::Store(sum, d, tile.gradient_sum + r);
  }
}

void LoadBackwardRows(const BackwardUnitWork& work, const Pass& pass, const Tile& tile, BackwardRows& into) {
  const UnitWork& forward = work.forward;
  const AttentionForward& call = *forward.call;
  const int head_dim = forward.head_dim(), padded = RoundUp(head_dim, kLanes), head = forward.head();
  TileRows& rows = into.rows;
  LoadTileRows(forward, pass, tile, rows);
  Workspace& memory = *forward.memory;
  into.operand = memory.Get<float>(Slot::kRows, int64_t{kTileRows} * padded);
  into.grad_out = memory.Get<float>(Slot::kGradOut, int64_t{kTileRows} * padded);
  into.operand_transposed = memory.Get<float>(Slot::kRowsTransposed, int64_t{head_dim} * kTileRows);
  into.grad_out_transposed = memory.Get<float>(Slot::kGradOutTransposed, int64_t{head_dim} * kTileRows);
  into.gradient = memory.Get<float>(Slot::kAccumulator, int64_t{kTileRows} * padded);
  GatherRows(pass.swapped ? call.key : call.query, forward, rows.positions, rows.count, padded, into.operand);
  GatherRows(work.call->grad_out, forward, rows.positions, rows.count, padded, into.grad_out);
  TransposeScaled(into.operand, padded, rows.count, head_dim, rows.padded, call.scale * kLog2E,
                  into.operand_transposed);
  TransposeScaled(into.grad_out, padded, rows.count, head_dim, rows.padded, 1.0f, into.grad_out_transposed);
  std::memset(into.gradient, 0, sizeof(float) * kTileRows * padded);
  for (int r = 0; r < rows.padded; ++r) {
    into.gradient_sum[r] = into.delta[r] = into.fill_weight[r] = 0;
    into.lse[r] = -kNothing;
    if (r >= rows.count) continue;
    const int64_t token = forward.token(rows.positions[r]);
    const float lse = call.lse[token * call.shape.heads + head];
    if (!(lse < -1e37f)) into.lse[r] = lse * kLog2E;
    const float* out = call.out.at(token, head);
    float delta = 0;
    for (int k = 0; k < head_dim; ++k) delta += into.grad_out[r * padded + k] * out[k];
    into.delta[r] = delta;
    if (work.fill_weight) into.fill_weight[r] = work.fill_weight[rows.positions[r]];
  }
}

void AddScaledRow(const float* HWY_RESTRICT from, float scale, int count, float* HWY_RESTRICT to) {
  for (int k = 0; k < count; ++k) to[k] += scale * from[k];
}

// Gradients of the columns of a pass, in its order.
struct ColumnGradients {
  float *operand, *value;  // [length][padded]
};

void BackwardTile(const BackwardUnitWork& work, const Pass& pass, const Tile& tile, const Columns& columns,
                  ColumnGradients grads) {
  const UnitWork& forward = work.forward;
  const int head_dim = forward.head_dim(), padded = RoundUp(head_dim, kLanes);
  BackwardRows into;
  LoadBackwardRows(work, pass, tile, into);
  const int stride = into.rows.padded, count_rows = into.rows.count;
  float* scores = forward.memory->Get<float>(Slot::kScores, int64_t{kBlockColumns} * kTileRows);
  float* gradients = forward.memory->Get<float>(Slot::kProbabilityGrads, int64_t{kBlockColumns} * kTileRows);
  const Dropout dropout = MakeDropout(forward.call->dropout);
  for (int32_t s = tile.segment_begin; s < tile.segment_end; ++s) {
    const Segment& segment = forward.plan->segments[s];
    for (int32_t begin = segment.column_begin; begin < segment.column_end; begin += kBlockColumns) {
      const int count = std::min(kBlockColumns, segment.column_end - begin);
      const int64_t offset = int64_t{begin} * padded;
      Multiply<Store::kSet, false>({columns.operand + offset, padded}, {into.operand_transposed, stride},
                                   {scores, stride}, count, stride, head_dim);
      Multiply<Store::kSet, false>({columns.value + offset, padded}, {into.grad_out_transposed, stride},
                                   {gradients, stride}, count, stride, head_dim);
      if (!segment.every_pair) ApplyRule(forward, pass, into.rows, columns, begin, count, scores);
      GradientBlock(dropout, into, columns.dropout ? columns.dropout + begin : nullptr, count, forward.subtract_fill,
                    scores, gradients);
      Multiply<Store::kAdd, false>({scores, stride}, {into.grad_out, padded}, {grads.value + offset, padded}, count,
                                   padded, count_rows);
      Multiply<Store::kAdd, false>({gradients, stride}, {into.operand, padded}, {grads.operand + offset, padded}, count,
                                   padded, count_rows);
      Multiply<Store::kAdd, true>({gradients, stride}, {columns.operand + offset, padded}, {into.gradient, padded},
                                  count_rows, padded, count);
    }
  }
  const HeadTensor<float>& target = pass.swapped ? work.call->grad_key : work.call->grad_query;
  for (int r = 0; r < count_rows; ++r) {
    const int32_t position = into.rows.positions[r];
    AddScaledRow(into.gradient + r * padded, forward.call->scale, head_dim,
                 target.at(forward.token(position), forward.head()));
    if (work.score_gradient_sum) work.score_gradient_sum[position] += into.gradient_sum[r];
  }
}

}  // namespace

void BackwardUnit(const BackwardUnitWork& work) {
  const UnitWork& forward = work.forward;
  const Unit& unit = *forward.unit;
  const int head_dim = forward.head_dim(), padded = RoundUp(head_dim, kLanes);
  for (int32_t p = unit.pass_begin; p < unit.pass_end; ++p) {
    const Pass& pass = forward.plan->passes[p];
    const Columns columns = GatherColumns(forward, pass);
    const ColumnGradients grads{forward.memory->Get<float>(Slot::kColumnGrads, int64_t{unit.length} * padded),
                                forward.memory->Get<float>(Slot::kValueGrads, int64_t{unit.length} * padded)};
    std::memset(grads.operand, 0, sizeof(float) * unit.length * padded);
    std::memset(grads.value, 0, sizeof(float) * unit.length * padded);
    for (int64_t t = pass.tile_begin; t < pass.tile_end; ++t)
      BackwardTile(work, pass, forward.plan->tiles[t], columns, grads);
    const HeadTensor<float>& target = pass.swapped ? work.call->grad_query : work.call->grad_key;
    for (int64_t c = 0; c < unit.length; ++c) {
      const int64_t token = forward.token(columns.position(c));
      AddScaledRow(grads.operand + c * padded, forward.call->scale, head_dim, target.at(token, forward.head()));
      AddScaledRow(grads.value + c * padded, 1.0f, head_dim, work.call->grad_value.at(token, forward.head()));
    }
  }
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(BackwardUnit);
void DispatchBackwardUnit(const BackwardUnitWork& work) { HWY_DYNAMIC_DISPATCH(BackwardUnit)(work); }
}  // namespace lshformer
#endif
