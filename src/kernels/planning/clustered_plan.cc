// Clustered attention's plans: what the numbers of a unit choose, as passes.
#include <algorithm>
#include <memory>
#include <numbers>
#include <span>
#include <utility>

#include "kernels/cpu/attention/workspace.h"
#include "kernels/cpu/hashing/clusters.h"
#include "kernels/cpu/hashing/halving.h"
#include "kernels/planning/plan_builder.h"

namespace lshformer {
namespace {

constexpr int kVectorFloats = 16;
constexpr int64_t kPiece = 256;  // tokens under one head whose sums and choices are worth a thread: about 0.1 ms

int Stride(int head_dim) { return (head_dim + kVectorFloats - 1) / kVectorFloats * kVectorFloats; }

// Where each of `parts` begins in an order by labels, and where the last ends.
std::vector<int32_t> Begins(const int32_t* labels, int32_t length, int32_t parts) {
  std::vector<int32_t> begins(static_cast<size_t>(parts) + 1, 0);
  for (int32_t i = 0; i < length; ++i) ++begins[labels[i] + 1];
  for (int32_t part = 0; part < parts; ++part) begins[part + 1] += begins[part];
  return begins;
}

class ClusteredUnit {
 public:
  // spec: of the unit's head.
  ClusteredUnit(const AttentionSpec& spec, const ClusterCall& call, const int32_t* query_bundles, UnitPlan& parts)
      : call_(call), parts_(parts), length_(parts.unit.length) {
    const auto& clustered = As<ClusteredAttention>(spec);
    const int32_t bundles = BundlesOfAGroup(clustered, length_);
    bundle_begins_ = Begins(query_bundles, length_, clustered.groups * bundles);
    for (int32_t group = 0; group <= clustered.groups; ++group)
      group_begins_.push_back(bundle_begins_[group * bundles]);
    query_groups_.resize(length_);
    for (int32_t i = 0; i < length_; ++i) query_groups_[i] = query_bundles[i] / bundles;
    parts.clusters.groups = call_.groups = clustered.groups;
    parts.clusters.key_order = 0;
    parts.unit.always = call_.always = AlwaysSeenOf(spec, length_);
    parts.unit.always.global_rows = call_.always.global_rows = false;
    Order(call.key_clusters);
    Order(query_bundles);
    AddLevels(LevelsOf(clustered, length_));
    if (clustered.bundle > 1) call_.bundle_begins = bundle_begins_;
    if (clustered.threshold) call_.threshold = static_cast<float>(*clustered.threshold * std::numbers::log2e);
    call_.group_begins = group_begins_.data();
    SetOrders();
  }

  // Rows of queries and keys in the orders in which they are read from here on, in the thread's work memory.
  void Sort(const float* query, const float* key) {
    const auto sorted = [&](const float* from, const int32_t* order, Slot slot) {
      float* to = ThreadWorkspace().Get<float>(slot, int64_t{length_} * call_.stride);
      GatherRows(from, {order, static_cast<size_t>(length_)}, call_.stride, to);
      return to;
    };
    call_.query = sorted(query, call_.query_order, Slot::kUnitGradQuery);
    call_.key = sorted(key, call_.key_order, Slot::kUnitGradKey);
  }

  // opened[p · stride + position]; written, and kept by the plan.
  void Build(int32_t* opened, int64_t stride) {
    UnitCentroids& centroids = parts_.centroids;
    const std::vector<ClusterScores> scores = SumUpClusters(call_, centroids);
    ChooseClusters(call_, centroids, scores, opened, stride);
    parts_.pairs_computed = FindChanges(call_, scores, opened, stride, centroids);
    const auto levels = static_cast<int>(parts_.levels.size());
    const bool bundled = !call_.bundle_begins.empty();
    bundled ? AddBundledPass(opened, stride) : AddOpenedPass(levels - 1, opened, stride);
    if (bundled ? parts_.unit.always.reach >= 0 : parts_.unit.always.Any()) AddNeighboursPass();
    for (int level = levels - 2; level >= 0; --level) AddOpenedPass(level, opened, stride);
    AddCentroidPass();
  }

 private:
  // The last level's opened clusters come first in the plan's buckets: rules ask about those.
  void AddLevels(const std::vector<ClusterLevel>& levels) {
    int32_t first = 0, opened_at = levels.back().open;
    for (size_t l = 0; l < levels.size(); ++l) {
      const bool last = l + 1 == levels.size();
      PlanLevel& level = parts_.levels.emplace_back();
      level.count = levels[l].count;
      level.first = first;
      level.children = last ? 0 : levels[l].cluster / levels[l + 1].cluster;
      level.open = levels[l].open;
      level.opened_at = last ? 0 : opened_at;
      first += level.count;
      if (!last) opened_at += level.open;
    }
    std::vector<int32_t> begins = Begins(call_.key_clusters, length_, levels.back().count);
    for (size_t l = levels.size(); l-- > 0;) {
      PlanLevel& level = parts_.levels[l];
      level.begins = static_cast<int64_t>(parts_.orders.size());
      if (level.children > 0) {
        for (int32_t c = 1; c <= level.count; ++c) begins[c] = begins[c * level.children];
        begins.resize(static_cast<size_t>(level.count) + 1);
      }
      parts_.orders.insert(parts_.orders.end(), begins.begin(), begins.end());
    }
  }

  // Where what the call reads of the unit's orders lies: they grow by each pass.
  void SetOrders() {
    call_.key_order = parts_.orders.data();
    call_.query_order = parts_.orders.data() + length_;
    call_.levels.clear();
    for (const PlanLevel& level : parts_.levels) call_.levels.push_back({level, parts_.orders.data() + level.begins});
  }

  void Order(const int32_t* labels) {
    const size_t begin = parts_.orders.size();
    parts_.orders.resize(begin + length_);
    BucketOrder(labels, length_, count_, parts_.orders.data() + begin);
  }

  // Rows [begin, end) of a pass, which all meet `seen`.
  void AddTiles(int32_t begin, int32_t end, std::span<const Segment> seen) {
    if (begin == end) return;
    const int32_t step = RowsOfATile(end - begin);
    for (int32_t row = begin; row < end; row += step)
      AddTile(parts_, row, std::min(end, row + step), seen.data(), seen.size());
  }

  // Where a cluster's keys begin, in their order.
  int32_t BeginOf(const PlanLevel& level, int32_t cluster) const { return parts_.orders[level.begins + cluster]; }

  void AddCentroidPass() {
    const int32_t count = parts_.levels.front().count;
    TilePass pass;
    pass.centroids = true;
    pass.columns = call_.groups * count;
    pass.row_order = length_;
    pass.tile_begin = static_cast<int64_t>(parts_.tiles.size());
    for (int32_t g = 0; g < call_.groups; ++g) {
      const Segment seen{g * count, (g + 1) * count, false};
      AddTiles(group_begins_[g], group_begins_[g + 1], {&seen, 1});
    }
    pass.tile_end = static_cast<int64_t>(parts_.tiles.size());
    parts_.passes.push_back(pass);
  }

  // What rows of a pass below meet: group · count + cluster, of keys the cluster. A query is a row for each cluster
  // that it opened; of a pass without visits it is one in any case, and meets `none`, behind all others, where it
  // opened none.
  struct OpenedRows {
    std::vector<int32_t> met, slots;  // slots: p · length + query, where the cluster is the query's p-th best
  };
  OpenedRows WhatQueriesOpened(const PlanLevel& level, int32_t none, const int32_t* opened, int64_t stride) const {
    OpenedRows rows;
    rows.met.reserve(static_cast<size_t>(level.open) * length_);
    rows.slots.reserve(static_cast<size_t>(level.open) * length_);
    for (int p = 0; p < level.open; ++p) {
      const int32_t* cluster = opened + (level.opened_at + p) * stride;
      for (int32_t i = 0; i < length_; ++i) {
        if (cluster[i] < 0 && level.open > 1) continue;
        const int32_t group = level.children == 0 ? 0 : query_groups_[i];
        rows.met.push_back(cluster[i] < 0 ? none : group * level.count + cluster[i]);
        rows.slots.push_back(p * length_ + i);
      }
    }
    return rows;
  }

  // What clusters of a level that queries opened are made of: keys, or the next level's centroids of the query's group.
  // Rows are (how well a query likes the cluster, query), sorted by what they meet.
  void AddOpenedPass(int of_level, const int32_t* opened, int64_t stride) {
    const PlanLevel& level = parts_.levels[of_level];
    if (level.open == 0) return;
    const bool keys = level.children == 0;
    const int32_t none = keys ? level.count : call_.groups * level.count;
    const auto [met, slots] = WhatQueriesOpened(level, none, opened, stride);
    const auto rows = static_cast<int32_t>(met.size());
    if (rows == 0) return;  // no cluster is ever scored
    TilePass pass;
    pass.visits = level.open;
    pass.visit_rows = rows;
    if (!parts_.passes.empty() && parts_.passes.back().visits > 1)
      pass.visit_rows_before = parts_.passes.back().visit_rows_before + parts_.passes.back().visit_rows;
    pass.columns = length_;
    pass.column_order = 0;
    if (!keys) {
      pass.centroids = true;
      pass.level = of_level + 1;
      pass.columns = none * level.children;
      pass.column_order = -1;
    }
    pass.row_order = static_cast<int64_t>(parts_.orders.size());
    const size_t places_at = static_cast<size_t>(level.open) * length_;
    parts_.orders.resize(parts_.orders.size() + rows + places_at, -1);
    int32_t* order = parts_.orders.data() + pass.row_order;
    BucketOrder(met.data(), rows, count_, order);
    pass.visit_places = pass.row_order + rows;
    int32_t* places = parts_.orders.data() + pass.visit_places;
    pass.tile_begin = static_cast<int64_t>(parts_.tiles.size());
    for (int32_t row = 0; row < rows;) {
      const int32_t node = met[order[row]];
      int32_t end = row;
      while (end < rows && met[order[end]] == node) ++end;
      Segment seen{node * level.children, (node + 1) * level.children, false};
      if (keys && node < none) seen = {BeginOf(level, node), BeginOf(level, node + 1), true};
      if (node == none) seen = {};
      AddTiles(row, end, {&seen, 1});
      row = end;
    }
    for (int32_t row = 0; row < rows; ++row) {
      const int32_t slot = slots[order[row]];
      places[slot] = row;
      order[row] = slot % length_;
    }
    pass.tile_end = static_cast<int64_t>(parts_.tiles.size());
    parts_.passes.push_back(pass);
  }

  // Keys of opened clusters, where a bundle's queries opened the same, and, without a window, global keys beyond.
  void AddBundledPass(const int32_t* opened, int64_t stride) {
    const PlanLevel& level = parts_.levels.back();
    TilePass pass;
    pass.columns = length_;
    pass.column_order = 0;
    pass.row_order = length_;
    std::vector<int32_t> globals;
    if (parts_.unit.always.reach < 0) {
      for (const int32_t position : {parts_.unit.always.global_first, parts_.unit.always.global_last})
        if (position >= 0) globals.push_back(position);
    }
    if (level.open == 0 && globals.empty()) return;
    if (!globals.empty()) {  // columns of their own, behind the others
      pass.column_order = static_cast<int64_t>(parts_.orders.size());
      pass.columns += static_cast<int32_t>(globals.size());
      parts_.orders.resize(parts_.orders.size() + static_cast<size_t>(pass.columns));
      const auto order = parts_.orders.begin() + pass.column_order;
      std::copy(globals.begin(), globals.end(), std::copy_n(parts_.orders.begin(), length_, order));
    }
    pass.tile_begin = static_cast<int64_t>(parts_.tiles.size());
    std::vector<int32_t> met;
    std::vector<Segment> seen;
    for (size_t bundle = 0; bundle + 1 < bundle_begins_.size(); ++bundle) {
      const int32_t begin = bundle_begins_[bundle], end = bundle_begins_[bundle + 1];
      if (begin == end) continue;
      met.clear();
      seen.clear();
      for (int p = 0; p < level.open; ++p) {
        const int32_t cluster = opened[p * stride + parts_.orders[length_ + begin]];
        if (cluster >= 0) met.push_back(cluster);
      }
      std::sort(met.begin(), met.end());
      const auto see = [&](int32_t first, int32_t last) {  // neighbours are one range
        if (!seen.empty() && seen.back().column_end == first) {
          seen.back().column_end = last;
        } else {
          seen.push_back({first, last, true});
        }
      };
      for (const int32_t cluster : met) see(BeginOf(level, cluster), BeginOf(level, cluster + 1));
      for (size_t g = 0; g < globals.size(); ++g) {
        const auto column = length_ + static_cast<int32_t>(g);
        if (!std::binary_search(met.begin(), met.end(), call_.key_clusters[globals[g]])) see(column, column + 1);
      }
      AddTiles(begin, end, seen);
    }
    pass.tile_end = static_cast<int64_t>(parts_.tiles.size());
    parts_.passes.push_back(pass);
  }

  // Neighbours and global keys that a query did not meet in an opened cluster: few rows to a tile, whose columns are
  // laid side by side.
  void AddNeighboursPass() {
    const AlwaysSeen& always = parts_.unit.always;
    const int32_t reach = std::max(0, always.reach);
    TilePass pass;
    pass.rule = kAlwaysSeen | kFirstMeeting;
    pass.hash = parts_.levels.back().open;
    pass.repeated_columns = true;
    pass.column_order = static_cast<int64_t>(parts_.orders.size());
    pass.tile_begin = static_cast<int64_t>(parts_.tiles.size());
    // More rows share gathered columns where windows overlap for the most part.
    const int32_t rows = reach < 2 * kVectorFloats ? kVectorFloats : 2 * kVectorFloats;
    for (int32_t row = 0; row < length_; row += rows) {
      const int32_t end = std::min(length_, row + rows);
      Segment seen{pass.columns, pass.columns, false};
      const auto add = [&](int32_t position) {
        parts_.orders.push_back(position);
        ++seen.column_end;
      };
      int32_t first = end, last = end;
      if (always.reach >= 0) first = std::max(0, row - reach), last = std::min(length_, end + reach);
      if (always.global_first >= 0 && first > 0) add(always.global_first);
      for (int32_t column = first; column < last; ++column) add(column);
      if (always.global_last >= 0 && (last < length_ || first == last)) add(always.global_last);
      AddTile(parts_, row, end, &seen, 1);
      pass.columns = seen.column_end;
    }
    pass.tile_end = static_cast<int64_t>(parts_.tiles.size());
    parts_.passes.push_back(pass);
  }

  ClusterCall call_;
  UnitPlan& parts_;
  int32_t length_;
  std::vector<int32_t> query_groups_, group_begins_, bundle_begins_, count_;
};

int64_t SelectionFlops(const AttentionSpec& spec, const AttentionShape& shape) {
  int64_t flops = 0;
  for (int b = 0; b < shape.sequences(); ++b) {
    const int64_t length = shape.cu_seqlens[b + 1] - shape.cu_seqlens[b];
    for (int head = 0; head < shape.heads; ++head) {
      if (!IsSparseAt(OfHead(spec, head), static_cast<int>(length))) continue;
      flops += 2 * SelectionProducts(*ClusteredOf(spec, head), length) * shape.head_dim * length;
    }
  }
  return flops;
}

// Of all levels together, by the head that opens the most.
int MostOpened(const AttentionSpec& spec, const AttentionShape& shape) {
  int most = 0;
  for (int head = 0; head < shape.heads; ++head) {
    const ClusteredAttention* own = ClusteredOf(spec, head);
    if (own == nullptr) continue;
    int opened = 0;
    for (const ClusterLevel& level : LevelsOf(*own, shape.longest())) opened += level.open;
    most = std::max(most, opened);
  }
  return most;
}

// label(unit, its queries, its keys, clusters) fills in the clusters of the unit's keys and returns the groups, or
// bundles, of its queries.
template <class Label>
PlannedAttention Build(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                       HeadTensor<const float> key, const Label& label) {
  auto plan = std::make_shared<AttentionPlan>();
  auto centroids = std::make_shared<Centroids>();
  plan->counts.selection_flops = SelectionFlops(spec, shape);
  const int64_t tokens = shape.tokens();
  if (AnySparse(spec, shape)) {
    plan->hashes = MostOpened(spec, shape);
    plan->one_key_bucket = true;
    plan->query_buckets.resize(static_cast<size_t>(shape.heads) * plan->hashes * tokens);
    plan->key_buckets.resize(static_cast<size_t>(shape.heads) * tokens);
  }
  int32_t *opened = plan->query_buckets.data(), *clusters = plan->key_buckets.data();
  AttentionPlanPtr built = BuildFromUnits(
      plan, shape,
      [&, opened, clusters, tokens](const AttentionPlan& planned, UnitPlan& parts) {
        const Unit& unit = parts.unit;
        const AttentionSpec& own = OfHead(spec, unit.head);
        if (!IsSparseAt(own, unit.length)) {
          AddExact(parts);
          return;
        }
        const int stride = Stride(shape.head_dim);
        bool finite = true;
        const auto copied = [&](const HeadTensor<const float>& from, Slot slot) {
          float* copy = ThreadWorkspace().Get<float>(slot, int64_t{unit.length} * stride);
          finite &= CopyRowsOfHead(from, unit.token_begin, unit.length, unit.head, shape.head_dim, stride, copy);
          return copy;
        };
        const float *own_query = copied(query, Slot::kUnitQuery), *own_key = copied(key, Slot::kUnitKey);
        if (!finite) {  // a mean with such a number is none, and which clusters are opened would hang on rounding
          AddExact(parts);
          return;
        }
        ClusterCall call;
        call.head_dim = shape.head_dim;
        call.stride = stride;
        call.length = unit.length;
        call.scale = static_cast<float>(ScaleOfScores(own, shape.head_dim));
        int32_t* own_clusters = clusters + unit.head * tokens + unit.token_begin;
        const std::vector<int32_t> bundles = label(unit, {own_query, stride, 0}, {own_key, stride, 0}, own_clusters);
        call.key_clusters = own_clusters;
        ClusteredUnit clustered(own, call, bundles.data(), parts);
        clustered.Sort(own_query, own_key);
        clustered.Build(opened + int64_t{unit.head} * planned.hashes * tokens + unit.token_begin, tokens);
      },
      kPiece, centroids.get());
  return {std::move(built), std::move(centroids)};
}

}  // namespace

PlannedAttention BuildClusteredPlan(const AttentionSpec& spec, const AttentionShape& shape,
                                    HeadTensor<const float> query, HeadTensor<const float> key,
                                    std::span<const int32_t> query_groups, std::span<const int32_t> key_clusters) {
  using Rows = HeadTensor<const float>;
  return Build(spec, shape, query, key, [&](const Unit& unit, const Rows&, const Rows&, int32_t* clusters) {
    const int64_t first = unit.head * shape.tokens() + unit.token_begin;
    std::copy_n(key_clusters.begin() + first, unit.length, clusters);
    return std::vector<int32_t>(query_groups.begin() + first, query_groups.begin() + first + unit.length);
  });
}

PlannedAttention BuildClusteredPlan(const AttentionSpec& spec, const AttentionShape& shape,
                                    HeadTensor<const float> query, HeadTensor<const float> key,
                                    const ClusterDirections& directions) {
  const HalvingDirections along(directions, shape);
  using Rows = HeadTensor<const float>;
  return Build(spec, shape, query, key,
               [&](const Unit& unit, const Rows& own_query, const Rows& own_key, int32_t* clusters) {
                 Halving halving;
                 std::vector<int32_t> bundles(unit.length);
                 HalveSequence(*ClusteredOf(spec, unit.head), own_query, own_key, {0, unit.length}, unit.head, along,
                               halving, bundles.data(), clusters);
                 return bundles;
               });
}

}  // namespace lshformer
