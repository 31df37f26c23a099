#include <algorithm>

#include "base/parallel.h"
#include "base/philox.h"
#include "kernels/attention_kinds.h"
#include "kernels/cpu/hashing/halving.h"

namespace lshformer {
namespace {

constexpr uint64_t kOfQueries = uint64_t{1} << 32;  // beside the depth, in a direction's stream

// What the heads ask for at most.
int KeyDepth(const AttentionSpec& spec, const AttentionShape& shape) {
  int depth = 0;
  for (int head = 0; head < shape.heads; ++head)
    if (const ClusteredAttention* own = ClusteredOf(spec, head))
      depth = std::max(depth, DepthOf(ClustersOf(*own, shape.longest())));
  return depth;
}

int QueryDepth(const AttentionSpec& spec, const AttentionShape& shape) {
  int depth = 0;
  for (int head = 0; head < shape.heads; ++head)
    if (const ClusteredAttention* own = ClusteredOf(spec, head))
      depth = std::max(depth, QueryDirections(*own, shape.longest()));
  return depth;
}

std::vector<float> Draw(uint64_t seed, uint32_t layer, uint64_t side, const AttentionShape& shape, int depth) {
  std::vector<float> drawn(static_cast<size_t>(shape.heads) * shape.head_dim * depth);
  for (int head = 0; head < shape.heads; ++head) {
    const auto of_layer = static_cast<uint32_t>(shape.first_head + head);
    const uint64_t key = StreamKey(seed, /*step=*/0, layer, of_layer, Purpose::kDirections);
    for (int level = 0; level < depth; ++level) {
      PhiloxStream normals(key, side | static_cast<uint64_t>(level));
      for (int d = 0; d < shape.head_dim; ++d)
        drawn[(int64_t{head} * shape.head_dim + d) * depth + level] = static_cast<float>(normals.Normal());
    }
  }
  return drawn;
}

}  // namespace

ClusterDirections DrawClusterDirections(const AttentionSpec& spec, const AttentionShape& shape, uint32_t layer) {
  ClusterDirections drawn;
  drawn.key_depth = KeyDepth(spec, shape);
  drawn.query_depth = QueryDepth(spec, shape);
  drawn.key = Draw(spec.seed, layer, 0, shape, drawn.key_depth);
  drawn.query = Draw(spec.seed, layer, kOfQueries, shape, drawn.query_depth);
  return drawn;
}

Buckets GroupByHalving(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                       HeadTensor<const float> key, const ClusterDirections& directions) {
  const int64_t tokens = shape.tokens();
  Buckets buckets{std::vector<int32_t>(shape.heads * tokens), std::vector<int32_t>(shape.heads * tokens)};
  const HalvingDirections along(directions, shape);
  const int64_t units = int64_t{shape.sequences()} * shape.heads;
  const int64_t grain = std::max<int64_t>(1, 1024 * units / std::max<int64_t>(1, tokens * shape.heads));
  ParallelFor(units, grain, [&](int64_t begin, int64_t end) {
    Halving halving;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int head = static_cast<int>(unit % shape.heads);
      const int64_t first = shape.cu_seqlens[unit / shape.heads];
      const auto length = static_cast<int32_t>(shape.cu_seqlens[unit / shape.heads + 1] - first);
      if (!IsSparseAt(OfHead(spec, head), length)) continue;
      const int64_t at = head * tokens + first;
      HalveSequence(*ClusteredOf(spec, head), query, key, {first, length}, head, along, halving,
                    buckets.query.data() + at, buckets.key.data() + at);
    }
  });
  return buckets;
}

Projections DrawProjections(const ClusteredAttention&, const AttentionSpec& spec, const AttentionShape& shape,
                            uint32_t layer, uint64_t) {
  return DrawClusterDirections(spec, shape, layer);
}

bool Suffice(const ClusteredAttention&, const AttentionSpec& spec, const Projections& projections,
             const AttentionShape& shape) {
  const auto* directions = std::get_if<ClusterDirections>(&projections);
  return directions != nullptr && directions->key_depth >= KeyDepth(spec, shape) &&
         directions->query_depth >= QueryDepth(spec, shape);
}

Buckets FindBuckets(const ClusteredAttention&, const PlanInputs& in, const Projections& projections) {
  return GroupByHalving(in.spec, in.shape, in.query, in.key, std::get<ClusterDirections>(projections));
}

PlannedAttention Plan(const ClusteredAttention&, const PlanInputs& in, const Projections& projections) {
  if (!AnySparse(in.spec, in.shape)) return {BuildDensePlan(in.shape)};
  return BuildClusteredPlan(in.spec, in.shape, in.query, in.key, std::get<ClusterDirections>(projections));
}

PlannedAttention Plan(const ClusteredAttention&, const PlanInputs& in, const Buckets& buckets) {
  return BuildClusteredPlan(in.spec, in.shape, in.query, in.key, buckets.query, buckets.key);
}

}  // namespace lshformer
