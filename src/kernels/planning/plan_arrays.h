// What a plan (kernels/plan.h) is made of: plain arrays, which its builders fill and the executor walks through.
//
// A unit is one sequence under one head. It is worked through in passes (one per hash function or round; two for
// mirrored pairs). A pass orders its rows and its columns, both positions within the sequence, cuts the rows into tiles
// and names for each tile the ranges of ordered columns that it meets. Rows are queries and columns keys, except in the
// second half of mirrored pairs, where the roles are swapped. Every position is a row once in a pass; as a column it
// may stand several times. The executor adds what a pass sees to the row's online softmax, whatever came before.
//
// Reformer: a pass is a round, and the orders of all rounds lie end to end, with a copy of the circle's end before them
// and of its beginning after them. So the view of a chunk, which may reach into the round before or after, is one
// range of columns. SimHash with sorted pairs: a pass is a hash function, its rows the sorted queries and its columns
// the sorted keys, both cut into chunks; a row sees the columns of the chunks around its own.
//
// Pairs that are always seen (a window of neighbours, global tokens) are a last pass in natural order, which takes
// those that no pass before it met. Of local attention the window's are the only pass.
//
// Clustered: first a pass in which a query is a row once for every cluster that it opened, sorted by those, and meets
// one cluster each time (a row without a cluster where it may open one and opened none); what each finds is kept apart,
// and the next pass adds it up. Then neighbours and global tokens. With levels, then one such pass for each level but
// the first, the last one first, in which a query meets those centroids that the clusters it opened on the level above
// are made of. At last a pass in which every query meets the first level's centroids of its group.
#pragma once
#include <cstdint>
#include <vector>

#include "attention/simhash.h"
#include "kernels/counts.h"

namespace lshformer {

// The most rows a tile has: what keeps the score block of a tile in the first-level cache (docs/numerics.md).
inline constexpr int kTileRows = 64;

// Which pairs of a visited block count. Flags of a pass; a pair counts if all hold.
enum PairRule : uint8_t {
  kAllPairs = 0,
  kSameBucket = 1,       // row and column share the bucket of this pass's hash function
  kFirstMeeting = 2,     // they share no bucket of an earlier hash function
  kColumnNotBefore = 4,  // position of the column ≥ position of the row
  kColumnBefore = 8,     // position of the column < position of the row
  kColumnNotAfter = 16,  // position of the column ≤ position of the row
  kFirstView = 32,       // the row's views held the column in no earlier pass, nor before in this one
  kSelfPenalty = 64,     // all count; a row that meets its own position has the score kSelfScore (ReformerAttention)
  kAlwaysSeen = 128,     // AlwaysSeen holds; the pass is no hash function's, and comes after all of them
};

// Pairs that are seen whatever the hash says: neighbours, and tokens that all see and that see all.
struct AlwaysSeen {
  int32_t reach = -1;                           // |row − column| ≤ reach
  int32_t global_first = -1, global_last = -1;  // positions; −1: none

  bool global_rows = true;  // global tokens see all, too

  bool HasGlobal() const { return global_first >= 0 || global_last >= 0; }
  bool Any() const { return reach >= 0 || HasGlobal(); }
  bool IsGlobal(int32_t position) const { return position == global_first || position == global_last; }
  bool Holds(int32_t row, int32_t column) const {
    const int32_t apart = row < column ? column - row : row - column;
    return apart <= reach || (global_rows && IsGlobal(row)) || IsGlobal(column);
  }
};

struct Segment {
  int32_t column_begin, column_end;  // in the pass's order of columns
  bool every_pair;                   // the rule holds for all pairs of tile and segment: no test is needed
};

struct Tile {
  int32_t row_begin, row_end;  // in the pass's order of rows; at most kTileRows
  int32_t segment_begin, segment_end;
};

// Rows and columns of one bucket, where the rows are not empty.
struct BucketRun {
  int32_t row_begin, row_end, column_begin, column_end;
};

struct TilePass {
  bool swapped = false;  // rows are keys, columns queries
  bool centroids =
      false;      // columns are the unit's centroids of one level, group by group; a tile's rows are of a group
  int level = 0;  // which; centroids
  uint8_t rule = kAllPairs;
  int hash = 0;                   // or round; kAlwaysSeen: how many there are
  int32_t columns = 0;            // the order of columns has so many places
  bool repeated_columns = false;  // beside own columns, others stand for the same positions
  int32_t own_columns = 0;        // where in it the order of rows stands; kSelfPenalty
  // How often a position is a row at most. Above 1 some are seldomer or not at all, and the next pass with 1 adds up
  // what they find.
  int32_t visits = 1;
  int64_t visit_rows = 0, visit_rows_before = 0;  // of this pass, and of those right before that are added up too
  int64_t visit_places = -1;  // offset into AttentionPlan::orders: [visits][length] where in it a position's rows are,
                              // −1: behind its last one
  int64_t row_order = -1, column_order = -1;  // offsets into AttentionPlan::orders; −1: the natural order
  int64_t tile_begin = 0, tile_end = 0;       // into AttentionPlan::tiles
  int64_t run_begin = 0,
          run_end = 0;  // into AttentionPlan::runs; empty unless every bucket's pairs count as they stand

  int64_t Rows(int32_t length) const { return visits > 1 ? visit_rows : length; }
  // The hash functions that the rule asks about: all up to the pass's own.
  int RuledHashes() const { return hash + (rule & kAlwaysSeen ? 0 : 1); }
};

// Which chunks of a round a query sees beside its own, in a circle of all rounds' chunks.
struct ChunkView {
  int32_t chunk = 0, back = 0, ahead = 0;
  bool wrap = false;  // whether it goes on from one round into the next
};

// Clusters of one size of a unit.
struct PlanLevel {
  int32_t count = 0;
  int32_t first = 0;      // number of the first among those of all levels
  int32_t children = 0;   // clusters of the next level that one is made of; 0: this is the last level
  int32_t open = 0;       // that a query opens at most
  int32_t opened_at = 0;  // their first place in AttentionPlan::query_buckets
  int64_t begins = 0;     // offset into AttentionPlan::orders: [count + 1], in the order of keys
};

// Clusters of keys of a unit (docs/attention.md, "Clustered"); their numbers: kernels/centroids.h.
struct PlanClusters {
  int32_t groups = 0;                      // of queries
  int32_t level_begin = 0, level_end = 0;  // into AttentionPlan::levels, the largest clusters first
  int64_t key_order = -1;                  // offset into AttentionPlan::orders
};

struct Unit {
  int32_t sequence = 0, head = 0;
  int64_t token_begin = 0;  // of the sequence
  int32_t length = 0;
  int32_t pass_begin = 0, pass_end = 0;
  Fill fill = Fill::kNone;  // kNone where every pair is seen
  ChunkView view;
  AlwaysSeen always;
  int32_t clusters = -1;      // in AttentionPlan::clusters, and Centroids::units; −1: none
  int64_t visited_pairs = 0;  // rows × columns over all tiles: the cost of the unit

  int32_t ChunksOfARound() const { return (length + view.chunk - 1) / view.chunk; }
};

struct AttentionPlan {
  std::vector<int32_t> cu_seqlens;
  int heads = 0, head_dim = 0, hashes = 0;  // hash functions or rounds
  bool shared_keys = false;                 // keys are the queries, normalised
  int64_t tokens = 0;
  std::vector<Unit> units;  // sequence by sequence, head by head; sequences of length 0 have none
  std::vector<TilePass> passes;
  std::vector<Tile> tiles;
  std::vector<Segment> segments;
  std::vector<BucketRun> runs;
  std::vector<int32_t> orders;
  // [heads, hashes, tokens]; empty where no rule asks for them. Clustered: the clusters that a query opened, of the
  // last level and then of the others, −1 where there were no more; and a key's one cluster, [heads, tokens].
  std::vector<int32_t> query_buckets, key_buckets;
  bool one_key_bucket = false;
  // [heads, rounds, tokens]: place in the circle of the chunk of a position; kFirstView. Sorted pairs: the chunk of a
  // query, and of a key.
  std::vector<int32_t> chunks, key_chunks;
  std::vector<PlanClusters> clusters;
  std::vector<PlanLevel> levels;
  std::vector<int32_t> seen;  // [heads, tokens]: how many keys query i sees; empty without a fill
  bool pairs_counted = true;  // counts.pairs_computed is filled in; else units tell (PairsMet)
  AttentionCounts counts;

  const int32_t* Order(int64_t offset) const { return offset < 0 ? nullptr : orders.data() + offset; }
  const int32_t* RowBuckets(const Unit& unit, const TilePass& pass, int hash) const {
    return Buckets(pass.swapped ? key_buckets : query_buckets, unit, hash);
  }
  const int32_t* ColumnBuckets(const Unit& unit, const TilePass& pass, int hash) const {
    if (one_key_bucket) return key_buckets.data() + int64_t{unit.head} * tokens + unit.token_begin;
    return Buckets(pass.swapped || shared_keys ? query_buckets : key_buckets, unit, hash);
  }
  const int32_t* RowChunks(const Unit& unit, int round) const { return Buckets(chunks, unit, round); }
  const int32_t* ColumnChunks(const Unit& unit, int round) const {
    return Buckets(shared_keys ? chunks : key_chunks, unit, round);
  }

 private:
  const int32_t* Buckets(const std::vector<int32_t>& buckets, const Unit& unit, int hash) const {
    return buckets.data() + (int64_t{unit.head} * hashes + hash) * tokens + unit.token_begin;
  }
};

// Distinct (row, column) that a unit meets; for plans whose pairs are not counted.
int64_t PairsMet(const AttentionPlan& plan, const Unit& unit);

}  // namespace lshformer
