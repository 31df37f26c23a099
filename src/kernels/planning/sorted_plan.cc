// Plans of SimHash with sorted pairs: a pass is a hash function, queries and keys each sorted by (bucket, position) and
// cut into chunks. Chunk c of the queries meets chunks c − look_back … c + look_ahead of the keys, whatever the buckets
// are: one large bucket costs what many small ones do.
#include <algorithm>

#include "kernels/planning/plan_builder.h"

namespace lshformer {
namespace {

class SortedUnit {
 public:
  SortedUnit(const SimHashAttention& simhash, UnitPlan& parts)
      : simhash_(simhash),
        parts_(parts),
        length_(parts.unit.length),
        chunks_((int64_t{length_} + simhash.chunk - 1) / simhash.chunk) {
    const auto most = static_cast<int32_t>(chunks_);  // there is nothing to see beyond
    parts.unit.view = {simhash.chunk, std::min(simhash.look_back, most), std::min(simhash.look_ahead, most), false};
  }

  void AddPass(int hash, const int32_t* query_buckets, const int32_t* key_buckets) {
    TilePass pass;
    pass.hash = hash;
    pass.rule = hash > 0 ? kFirstView : kAllPairs;
    pass.columns = length_;
    pass.row_order = static_cast<int64_t>(parts_.orders.size());
    pass.column_order = pass.row_order + length_;
    parts_.orders.resize(parts_.orders.size() + 2 * static_cast<size_t>(length_));
    BucketOrder(query_buckets, length_, count_, parts_.orders.data() + pass.row_order);
    BucketOrder(key_buckets, length_, count_, parts_.orders.data() + pass.column_order);
    pass.tile_begin = static_cast<int64_t>(parts_.tiles.size());
    for (int64_t c = 0; c < chunks_; ++c) {
      const Segment seen{Begin(c - parts_.unit.view.back), Begin(c + parts_.unit.view.ahead + 1), hash == 0};
      const int32_t end = Begin(c + 1), step = RowsOfATile(end - Begin(c));
      for (int32_t row = Begin(c); row < end; row += step) AddTile(parts_, row, std::min(end, row + step), &seen, 1);
    }
    pass.tile_end = static_cast<int64_t>(parts_.tiles.size());
    parts_.passes.push_back(pass);
  }

  // The chunk of every query and key under the hash function of the last pass.
  void LabelChunks(int32_t* query_chunks, int32_t* key_chunks) const {
    const TilePass& pass = parts_.passes.back();
    for (int32_t place = 0; place < length_; ++place) {
      query_chunks[parts_.orders[pass.row_order + place]] = place / simhash_.chunk;
      key_chunks[parts_.orders[pass.column_order + place]] = place / simhash_.chunk;
    }
  }

 private:
  int32_t Begin(int64_t chunk) const {
    return static_cast<int32_t>(std::clamp<int64_t>(chunk * simhash_.chunk, 0, length_));
  }

  const SimHashAttention& simhash_;
  UnitPlan& parts_;
  int32_t length_;
  int64_t chunks_;
  std::vector<int32_t> count_;  // of BucketOrder
};

void CountPairs(const AttentionPlan& plan, const AttentionSpec& spec, UnitPlan& parts) {
  if (!plan.pairs_counted) return;
  std::vector<int32_t> seen(parts.unit.length);
  for (const TilePass& pass : parts.passes) parts.pairs_computed += CountPassPairs(plan, parts, pass, seen);
  KeepSeen(As<SimHashAttention>(spec).fill, std::move(seen), parts);
}

}  // namespace

AttentionPlanPtr BuildSortedPlan(const AttentionSpec& spec, const AttentionShape& shape,
                                 std::span<const int32_t> query_buckets, std::span<const int32_t> key_buckets) {
  const auto& simhash = As<SimHashAttention>(spec);
  auto plan = std::make_shared<AttentionPlan>();
  plan->hashes = simhash.hashes;
  plan->counts.selection_flops = SimHashFlops(spec, shape);
  // Counting distinct pairs costs a good part of what they do, and only a fill needs it.
  plan->pairs_counted = simhash.hashes == 1 || simhash.fill != Fill::kNone;
  const bool labels = simhash.hashes > 1 || AnyAlwaysSeen(spec);  // a later pass asks for earlier views
  if (labels) {
    plan->chunks.resize(query_buckets.size());
    plan->key_chunks.resize(key_buckets.size());
  }
  int32_t *query_chunks = plan->chunks.data(), *key_chunks = plan->key_chunks.data();
  const int64_t tokens = shape.tokens();
  return BuildFromUnits(plan, shape, [=, &spec, &simhash](const AttentionPlan& built, UnitPlan& parts) {
    if (!IsSparseAt(spec, parts.unit.length)) {
      AddExact(parts);
      return;
    }
    SortedUnit unit(simhash, parts);
    for (int hash = 0; hash < simhash.hashes; ++hash) {
      const int64_t first = (int64_t{parts.unit.head} * simhash.hashes + hash) * tokens + parts.unit.token_begin;
      unit.AddPass(hash, query_buckets.data() + first, key_buckets.data() + first);
      if (labels) unit.LabelChunks(query_chunks + first, key_chunks + first);
    }
    parts.unit.always = AlwaysSeenOf(spec, parts.unit.length);
    AddAlwaysPass(simhash.hashes, kFirstView, parts);
    CountPairs(built, spec, parts);
  });
}

}  // namespace lshformer
