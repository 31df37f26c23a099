// How many columns each row of a pass sees: what a fill needs to know before any number is computed.
#include <algorithm>
#include <array>

#include "kernels/planning/plan_builder.h"

namespace lshformer {
namespace {

// The rows of a tile, and what the rule asks of them.
class TileCounter {
 public:
  TileCounter(const AttentionPlan& plan, const UnitPlan& parts, const TilePass& pass)
      : plan_(plan), parts_(parts), pass_(pass) {}

  // Counts of the rows of a tile.
  const std::array<int32_t, kTileRows>& Count(const Tile& tile) {
    counts_.fill(0);
    rows_ = tile.row_end - tile.row_begin;
    bool tested = false;
    for (int32_t s = tile.segment_begin; s < tile.segment_end; ++s) tested |= !parts_.segments[s].every_pair;
    if (tested) LoadRows(tile);
    for (int32_t s = tile.segment_begin; s < tile.segment_end; ++s) CountSegment(parts_.segments[s]);
    return counts_;
  }

 private:
  int32_t Position(int64_t order, int32_t place) const { return order < 0 ? place : parts_.orders[order + place]; }

  void LoadRows(const Tile& tile) {
    for (int r = 0; r < rows_; ++r) positions_[r] = Position(pass_.row_order, tile.row_begin + r);
    const auto load = [&](bool asked, std::vector<int32_t>& into, auto of_hash) {
      if (!asked) return;
      into.resize(static_cast<size_t>(pass_.RuledHashes()) * kTileRows);
      for (int h = 0; h < pass_.RuledHashes(); ++h) {
        const int32_t* all = of_hash(h);
        for (int r = 0; r < rows_; ++r) into[h * kTileRows + r] = all[positions_[r]];
      }
    };
    load((pass_.rule & (kSameBucket | kFirstMeeting)) != 0, buckets_,
         [&](int h) { return plan_.RowBuckets(parts_.unit, pass_, h); });
    load((pass_.rule & kFirstView) != 0, chunks_, [&](int h) { return plan_.RowChunks(parts_.unit, h); });
  }

  void CountSegment(const Segment& segment) {
    if (segment.every_pair) {
      for (int r = 0; r < rows_; ++r) counts_[r] += segment.column_end - segment.column_begin;
      return;
    }
    std::array<int32_t, kTileRows> from{}, to;  // the column positions that count for a row
    to.fill(INT32_MAX);
    for (int r = 0; r < rows_; ++r) {
      if (pass_.rule & kColumnNotBefore) from[r] = positions_[r];
      if (pass_.rule & kColumnBefore) to[r] = positions_[r];
    }
    for (int32_t c = segment.column_begin; c < segment.column_end; ++c) {
      const int32_t position = Position(pass_.column_order, c);
      std::array<int32_t, kTileRows> counted;
      for (int r = 0; r < rows_; ++r) counted[r] = (position >= from[r]) & (position < to[r]);
      if (pass_.rule & kAlwaysSeen) TakeAlways(position, counted);
      if (pass_.rule & kSameBucket) TakeBucket(position, counted);
      if (pass_.rule & kFirstMeeting) TakeOffBuckets(position, counted);
      if (pass_.rule & kFirstView) TakeOffViews(position, counted);
      for (int r = 0; r < rows_; ++r) counts_[r] += counted[r];
    }
  }

  void TakeAlways(int32_t position, std::array<int32_t, kTileRows>& counted) const {
    const AlwaysSeen& always = parts_.unit.always;
    for (int r = 0; r < rows_; ++r) counted[r] &= static_cast<int32_t>(always.Holds(positions_[r], position));
  }

  void TakeBucket(int32_t position, std::array<int32_t, kTileRows>& counted) const {
    const int32_t own = plan_.ColumnBuckets(parts_.unit, pass_, pass_.hash)[position];
    const int32_t* rows = buckets_.data() + pass_.hash * kTileRows;
    for (int r = 0; r < rows_; ++r) counted[r] &= (rows[r] == own);
  }

  // Of no earlier hash function.
  void TakeOffBuckets(int32_t position, std::array<int32_t, kTileRows>& counted) const {
    for (int h = 0; h < pass_.hash; ++h) {
      const int32_t bucket = plan_.ColumnBuckets(parts_.unit, pass_, h)[position];
      const int32_t* rows = buckets_.data() + h * kTileRows;
      for (int r = 0; r < rows_; ++r) counted[r] &= (rows[r] != bucket);
    }
  }

  // In the view of no earlier hash function. Views end with their order.
  void TakeOffViews(int32_t position, std::array<int32_t, kTileRows>& counted) const {
    const ChunkView& view = parts_.unit.view;
    for (int h = 0; h < pass_.hash; ++h) {
      const int32_t chunk = plan_.ColumnChunks(parts_.unit, h)[position];
      const int32_t* rows = chunks_.data() + h * kTileRows;
      for (int r = 0; r < rows_; ++r) counted[r] &= (chunk < rows[r] - view.back) | (chunk > rows[r] + view.ahead);
    }
  }

  const AttentionPlan& plan_;
  const UnitPlan& parts_;
  const TilePass& pass_;
  int rows_ = 0;
  std::array<int32_t, kTileRows> counts_{}, positions_{};
  std::vector<int32_t> buckets_, chunks_;  // [hash][kTileRows]
};

}  // namespace

int64_t CountPassPairs(const AttentionPlan& plan, const UnitPlan& parts, const TilePass& pass,
                       std::vector<int32_t>& seen) {
  TileCounter counter(plan, parts, pass);
  int64_t pairs = 0;
  for (int64_t t = pass.tile_begin; t < pass.tile_end; ++t) {
    const Tile& tile = parts.tiles[t];
    const std::array<int32_t, kTileRows>& counts = counter.Count(tile);
    for (int32_t row = tile.row_begin; row < tile.row_end; ++row) {
      const int32_t count = counts[row - tile.row_begin];
      pairs += count;
      seen[pass.row_order < 0 ? row : parts.orders[pass.row_order + row]] += count;
    }
  }
  return pairs;
}

void KeepSeen(Fill fill, std::vector<int32_t> seen, UnitPlan& parts) {
  const int32_t length = parts.unit.length;
  const bool all = std::all_of(seen.begin(), seen.end(), [length](int32_t s) { return s == length; });
  parts.unit.fill = all ? Fill::kNone : fill;
  if (fill != Fill::kNone) parts.seen = std::move(seen);  // only a fill asks how many are left
}

}  // namespace lshformer
