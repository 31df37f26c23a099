// What plan builders share: the parts of one unit, and how all units become a plan.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/plan.h"
#include "kernels/planning/plan_arrays.h"

namespace lshformer {

// What one unit adds to the plan, before all are laid end to end.
struct UnitPlan {
  Unit unit;
  std::vector<TilePass> passes;
  std::vector<Tile> tiles;
  std::vector<Segment> segments;
  std::vector<BucketRun> runs;
  std::vector<int32_t> orders;
  std::vector<int32_t> seen;
  PlanClusters clusters;          // of a clustered unit, else of no groups; level_begin, level_end are not set
  std::vector<PlanLevel> levels;  // of a clustered unit, else none
  UnitCentroids centroids;        // of those
  int64_t pairs_computed = 0;
};

// Appends a tile that meets the segments that are not empty, and counts the pairs visited.
void AddTile(UnitPlan& parts, int32_t row_begin, int32_t row_end, const Segment* segments, size_t count);

// Rows of each tile but the last where a chunk of `rows` is cut: of about equal size, in whole vectors. 65 rows as 48
// and 17 cost less than as 64 and 1.
int32_t RowsOfATile(int32_t rows);

// Adds the number of columns that count in a pass to seen[row] and returns their sum. Integers only.
int64_t CountPassPairs(const AttentionPlan& plan, const UnitPlan& parts, const TilePass& pass,
                       std::vector<int32_t>& seen);

// What a unit keeps of seen[row]: nothing without a fill, and no fill where every row sees all.
void KeepSeen(Fill fill, std::vector<int32_t> seen, UnitPlan& parts);

// Operations of hashing the queries and keys of all sequences that are hashed.
int64_t SimHashFlops(const AttentionSpec& spec, const AttentionShape& shape);

// SimHash's plan with sorted pairs; called by BuildSimHashPlan.
AttentionPlanPtr BuildSortedPlan(const AttentionSpec& spec, const AttentionShape& shape,
                                 std::span<const int32_t> query_buckets, std::span<const int32_t> key_buckets);

// Whether some pairs are seen whatever the hash says.
bool AnyAlwaysSeen(const AttentionSpec& spec);

// Which pairs those are, of a sequence.
AlwaysSeen AlwaysSeenOf(const AttentionSpec& spec, int32_t length);

// The last pass of a hashed unit: the pairs of unit.always, where no pass before met them. `rule`: what tells those
// (kFirstMeeting or kFirstView), and other flags that hold for all of the unit's pairs.
void AddAlwaysPass(int hashes, uint8_t rule, UnitPlan& parts);

// The pass and pairs of exact attention.
void AddExact(UnitPlan& parts);

// Positions sorted by (bucket, position). `count` is work memory.
void BucketOrder(const int32_t* buckets, int32_t length, std::vector<int32_t>& count, int32_t* order);

// Calls add_passes for every sequence and head of `shape`, by all threads, and lays their parts end to end. `plan` has
// what the builder knows before: buckets, hashes, selection_flops. piece: tokens whose planning is worth waking a
// thread. centroids: where those of clustered units go.
AttentionPlanPtr BuildFromUnits(std::shared_ptr<AttentionPlan> plan, const AttentionShape& shape,
                                const std::function<void(const AttentionPlan& plan, UnitPlan& parts)>& add_passes,
                                int64_t piece = 8192, Centroids* centroids = nullptr);

}  // namespace lshformer
