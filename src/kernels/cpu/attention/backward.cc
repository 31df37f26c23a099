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

#include "kernels/cpu/attention/executor.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/backward.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/attention/amx_blocks-inl.h"
#include "kernels/cpu/attention/products-inl.h"
#include "kernels/cpu/attention/tile-inl.h"

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
  // AMX tiles: what those become, [parts][kBlockColumns] rows of kTileRows, and the gradients in pairs,
  // [parts][columns / 2][rows padded]; Σ_c ds_cr k_c, [padded][rows].
  BFloat16Pair *weight_rows, *gradient_rows, *gradient_pairs;
  float* transposed;
};

template <class T>
struct BackwardRows : RowGradients {
  RowFactors<T> operand, grad_out;
};

constexpr int kPartOfRows = kBlockColumns * kTileRows;  // numbers of a part of weight_rows and gradient_rows

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
      const auto left_out = hn::Eq(hn::Load(d, score), hn::Set(d, kMasked));  // not −∞, which is a score
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

// The same for AMX tiles: p (for dV) and ds in rows, ds in pairs too. scale: of the scores. kPlain: every pair
// counts, as it stands; otherwise scores and gradients hold p and ds, unrounded, in the end.
template <class T, bool kPlain>
void GradientPairs(const Dropout& dropout, RowGradients& tile, const DropoutWords* words, int columns,
                   bool subtract_fill, float scale) {
  const Floats d;
  const int stride = tile.rows.padded;
  const auto factor = hn::Set(d, scale);
  float *const scores = tile.scores, *const gradients = tile.gradients;
  uint16_t *const weight_rows = NumbersOf(tile.weight_rows), *const gradient_rows = NumbersOf(tile.gradient_rows);
  for (int r = 0; r < stride; r += kLanes) {
    BFloat16Pair* pairs = tile.gradient_pairs + r;
    const auto lse = hn::Load(d, tile.lse + r), delta = hn::Load(d, tile.delta + r);
    const auto fill = !kPlain && subtract_fill ? hn::Load(d, tile.fill_weight + r) : hn::Zero(d);
    auto sum = hn::Load(d, tile.gradient_sum + r);
    const auto gradient_of = [&](int c) {
      float *score = scores + c * stride + r, *gradient = gradients + c * stride + r;
      const auto exponent = hn::MulSub(hn::Load(d, score), factor, lse);
      const auto p = T::kParts == 1 ? Exp2ForBFloat16(d, exponent) : Exp2(d, exponent);
      auto weight = p, ds = hn::Mul(p, hn::Sub(hn::Load(d, gradient), delta));
      if (!kPlain) {
        const auto left_out = hn::Eq(hn::Load(d, score), hn::Set(d, kMasked));
        const auto keep = dropout.on ? KeepFactor(dropout, tile.rows, r, words[c]) : hn::Set(d, 1.0f);
        ds = hn::IfThenZeroElse(left_out, hn::Mul(p, hn::MulSub(hn::Load(d, gradient), keep, delta)));
        weight = hn::IfThenZeroElse(left_out, hn::MulSub(p, keep, fill));
        sum = hn::Add(sum, ds);
        hn::Store(weight, d, score);
        hn::Store(ds, d, gradient);
      }
      StoreRoundedParts<T>(weight, weight_rows + c * kTileRows + r, kPartOfRows);
      StoreRoundedParts<T>(ds, gradient_rows + c * kTileRows + r, kPartOfRows);
      return ds;
    };
    for (int c = 0; c < columns; c += 2, pairs += stride) {
      const auto even = gradient_of(c), odd = gradient_of(c + 1);
      StoreRoundedPairs<T>(even, odd, pairs, columns / 2 * stride);
    }
    if (!kPlain) hn::Store(sum, d, tile.gradient_sum + r);
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
  into.operand = GatherRowFactors<T>(pass.swapped ? work.key : work.query, work, rows, call.scale * kLog2E, rows.less,
                                     Slot::kRows, Slot::kRowsTransposed);
  into.grad_out =
      GatherRowFactors<T>(work.grad_out, work, rows, 1.0f, nullptr, Slot::kGradOut, Slot::kGradOutTransposed);
  PairRows(work, rows, Slot::kRowPairs, into.operand);
  PairRows(work, rows, Slot::kGradOutPairs, into.grad_out);
  into.scores = memory.Get<float>(Slot::kScores, int64_t{kBlockColumns} * kTileRows);
  into.gradients = memory.Get<float>(Slot::kProbabilityGradients, int64_t{kBlockColumns} * kTileRows);
  float* out = memory.Get<float>(Slot::kAccumulator, int64_t{kTileRows} * padded);
  GatherRows({{work.out.data, work.out.stride}, {}}, work, rows.positions, 0, rows.count, out);
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

// Of rows that only fill up the tile the factors are zeros: 0 · ∞ would reach what is summed over rows.
void ClearPaddingRows(const RowGradients& tile, int columns) {
  for (int c = 0; c < columns && tile.rows.count < tile.rows.padded; ++c) {
    for (int r = tile.rows.count; r < tile.rows.padded; ++r) {
      NumbersOf(tile.weight_rows)[c * kTileRows + r] = 0;
      NumbersOf(tile.gradient_rows)[c * kTileRows + r] = 0;
    }
  }
}

template <class T>
void BackwardTileBlock(const UnitWork& work, const TilePass& pass, const Tile& range, BackwardRows<T>& tile,
                       const AmxBlock& block, bool every_pair, float* row_gradient) {
  const int padded = work.padded(), stride = tile.rows.padded, before = block.begin - block.first;
  const Columns& columns = work.columns;
  MultiplyColumnsByRows(work, tile.rows, columns.OperandAt<T>(block.first, padded), tile.operand, block, tile.scores);
  MultiplyColumnsByRows(work, tile.rows, columns.ValueAt<T>(block.first, padded), tile.grad_out, block, tile.gradients);
  const float scale = SetOwnScores(work, pass, range, tile.rows, block, every_pair, tile.operand.scale, tile.scores,
                                   [&](int row) { return tile.self_score[row]; });
  const bool zeros = HasPairsThatDoNotCount(block, every_pair);
  const Dropout dropout = MakeDropout(work.call->dropout);
  const auto gradients = !zeros && !dropout.on && !work.fill_score ? GradientPairs<T, true> : GradientPairs<T, false>;
  gradients(dropout, tile, columns.dropout_at(block.first), block.columns, work.subtract_fill, scale);
  if (T::kParts == 1) ClearPaddingRows(tile, block.columns);  // numbers in parts are finite
  float *weights = tile.scores + before * stride, *score_gradients = tile.gradients + before * stride;
  ForEachSelf(work, pass, range, tile.rows, block.begin, block.count, [&](int column, int row) {
    const int c = before + column;
    score_gradients[column * stride + row] = 0;
    for (int part = 0; part < T::kParts; ++part) {
      NumbersOf(tile.gradient_rows)[part * kPartOfRows + c * kTileRows + row] = 0;
      NumbersOf(tile.gradient_pairs + part * block.columns / 2 * stride)[(c / 2 * stride + row) * 2 + c % 2] = 0;
    }
  });
  const int64_t offset = int64_t{block.begin} * padded;
  if (zeros && !tile.grad_out.finite) {
    KeepSelf(work, pass, range, tile.rows, block.begin, block.count, weights);
    MultiplyNonzero<Store::kAdd, false>({weights, stride}, tile.grad_out.rows, padded,
                                        {work.value_gradients + offset, padded}, block.count, padded, tile.rows.count);
  } else {
    AddWeightsByRows(work, tile.rows, block, tile.weight_rows, tile.grad_out, work.value_gradients);
  }
  if (zeros && !tile.operand.finite) {
    MultiplyNonzero<Store::kAdd, false>({score_gradients, stride}, tile.operand.rows, padded,
                                        {work.operand_gradients + offset, padded}, block.count, padded,
                                        tile.rows.count);
  } else {
    AddWeightsByRows(work, tile.rows, block, tile.gradient_rows, tile.operand, work.operand_gradients);
  }
  if (zeros && !columns.AllFinite(block.first, block.columns)) {
    MultiplyNonzero<Store::kAdd, true>({score_gradients, stride}, columns.OperandAt<T>(block.begin, padded),
                                       HeldRow<T>(padded), {row_gradient, padded}, tile.rows.count, padded,
                                       block.count);
  } else {
    AddPanelsByWeights<T>(work, tile.rows, block, columns, tile.gradient_pairs, tile.transposed);
  }
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

// Room for what AMX tiles need beside, and the sums at 0.
void StartTransposedSums(RowGradients& tile, int padded, int parts) {
  const int64_t pairs = int64_t{kPartOfRows} / 2 * parts;
  Workspace& memory = ThreadWorkspace();
  tile.weight_rows = memory.Get<BFloat16Pair>(Slot::kWeightRows, pairs);
  tile.gradient_rows = memory.Get<BFloat16Pair>(Slot::kGradientRows, pairs);
  tile.gradient_pairs = memory.Get<BFloat16Pair>(Slot::kGradientPairs, pairs);
  tile.transposed = memory.Get<float>(Slot::kTransposedSums, int64_t{kTileRows} * padded);
  std::memset(tile.transposed, 0, sizeof(float) * tile.rows.padded * padded);
}

void AddTransposedSums(const RowGradients& tile, int padded, float* row_gradient) {
  const Floats d;
  float* sums = ThreadWorkspace().Get<float>(Slot::kAccumulator, int64_t{kTileRows} * padded);
  TransposeWords(tile.transposed, tile.rows.padded, padded, tile.rows.padded, sums, padded);
  for (int i = 0; i < tile.rows.count * padded; i += kLanes)
    hn::Store(hn::Add(hn::Load(d, row_gradient + i), hn::Load(d, sums + i)), d, row_gradient + i);
}

template <class T>
void BackwardTile(const UnitWork& work, const TilePass& pass, const Tile& tile, int group) {
  const int padded = work.padded();
  BackwardRows<T> into;
  LoadBackwardRows(work, pass, tile, into);
  const int64_t part = work.shared ? group : 0;
  const int64_t row = part * pass.Rows(work.unit->length) + tile.row_begin;
  float* row_gradient = work.row_gradients + row * padded;
  std::memset(row_gradient, 0, sizeof(float) * into.rows.count * padded);
  if constexpr (kInAmxTiles<T>) StartTransposedSums(into, padded, T::kParts);
  for (int32_t s = tile.segment_begin; s < tile.segment_end; ++s) {
    const Segment segment = InGroup(work, work.plan->segments[s], group);
    if constexpr (kInAmxTiles<T>) {
      ForEachAmxBlock(segment.column_begin, segment.column_end, [&](const AmxBlock& block) {
        BackwardTileBlock(work, pass, tile, into, block, segment.every_pair, row_gradient);
      });
    } else {
      for (int32_t begin = segment.column_begin; begin < segment.column_end; begin += kBlockColumns) {
        const int count = std::min(kBlockColumns, segment.column_end - begin);
        BackwardBlock(work, pass, tile, into, begin, count, segment.every_pair, row_gradient);
      }
    }
  }
  if constexpr (kInAmxTiles<T>) AddTransposedSums(into, padded, row_gradient);
  std::memcpy(work.row_gradient_sums + row, into.gradient_sum, sizeof(float) * into.rows.count);
}

}  // namespace

void BackwardGroup(const UnitWork& work, const TilePass& pass, int group) {
  const int64_t begin = work.GroupBegin(group), end = work.GroupBegin(group + 1);
  const int64_t held = work.in_amx_tiles() ? (end - begin + kAmxPadding - 1) / kAmxPadding * kAmxPadding : end - begin;
  const size_t bytes = sizeof(float) * held * work.padded();
  std::memset(work.operand_gradients + begin * work.padded(), 0, bytes);
  std::memset(work.value_gradients + begin * work.padded(), 0, bytes);
  WithOperands(work, [&](auto number) {
    using T = decltype(number);
    [[maybe_unused]] const AmxTilesOf<T> tiles;
    for (int64_t t = pass.tile_begin; t < pass.tile_end; ++t) {
      if (Meets(work, work.plan->tiles[t], group)) BackwardTile<T>(work, pass, work.plan->tiles[t], group);
    }
  });
}

void AddRowGradients(const UnitWork& work, const TilePass& pass, int group, int64_t tile_begin, int64_t tile_end) {
  const UnitTensor<float>& target = pass.swapped ? work.grad_key : work.grad_query;
  const int32_t* order = work.plan->Order(pass.row_order);
  const int64_t part = (work.shared ? group : 0) * pass.Rows(work.unit->length);
  for (int64_t t = tile_begin; t < tile_end; ++t) {
    const Tile& tile = work.plan->tiles[t];
    if (!Meets(work, tile, group)) continue;
    const auto at = [&](int64_t row) { return target.at(order ? order[row] : row); };
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
  const UnitTensor<float>& target = queries ? work.grad_query : work.grad_key;
  for (int64_t c = begin; c < end; ++c) {
    if (c + kRowsAhead < end) {
      const int64_t next = work.columns.position(c + kRowsAhead);
      PrefetchRow(target.at(next), work.head_dim());
      PrefetchRow(work.grad_value.at(next), work.head_dim());
    }
    const int64_t position = work.columns.position(c);
    const float* gradient = work.operand_gradients + c * padded;
    float scale = work.call->scale;
    if (work.columns.key_scale) {
      WithOperands(work, [&](auto number) {
        using T = decltype(number);
        const T* key = work.columns.OperandAt<T>(c, padded);
        for (int k = 0; k < padded; k += kLanes) {
          auto sum = LoadNumbers(key, k);
          if constexpr (kInAmxTiles<T>) {
            for (int part = 1; part < T::kParts; ++part) sum = hn::Add(sum, LoadNumbers(key + part * padded / 2, k));
          }
          hn::Store(sum, Floats(), wide + k);
        }
      });
      scale *= work.columns.key_scale[c];
      AddScaled(wide, -scale * Dot(wide, gradient, padded), work.head_dim(), target.at(position));
    }
    AddScaled(gradient, scale, work.head_dim(), target.at(position));
    AddScaled(work.value_gradients + c * padded, 1.0f, work.head_dim(), work.grad_value.at(position));
  }
}

// Weights are constants here: a key gets its share of what reaches the centroids that it is part of.
void AddCentroidGradients(const UnitWork& work, const TilePass& pass, int64_t cluster_begin, int64_t cluster_end) {
  const PlanClusters& clusters = work.clusters();
  const PlanLevel& level = work.level(pass.level);
  const LevelCentroids& centroids = work.centroids().levels[pass.level];
  const int32_t *begins = work.begins(level), *order = work.plan->orders.data() + clusters.key_order;
  const int padded = work.padded();
  for (int64_t c = cluster_begin; c < cluster_end; ++c) {
    for (int64_t group = 0; group < clusters.groups; ++group) {
      const int64_t column = group * level.count + c;
      if (centroids.logits[column] == kMasked) continue;
      for (int32_t r = begins[c]; r < begins[c + 1]; ++r) {
        const float weight = centroids.weights[group * work.unit->length + r];
        const int64_t position = order[r];
        AddScaled(work.operand_gradients + column * padded, work.call->scale * weight, work.head_dim(),
                  work.grad_key.at(position));
        AddScaled(work.value_gradients + column * padded, weight, work.head_dim(), work.grad_value.at(position));
      }
    }
  }
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(BackwardGroup);
HWY_EXPORT(AddCentroidGradients);
HWY_EXPORT(AddRowGradients);
HWY_EXPORT(AddColumnGradients);
void BackwardGroup(const UnitWork& work, const TilePass& pass, int group) {
  HWY_DYNAMIC_DISPATCH(BackwardGroup)(work, pass, group);
}
void AddRowGradients(const UnitWork& work, const TilePass& pass, int group, int64_t tile_begin, int64_t tile_end) {
  HWY_DYNAMIC_DISPATCH(AddRowGradients)(work, pass, group, tile_begin, tile_end);
}
void AddCentroidGradients(const UnitWork& work, const TilePass& pass, int64_t cluster_begin, int64_t cluster_end) {
  HWY_DYNAMIC_DISPATCH(AddCentroidGradients)(work, pass, cluster_begin, cluster_end);
}
void AddColumnGradients(const UnitWork& work, const TilePass& pass, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(AddColumnGradients)(work, pass, begin, end);
}
}  // namespace lshformer
#endif
