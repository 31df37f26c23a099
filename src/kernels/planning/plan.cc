// Dense and SimHash plans, and how the parts of units become one plan.
#include "kernels/plan.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/parallel.h"
#include "kernels/counts.h"
#include "kernels/planning/plan_builder.h"

namespace lshformer {

void AddTile(UnitPlan& parts, int32_t row_begin, int32_t row_end, const Segment* segments, size_t count) {
  const auto first = static_cast<int32_t>(parts.segments.size());
  for (size_t s = 0; s < count; ++s) {
    if (segments[s].column_begin >= segments[s].column_end) continue;
    parts.segments.push_back(segments[s]);
    parts.unit.visited_pairs += int64_t{row_end - row_begin} * (segments[s].column_end - segments[s].column_begin);
  }
  parts.tiles.push_back({row_begin, row_end, first, static_cast<int32_t>(parts.segments.size())});
}

int32_t RowsOfATile(int32_t rows) {
  constexpr int32_t kVector = 16;
  const int32_t tiles = (rows + kTileRows - 1) / kTileRows;
  return ((rows + tiles - 1) / tiles + kVector - 1) / kVector * kVector;
}

void BucketOrder(const int32_t* buckets, int32_t length, std::vector<int32_t>& count, int32_t* order) {
  const int32_t top = *std::max_element(buckets, buckets + length);
  if (int64_t{top} > 4 * int64_t{length} + 1024) {  // a table much larger than the sequence: its counters would not pay
    std::iota(order, order + length, 0);
    std::stable_sort(order, order + length, [buckets](int32_t a, int32_t b) { return buckets[a] < buckets[b]; });
    return;
  }
  count.assign(static_cast<size_t>(top) + 2, 0);
  for (int32_t i = 0; i < length; ++i) ++count[buckets[i] + 1];
  for (size_t b = 1; b < count.size(); ++b) count[b] += count[b - 1];
  for (int32_t i = 0; i < length; ++i) order[count[buckets[i]]++] = i;
}

namespace {

void AddDensePass(UnitPlan& parts) {
  const int32_t length = parts.unit.length;
  TilePass pass;
  pass.columns = length;
  pass.tile_begin = static_cast<int64_t>(parts.tiles.size());
  const Segment all{0, length, true};
  for (int32_t row = 0; row < length; row += kTileRows) AddTile(parts, row, std::min(length, row + kTileRows), &all, 1);
  pass.tile_end = static_cast<int64_t>(parts.tiles.size());
  parts.passes.push_back(pass);
}

void FindRuns(const int32_t* row_buckets, const int32_t* column_buckets, const int32_t* row_order,
              const int32_t* column_order, int32_t length, std::vector<BucketRun>& runs) {
  runs.clear();
  int32_t column = 0;
  for (int32_t row = 0; row < length;) {
    const int32_t bucket = row_buckets[row_order[row]];
    BucketRun run{row, row, 0, 0};
    while (run.row_end < length && row_buckets[row_order[run.row_end]] == bucket) ++run.row_end;
    while (column < length && column_buckets[column_order[column]] < bucket) ++column;
    run.column_begin = column;
    while (column < length && column_buckets[column_order[column]] == bucket) ++column;
    run.column_end = column;
    runs.push_back(run);
    row = run.row_end;
  }
}

// Cost of a tile in the executor's steps: rows come in vectors, columns in blocks, and a tile has a fixed cost.
int64_t TileCost(int64_t rows, int64_t columns) { return (rows + 15) / 16 * 16 * ((columns + 7) / 8 * 8 + 24); }

// The tiles of one bucket. Rows and columns are sorted by position within it, so where only later (or earlier) columns
// count, those on the wrong side of all of the tile's rows are left out and those on the right side of all need no
// test.
void AddBucketTiles(UnitPlan& parts, const BucketRun& run, const TilePass& pass, const int32_t* row_order,
                    const int32_t* column_order) {
  const bool always_test = (pass.rule & kFirstMeeting) != 0;
  const bool ordered = (pass.rule & (kColumnNotBefore | kColumnBefore)) != 0;
  for (int32_t row = run.row_begin; row < run.row_end; row += kTileRows) {
    const int32_t end = std::min(run.row_end, row + kTileRows);
    if (!ordered) {
      const Segment all{run.column_begin, run.column_end, !always_test};
      AddTile(parts, row, end, &all, 1);
      continue;
    }
    const int32_t* first = column_order + run.column_begin;
    const int32_t* last = column_order + run.column_end;
    const auto begin = static_cast<int32_t>(std::lower_bound(first, last, row_order[row]) - column_order);
    const auto middle = static_cast<int32_t>(std::lower_bound(first, last, row_order[end - 1]) - column_order);
    std::array<Segment, 2> both{{{begin, middle, false}, {middle, run.column_end, !always_test}}};
    if (pass.rule & kColumnBefore) both = {{{run.column_begin, begin, !always_test}, {begin, middle, false}}};
    AddTile(parts, row, end, both.data(), both.size());
  }
}

// Several small buckets in one tile; gaps of columns that no row of the tile meets are left out.
void AddMixedTile(UnitPlan& parts, const std::vector<BucketRun>& runs, size_t begin, size_t end,
                  std::vector<Segment>& segments) {
  segments.clear();
  for (size_t r = begin; r < end; ++r) {
    const BucketRun& run = runs[r];
    if (run.column_begin == run.column_end) continue;
    if (!segments.empty() && segments.back().column_end == run.column_begin) {
      segments.back().column_end = run.column_end;
    } else {
      segments.push_back({run.column_begin, run.column_end, false});
    }
  }
  AddTile(parts, runs[begin].row_begin, runs[end - 1].row_end, segments.data(), segments.size());
}

void AddTiles(UnitPlan& parts, const std::vector<BucketRun>& runs, const TilePass& pass, const int32_t* row_order,
              const int32_t* column_order) {
  std::vector<Segment> segments;
  for (size_t begin = 0; begin < runs.size();) {
    int64_t rows = runs[begin].row_end - runs[begin].row_begin;
    int64_t columns = runs[begin].column_end - runs[begin].column_begin;
    size_t end = begin + 1;
    for (; end < runs.size(); ++end) {  // join while one tile costs less than two
      const int64_t more_rows = runs[end].row_end - runs[end].row_begin;
      const int64_t more_columns = runs[end].column_end - runs[end].column_begin;
      if (rows + more_rows > kTileRows) break;
      const int64_t separate = TileCost(rows, columns) + TileCost(more_rows, more_columns);
      if (TileCost(rows + more_rows, columns + more_columns) > separate) break;
      rows += more_rows;
      columns += more_columns;
    }
    if (end == begin + 1) {
      AddBucketTiles(parts, runs[begin], pass, row_order, column_order);
    } else {
      AddMixedTile(parts, runs, begin, end, segments);
    }
    begin = end;
  }
}

void AddBucketPass(const AttentionPlan& plan, UnitPlan& parts, int hash, bool swapped, uint8_t rule) {
  const int32_t length = parts.unit.length;
  TilePass pass;
  pass.swapped = swapped;
  pass.hash = hash;
  pass.columns = length;
  pass.rule = static_cast<uint8_t>(rule | kSameBucket | (hash > 0 ? kFirstMeeting : 0));
  pass.row_order = static_cast<int64_t>(parts.orders.size());
  pass.column_order = pass.row_order + length;
  parts.orders.resize(parts.orders.size() + 2 * static_cast<size_t>(length));
  int32_t* row_order = parts.orders.data() + pass.row_order;
  int32_t* column_order = parts.orders.data() + pass.column_order;
  const int32_t* row_buckets = plan.RowBuckets(parts.unit, pass, hash);
  const int32_t* column_buckets = plan.ColumnBuckets(parts.unit, pass, hash);
  std::vector<int32_t> count;
  BucketOrder(row_buckets, length, count, row_order);
  BucketOrder(column_buckets, length, count, column_order);
  std::vector<BucketRun> runs;
  FindRuns(row_buckets, column_buckets, row_order, column_order, length, runs);
  pass.tile_begin = static_cast<int64_t>(parts.tiles.size());
  AddTiles(parts, runs, pass, row_order, column_order);
  pass.tile_end = static_cast<int64_t>(parts.tiles.size());
  if (pass.rule == kSameBucket) {
    pass.run_begin = static_cast<int64_t>(parts.runs.size());
    parts.runs.insert(parts.runs.end(), runs.begin(), runs.end());
    pass.run_end = static_cast<int64_t>(parts.runs.size());
  }
  parts.passes.push_back(pass);
}

// Of a pass whose buckets' pairs count as they stand.
int64_t CountRuns(const UnitPlan& parts, const TilePass& pass, std::vector<int32_t>& seen) {
  int64_t pairs = 0;
  for (int64_t r = pass.run_begin; r < pass.run_end; ++r) {
    const BucketRun& run = parts.runs[r];
    const int32_t columns = run.column_end - run.column_begin;
    pairs += int64_t{run.row_end - run.row_begin} * columns;
    for (int32_t row = run.row_begin; row < run.row_end; ++row) seen[parts.orders[pass.row_order + row]] += columns;
  }
  return pairs;
}

void CountPairs(const AttentionPlan& plan, const AttentionSpec& spec, UnitPlan& parts) {
  std::vector<int32_t> seen(parts.unit.length);
  for (const TilePass& pass : parts.passes) {
    const bool runs = pass.run_end > pass.run_begin;
    const int64_t pairs = runs ? CountRuns(parts, pass, seen) : CountPassPairs(plan, parts, pass, seen);
    if (!pass.swapped) parts.pairs_computed += pairs;  // the mirrored half reuses the products of the first
  }
  KeepSeen(As<SimHashAttention>(spec).fill, std::move(seen), parts);
}

void AddSimHashPasses(const AttentionPlan& plan, const AttentionSpec& spec, UnitPlan& parts) {
  const auto& simhash = As<SimHashAttention>(spec);
  const uint8_t order = simhash.pairs == Pairs::kReference ? kColumnNotBefore : kAllPairs;
  for (int hash = 0; hash < simhash.hashes; ++hash) AddBucketPass(plan, parts, hash, false, order);
  if (simhash.pairs == Pairs::kReference) {  // the mirrored half: row j meets column i < j with the score q_i·k_j
    for (int hash = 0; hash < simhash.hashes; ++hash) AddBucketPass(plan, parts, hash, true, kColumnBefore);
  }
  parts.unit.always = AlwaysSeenOf(spec, parts.unit.length);
  AddAlwaysPass(simhash.hashes, kFirstMeeting, parts);
  CountPairs(plan, spec, parts);
}

// Of one unit, behind those of the units before it; offsets become the plan's.
void Append(UnitPlan& parts, AttentionPlan& plan) {
  const auto tiles = static_cast<int64_t>(plan.tiles.size());
  const auto segments = static_cast<int32_t>(plan.segments.size());
  const auto runs = static_cast<int64_t>(plan.runs.size());
  const auto orders = static_cast<int64_t>(plan.orders.size());
  parts.unit.pass_begin = static_cast<int32_t>(plan.passes.size());
  for (TilePass pass : parts.passes) {
    if (pass.row_order >= 0) pass.row_order += orders;
    if (pass.column_order >= 0) pass.column_order += orders;
    if (pass.visit_places >= 0) pass.visit_places += orders;
    pass.tile_begin += tiles;
    pass.tile_end += tiles;
    pass.run_begin += runs;
    pass.run_end += runs;
    plan.passes.push_back(pass);
  }
  parts.unit.pass_end = static_cast<int32_t>(plan.passes.size());
  for (Tile tile : parts.tiles) {
    tile.segment_begin += segments;
    tile.segment_end += segments;
    plan.tiles.push_back(tile);
  }
  plan.segments.insert(plan.segments.end(), parts.segments.begin(), parts.segments.end());
  plan.runs.insert(plan.runs.end(), parts.runs.begin(), parts.runs.end());
  plan.orders.insert(plan.orders.end(), parts.orders.begin(), parts.orders.end());
  if (parts.levels.empty()) return;
  parts.unit.clusters = static_cast<int32_t>(plan.clusters.size());
  PlanClusters clusters = parts.clusters;
  clusters.key_order += orders;
  clusters.level_begin = static_cast<int32_t>(plan.levels.size());
  for (PlanLevel level : parts.levels) {
    level.begins += orders;
    plan.levels.push_back(level);
  }
  clusters.level_end = static_cast<int32_t>(plan.levels.size());
  plan.clusters.push_back(clusters);
}

// Lays the parts of all units end to end.
void Join(AttentionPlan& plan, std::vector<UnitPlan>& all, Centroids* centroids) {
  size_t all_tiles = 0, all_segments = 0, all_orders = 0;
  for (const UnitPlan& parts : all) {
    all_tiles += parts.tiles.size();
    all_segments += parts.segments.size();
    all_orders += parts.orders.size();
  }
  plan.tiles.reserve(all_tiles);
  plan.segments.reserve(all_segments);
  plan.orders.reserve(all_orders);
  for (UnitPlan& parts : all) {
    Append(parts, plan);
    if (!parts.levels.empty()) centroids->units.push_back(std::move(parts.centroids));
    if (!parts.seen.empty()) {
      if (plan.seen.empty()) plan.seen.resize(static_cast<size_t>(plan.heads) * plan.tokens);
      std::copy(parts.seen.begin(), parts.seen.end(),
                plan.seen.begin() + int64_t{parts.unit.head} * plan.tokens + parts.unit.token_begin);
    }
    plan.counts.pairs_computed += parts.pairs_computed;
    plan.counts.attention_flops += 4 * int64_t{plan.head_dim} * parts.unit.visited_pairs;
    plan.units.push_back(parts.unit);
    parts = {};
  }
}

}  // namespace

void AddExact(UnitPlan& parts) {
  AddDensePass(parts);
  parts.pairs_computed = int64_t{parts.unit.length} * parts.unit.length;
}

AttentionPlanPtr BuildFromUnits(std::shared_ptr<AttentionPlan> plan, const AttentionShape& shape,
                                const std::function<void(const AttentionPlan&, UnitPlan&)>& add_passes, int64_t piece,
                                Centroids* centroids) {
  plan->cu_seqlens.assign(shape.cu_seqlens.begin(), shape.cu_seqlens.end());
  plan->heads = shape.heads;
  plan->head_dim = shape.head_dim;
  plan->tokens = shape.tokens();
  std::vector<UnitPlan> all;
  for (int b = 0; b < shape.sequences(); ++b) {
    const int32_t length = shape.cu_seqlens[b + 1] - shape.cu_seqlens[b];
    for (int head = 0; head < shape.heads && length > 0; ++head) {
      UnitPlan& parts = all.emplace_back();
      parts.unit.sequence = b;
      parts.unit.head = head;
      parts.unit.token_begin = shape.cu_seqlens[b];
      parts.unit.length = length;
      plan->counts.pairs_total += int64_t{length} * length;
    }
  }
  const int64_t grain =
      std::max<int64_t>(1, piece * static_cast<int64_t>(all.size()) / std::max<int64_t>(1, plan->tokens * plan->heads));
  ParallelFor(static_cast<int64_t>(all.size()), grain, [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) add_passes(*plan, all[u]);
  });
  Join(*plan, all, centroids);
  return plan;
}

AttentionPlanPtr BuildDensePlan(const AttentionShape& shape) {
  return BuildFromUnits(std::make_shared<AttentionPlan>(), shape,
                        [](const AttentionPlan&, UnitPlan& parts) { AddExact(parts); });
}

int64_t SimHashFlops(const AttentionSpec& spec, const AttentionShape& shape) {
  const auto& simhash = As<SimHashAttention>(spec);
  int64_t flops = 0;
  for (int b = 0; b < shape.sequences(); ++b) {
    const int64_t length = shape.cu_seqlens[b + 1] - shape.cu_seqlens[b];
    if (IsSparseAt(spec, static_cast<int>(length)))
      flops += int64_t{4} * BandsOf(simhash, length) * shape.head_dim * length * simhash.hashes * shape.heads;
  }
  return flops;
}

AttentionPlanPtr BuildSimHashPlan(const AttentionSpec& spec, const AttentionShape& shape,
                                  std::span<const int32_t> query_buckets, std::span<const int32_t> key_buckets) {
  const auto& simhash = As<SimHashAttention>(spec);
  if (simhash.pairs == Pairs::kSorted) return BuildSortedPlan(spec, shape, query_buckets, key_buckets);
  auto plan = std::make_shared<AttentionPlan>();
  plan->hashes = simhash.hashes;
  plan->query_buckets.assign(query_buckets.begin(), query_buckets.end());
  plan->key_buckets.assign(key_buckets.begin(), key_buckets.end());
  plan->counts.selection_flops = SimHashFlops(spec, shape);
  return BuildFromUnits(plan, shape, [&spec](const AttentionPlan& built, UnitPlan& parts) {
    if (IsSparseAt(spec, parts.unit.length)) {
      AddSimHashPasses(built, spec, parts);
    } else {
      AddExact(parts);
    }
  });
}

AttentionCounts Counts(const AttentionPlan& plan) {
  AttentionCounts counts = plan.counts;
  if (plan.pairs_counted) return counts;
  std::vector<int64_t> pairs(plan.units.size());
  ParallelFor(static_cast<int64_t>(pairs.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) pairs[u] = PairsMet(plan, plan.units[u]);
  });
  counts.pairs_computed = std::accumulate(pairs.begin(), pairs.end(), int64_t{0});
  return counts;
}

}  // namespace lshformer
