// A tile of rows and a block of columns: gathering, the pair rule, dropout. Compiled once for each instruction set.
#if defined(LSHFORMER_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LSHFORMER_TILE_INL
#undef LSHFORMER_TILE_INL
#else
#define LSHFORMER_TILE_INL
#endif

#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/cpu/attention/executor.h"
#include "kernels/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {

// The rows of a tile and what the pair rule and dropout need of them.
struct TileRows {
  int count = 0, padded = 0;  // padded to whole vectors
  bool not_finite = false;    // of the rows gathered so far
  const float* less =
      nullptr;  // [UnitCentroids::stride] taken off the rows that scores are made of: their group's mean
  alignas(64) int32_t positions[kTileRows];
  alignas(64) uint32_t dropout_first[kTileRows], dropout_second[kTileRows];
  int hashes = 0;                // that ask for buckets; of clusters those that some row opened, the best first
  std::vector<int32_t> buckets;  // [hash][kTileRows]
  std::vector<int32_t> chunks;   // [round][kTileRows]; kFirstView
};

inline void LoadTileRows(const UnitWork& work, const TilePass& pass, const Tile& tile, TileRows& rows) {
  rows.count = tile.row_end - tile.row_begin;
  rows.padded = RoundUp(rows.count, work.in_amx_tiles() ? kAmxPadding : kLanes);
  const int32_t* order = work.plan->Order(pass.row_order);
  for (int r = 0; r < kTileRows; ++r) {  // padding repeats the last row
    const int row = tile.row_begin + (r < rows.count ? r : rows.count - 1);
    rows.positions[r] = order ? order[row] : row;
  }
  if (pass.centroids && tile.segment_begin < tile.segment_end) {
    const UnitCentroids& centroids = work.centroids();
    const int32_t group = work.plan->segments[tile.segment_begin].column_begin / work.level(pass.level).count;
    rows.less = centroids.mean_queries.data() + int64_t{group} * centroids.stride;
  }
  const int hashes = pass.RuledHashes();
  const bool views_of_buckets = (pass.rule & kFirstView) && !work.plan->query_buckets.empty();
  if ((pass.rule & (kSameBucket | kFirstMeeting)) || views_of_buckets) {
    rows.buckets.resize(static_cast<size_t>(hashes) * kTileRows);
    for (rows.hashes = 0; rows.hashes < hashes; ++rows.hashes) {
      const int32_t* buckets = work.plan->RowBuckets(*work.unit, pass, rows.hashes);
      int32_t* own = rows.buckets.data() + rows.hashes * kTileRows;
      for (int r = 0; r < rows.padded; ++r) own[r] = buckets[rows.positions[r]];
      if (work.plan->one_key_bucket && *std::max_element(own, own + rows.count) < 0) break;
    }
  }
  if (pass.rule & kFirstView) {
    rows.chunks.resize(static_cast<size_t>(hashes) * kTileRows);
    for (int round = 0; round < hashes; ++round) {
      const int32_t* chunks = work.plan->RowChunks(*work.unit, round);
      for (int r = 0; r < kTileRows; ++r) rows.chunks[round * kTileRows + r] = chunks[rows.positions[r]];
    }
  }
  if (work.call->dropout.probability > 0) {
    for (int r = 0; r < rows.padded; ++r) {
      const DropoutWords words = DropoutSide(work.dropout_key, rows.positions[r], 0);
      rows.dropout_first[r] = words.first;
      rows.dropout_second[r] = words.second;
    }
  }
}

// Of a row of work memory.
HWY_INLINE bool IsFinite(const float* row, int padded) {
  const Floats d;
  FloatVec zeros = hn::Zero(d);
  for (int k = 0; k < padded; k += kLanes) zeros = hn::MulAdd(hn::Load(d, row + k), hn::Zero(d), zeros);
  return hn::AllTrue(d, hn::Eq(zeros, hn::Zero(d)));
}

HWY_INLINE FloatVec LoadFloats(const float* from) { return hn::LoadU(Floats(), from); }
HWY_INLINE FloatVec LoadFloats(const BFloat16* from) {
  const hn::Rebind<uint16_t, Words> halves;
  const auto upper = hn::PromoteTo(Words(), hn::LoadU(halves, reinterpret_cast<const uint16_t*>(from)));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(upper));
}
HWY_INLINE float FloatOf(float x) { return x; }
HWY_INLINE float FloatOf(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

template <class T>
bool GatherNumbers(UnitTensor<const T> from, const UnitWork& work, const int32_t* positions, int64_t begin, int64_t end,
                   float* to, uint8_t* not_finite) {
  const int head_dim = work.head_dim(), padded = work.padded();
  const Floats d;
  const auto at = [&](int64_t i) { return from.at(positions ? positions[i] : i); };
  bool all_finite = true;
  for (int64_t i = begin; i < end; ++i, to += padded) {
    if (i + kRowsAhead < end) PrefetchRow(at(i + kRowsAhead), head_dim);
    const T* row = at(i);
    FloatVec zeros = hn::Zero(d);  // x · 0 is 0 unless x is infinite or NaN
    int k = 0;
    for (; k + kLanes <= head_dim; k += kLanes) {
      const FloatVec x = LoadFloats(row + k);
      zeros = hn::MulAdd(x, hn::Zero(d), zeros);
      hn::Store(x, d, to + k);
    }
    for (int rest = k; rest < padded; ++rest) to[rest] = rest < head_dim ? FloatOf(row[rest]) : 0.0f;
    for (; k < padded; k += kLanes) zeros = hn::MulAdd(hn::Load(d, to + k), hn::Zero(d), zeros);
    const bool finite = hn::AllTrue(d, hn::Eq(zeros, hn::Zero(d)));
    all_finite = all_finite && finite;
    if (not_finite) not_finite[i - begin] |= finite ? 0 : 1;
  }
  return all_finite;
}

// Gathers rows [begin, end) by position into [end − begin][padded]; true if all numbers are finite. not_finite[i] says
// so of each.
inline bool GatherRows(const UnitInput& from, const UnitWork& work, const int32_t* positions, int64_t begin,
                       int64_t end, float* to, uint8_t* not_finite = nullptr) {
  if (from.rounded.data) return GatherNumbers(from.rounded, work, positions, begin, end, to, not_finite);
  return GatherNumbers<float>(from, work, positions, begin, end, to, not_finite);
}

// How many chunks after the beginning of a view of `row_chunk` the chunk `chunk` comes; the view holds it where
// that is less than its size. circle: of all rounds' chunks, 0 where views end with their round.
HWY_INLINE hn::Vec<Ints> PlaceInView(int32_t chunk, hn::Vec<Ints> row_chunk, const ChunkView& view, int32_t circle) {
  const Ints d;
  const auto place = hn::Sub(hn::Set(d, chunk + view.back), row_chunk);
  const auto around = hn::Set(d, circle);
  const auto raised = hn::Add(place, hn::IfThenElseZero(hn::Lt(place, hn::Zero(d)), around));
  return hn::Sub(raised, hn::IfThenZeroElse(hn::Lt(raised, around), around));
}

// The chunk in which a place of a pass's columns lies: 0 is the first of the pass's round, those before it are
// negative.
inline int32_t ChunkOfColumn(const Unit& unit, const TilePass& pass, int32_t column) {
  const int32_t place = column - pass.own_columns;
  const int32_t round = place >= 0 ? place / unit.length : -((unit.length - 1 - place) / unit.length);
  return round * unit.ChunksOfARound() + (place - round * unit.length) / unit.view.chunk;
}

// kFirstView: rows [r, r + kLanes) that met the position of a column before, in an earlier round, or in this one
// earlier in their view than at `column`.
HWY_INLINE hn::Mask<Ints> MetBefore(const UnitWork& work, const TilePass& pass, const TileRows& rows, int r,
                                    int32_t column, int32_t position) {
  const Ints d;
  const Unit& unit = *work.unit;
  const ChunkView& view = unit.view;
  const int rounds = work.plan->hashes;
  const int32_t circle = view.wrap ? unit.ChunksOfARound() * rounds : 0;
  const auto size = hn::Set(d, view.back + view.ahead + 1), before = hn::Set(d, -1);
  const auto holds = [&](int round, int column_round, hn::Vec<Ints> limit) {
    const int32_t chunk = work.plan->ColumnChunks(unit, column_round)[position];
    const auto place = PlaceInView(chunk, hn::LoadU(d, rows.chunks.data() + round * kTileRows + r), view, circle);
    return hn::And(hn::Gt(place, before), hn::Lt(place, limit));
  };
  auto met = hn::Lt(size, hn::Zero(d));
  for (int round = 0; round < pass.hash; ++round) {
    for (int other = view.wrap ? 0 : round; other < (view.wrap ? rounds : round + 1); ++other) {
      auto here = holds(round, other, size);
      if (!work.plan->query_buckets.empty()) {  // views show their own bucket alone
        const auto bucket = hn::Set(d, work.plan->ColumnBuckets(unit, pass, round)[position]);
        here = hn::And(here, hn::Eq(hn::LoadU(d, rows.buckets.data() + round * kTileRows + r), bucket));
      }
      met = hn::Or(met, here);
    }
  }
  if (!view.wrap || pass.hash == rounds) return met;  // a round alone holds a position once
  // The rows of a tile are of one chunk, and so is the column's place in their view.
  const int32_t number = pass.hash * unit.ChunksOfARound() + ChunkOfColumn(unit, pass, column);
  const auto now = PlaceInView((number % circle + circle) % circle,
                               hn::LoadU(d, rows.chunks.data() + pass.hash * kTileRows + r), view, circle);
  for (int other = 0; other < rounds; ++other) met = hn::Or(met, holds(pass.hash, other, now));
  return met;
}

// kAlwaysSeen, of rows at `row` and a column.
HWY_INLINE hn::Mask<Ints> IsAlwaysSeen(const AlwaysSeen& always, hn::Vec<Ints> row, int32_t column) {
  const Ints d;
  if (always.IsGlobal(column)) return hn::Eq(row, row);
  const auto apart = hn::Abs(hn::Sub(row, hn::Set(d, column)));
  const auto near = hn::Lt(apart, hn::Set(d, always.reach + 1));
  if (!always.global_rows) return near;
  const auto global = hn::Or(hn::Eq(row, hn::Set(d, always.global_first)), hn::Eq(row, hn::Set(d, always.global_last)));
  return hn::Or(near, global);
}

// Products with centroids [columns][padded] to their logits; kMasked where a row opened the cluster.
inline void ScoreCentroids(const UnitWork& work, const TilePass& pass, const TileRows& rows, int32_t begin, int count,
                           float* scores) {
  const Floats d;
  const AttentionPlan& plan = *work.plan;
  const PlanLevel& level = work.level(pass.level);
  const UnitCentroids& centroids = work.centroids();
  const float* logits = centroids.levels[pass.level].logits.data();
  const int stride = rows.padded;
  for (int c = 0; c < count; ++c) {
    const float logit = logits[begin + c];
    for (int r = 0; r < stride; r += kLanes) {
      float* at = scores + c * stride + r;
      hn::Store(logit == kMasked ? hn::Set(d, kMasked) : hn::Add(hn::Load(d, at), hn::Set(d, logit)), d, at);
    }
  }
  const int32_t first = begin % level.count, number = level.first + first;  // of the block's first cluster
  const auto before = [](const CentroidChange& change, int32_t cluster) { return change.cluster < cluster; };
  const int32_t* opened = plan.query_buckets.data() +
                          (int64_t{work.head()} * plan.hashes + level.opened_at) * plan.tokens + work.unit->token_begin;
  for (int r = 0; r < rows.count; ++r) {
    const int32_t position = rows.positions[r];
    for (int p = 0; p < level.open && opened[p * plan.tokens + position] >= 0; ++p) {
      const int32_t c = opened[p * plan.tokens + position] - first;
      if (c >= 0 && c < count) scores[c * stride + r] = kMasked;
    }
    if (r + kRowsAhead < rows.count) {
      const int64_t* next = centroids.change_begins.data() + rows.positions[r + kRowsAhead];
      PrefetchRow(centroids.changes.data() + next[0], static_cast<int>(next[1] - next[0]));
    }
    const CentroidChange* change = centroids.changes.data() + centroids.change_begins[position];
    const CentroidChange* end = centroids.changes.data() + centroids.change_begins[position + 1];
    change = std::lower_bound(change, end, number, before);
    for (; change < end && change->cluster < number + count; ++change) {
      float* at = scores + (change->cluster - number) * stride + r;
      *at = change->logit == kMasked ? kMasked : *at + change->logit;
    }
  }
}

// ApplyRule where the window around the diagonal is all there is to the rule.
inline void ApplyWindow(const UnitWork& work, const TileRows& rows, int32_t begin, int count, float* scores) {
  const Floats d;
  const Ints di;
  const auto beyond = hn::Set(di, work.unit->always.reach);
  for (int c = 0; c < count; ++c, scores += rows.padded) {
    const auto position = hn::Set(di, work.columns.position(begin + c));
    for (int r = 0; r < rows.padded; r += kLanes) {
      const auto apart = hn::Abs(hn::Sub(hn::Load(di, rows.positions + r), position));
      const auto masked = hn::RebindMask(d, hn::Gt(apart, beyond));
      hn::Store(hn::IfThenElse(masked, hn::Set(d, kMasked), hn::Load(d, scores + r)), d, scores + r);
    }
  }
}

// Sets the scores [columns][padded] of pairs that do not count to kMasked.
inline void ApplyRule(const UnitWork& work, const TilePass& pass, const TileRows& rows, int32_t begin, int count,
                      float* scores) {
  if (pass.centroids) {
    ScoreCentroids(work, pass, rows, begin, count, scores);
    return;
  }
  if (pass.rule == kAlwaysSeen && !work.unit->always.HasGlobal()) {
    ApplyWindow(work, rows, begin, count, scores);
    return;
  }
  const Floats d;
  const Ints di;
  const auto masked = hn::Set(d, kMasked);
  for (int c = 0; c < count; ++c) {
    const int32_t position = work.columns.position(begin + c);
    for (int r = 0; r < rows.padded; r += kLanes) {
      const auto row_position = hn::Load(di, rows.positions + r);
      auto counts = hn::Eq(row_position, row_position);
      const auto share_bucket = [&](int h) {
        const auto column_bucket = hn::Set(di, work.plan->ColumnBuckets(*work.unit, pass, h)[position]);
        return hn::Eq(hn::LoadU(di, rows.buckets.data() + h * kTileRows + r), column_bucket);
      };
      if (pass.rule & kAlwaysSeen) counts = IsAlwaysSeen(work.unit->always, row_position, position);
      if (pass.rule & kSameBucket) counts = hn::And(counts, share_bucket(pass.hash));
      const int before = pass.rule & kFirstMeeting ? std::min(pass.hash, rows.hashes) : 0;
      for (int h = 0; h < before; ++h) counts = hn::AndNot(share_bucket(h), counts);
      if (pass.rule & kColumnNotBefore) counts = hn::AndNot(hn::Lt(hn::Set(di, position), row_position), counts);
      if (pass.rule & kColumnBefore) counts = hn::And(counts, hn::Lt(hn::Set(di, position), row_position));
      if (pass.rule & kColumnNotAfter) counts = hn::AndNot(hn::Lt(row_position, hn::Set(di, position)), counts);
      if (pass.rule & kFirstView) counts = hn::AndNot(MetBefore(work, pass, rows, r, begin + c, position), counts);
      float* at = scores + c * rows.padded + r;
      hn::Store(hn::IfThenElse(hn::RebindMask(d, counts), hn::Load(d, at), masked), d, at);
    }
  }
}

// Calls visit(column − begin, row) where a row of the tile meets its own position in columns [begin, begin + count).
template <class Visit>
HWY_INLINE void ForEachSelf(const UnitWork& work, const TilePass& pass, const Tile& tile, const TileRows& rows,
                            int32_t begin, int count, const Visit& visit) {
  if (!(pass.rule & kSelfPenalty)) return;
  const int32_t first = pass.own_columns + tile.row_begin, end = begin + count;  // the column of row 0
  for (int32_t c = std::max(begin, first); c < std::min(end, first + rows.count); ++c) visit(c - begin, c - first);
  // Columns of another round, before or after the own ones, are in another order.
  const int32_t own_end = pass.own_columns + work.unit->length;
  if (begin >= pass.own_columns && end <= own_end) return;
  for (int32_t c = begin; c < end; ++c) {
    if (c >= pass.own_columns && c < own_end) continue;
    const int32_t* found = std::find(rows.positions, rows.positions + rows.count, work.columns.position(c));
    if (found != rows.positions + rows.count) visit(c - begin, static_cast<int>(found - rows.positions));
  }
}

// A row's weight on itself is mostly 0, but it does count: where zeros are left out of a product, a NaN of its own must
// still reach it. weights: [columns][padded].
inline void KeepSelf(const UnitWork& work, const TilePass& pass, const Tile& tile, const TileRows& rows, int32_t begin,
                     int count, float* weights) {
  constexpr float kLeast = 1.17549435e-38f;  // of normal floats: nothing beside any finite sum
  ForEachSelf(work, pass, tile, rows, begin, count, [&](int column, int row) {
    float& weight = weights[column * rows.padded + row];
    if (weight == 0) weight = kLeast;
  });
}

struct Dropout {
  uint32_t threshold = 0;
  float keep_scale = 1;
  bool on = false;
};
inline Dropout MakeDropout(const AttentionDropout& dropout) {
  if (!(dropout.probability > 0)) return {};
  return {DropoutThreshold(dropout.probability), 1.0f / (1.0f - dropout.probability), true};
}

// The vector form of IsDropped: keep_scale where the pair is kept, 0 where dropped.
HWY_INLINE FloatVec KeepFactor(const Dropout& dropout, const TileRows& rows, int r, DropoutWords column) {
  const Words w;
  const Floats d;
  auto h =
      hn::Mul(hn::Xor(hn::Load(w, rows.dropout_first + r), hn::Set(w, column.first)), hn::Set(w, kDropoutMultiplier1));
  h = hn::Add(hn::Xor(h, hn::ShiftRight<15>(h)),
              hn::Add(hn::Load(w, rows.dropout_second + r), hn::Set(w, column.second)));
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(w, kDropoutMultiplier2));
  const auto dropped = hn::RebindMask(d, hn::Lt(h, hn::Set(w, dropout.threshold)));
  return hn::IfThenZeroElse(dropped, hn::Set(d, dropout.keep_scale));
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
