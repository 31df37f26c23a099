// Which query meets which key: a plan, made before any score is computed and with nothing of it.
//
// Every attention here is one executor (kernels/execution.h) fed by different plans. For each sequence under each head
// a plan has passes; a pass orders queries and keys, cuts the ordered queries into tiles, and names for each tile the
// ranges of ordered keys that it meets, with a rule for the pairs inside them. What a query meets:
//
//   dense       every key: one pass, one range
//   local       the keys of a window around its position: one pass, ranges along the diagonal
//   simhash     the keys that share a bucket with it under one of the hash functions, a pass each; a pair that meets
//               under several counts once. Reference pairs: i ≤ j, and the mirror image with the same score. Sorted
//               pairs: queries and keys are sorted by bucket and cut into chunks, and it meets the chunks around its
//               own
//   reformer    sorted by bucket in each round, the keys in the chunks around its own; the rounds lie in a circle
//   clustered   the keys of the clusters that it opened, one by one, and every other cluster through its centroid:
//               those of the first level, and on each level below those that an opened cluster is made of
//
// and of the sparse kinds the keys that are always seen (a window of neighbours, global tokens), which no pass before
// met. Sequences that IsSparseAt leaves out get the kind's exact form. One sequence never sees another.
//
// A plan is plain arrays (kernels/planning/plan_arrays.h, which executors and tests read): 8 bytes per token, head and
// pass for the orders (Reformer 4), 16 for the buckets (4); nothing grows with tokens². It is built once per forward,
// reused by the backward, and the same however many threads build it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "attention/spec.h"
#include "kernels/centroids.h"
#include "kernels/hashing.h"
#include "kernels/packed_heads.h"

namespace lshformer {

struct AttentionPlan;
using AttentionPlanPtr = std::shared_ptr<const AttentionPlan>;

// What the executor is fed: a plan and, where it names clusters, the numbers of their centroids; else none.
struct PlannedAttention {
  AttentionPlanPtr plan;
  CentroidsPtr centroids = nullptr;
};

// The plan that spec asks for, from the tokens and what was drawn: finds the buckets of query and key (of the query
// alone where they are shared) where a sequence is long enough for it; else `projections` may be empty.
PlannedAttention BuildPlan(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                           HeadTensor<const float> key, const Projections& projections);
// The same from buckets, as FindBuckets has them or from elsewhere. Of clustered attention alone query and key are
// read.
PlannedAttention BuildPlan(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                           HeadTensor<const float> key, const Buckets& buckets);

// Of each kind.
AttentionPlanPtr BuildDensePlan(const AttentionShape& shape);
AttentionPlanPtr BuildLocalPlan(const AttentionSpec& spec, const AttentionShape& shape);
// With sorted pairs buckets are what is sorted by.
AttentionPlanPtr BuildSimHashPlan(const AttentionSpec& spec, const AttentionShape& shape,
                                  std::span<const int32_t> query_buckets, std::span<const int32_t> key_buckets);
// `buckets` may be empty where no sequence needs a hash. Throws where CheckView does.
AttentionPlanPtr BuildReformerPlan(const AttentionSpec& spec, const AttentionShape& shape,
                                   std::span<const int32_t> buckets);
// Clusters of the last level; they, groups and bundles may be of any size. Clusters are summed up by their keys'
// weighted means and chosen by the scores of query and key.
PlannedAttention BuildClusteredPlan(const AttentionSpec& spec, const AttentionShape& shape,
                                    HeadTensor<const float> query, HeadTensor<const float> key,
                                    std::span<const int32_t> query_groups, std::span<const int32_t> key_clusters);
// The same with GroupByHalving's groups and clusters.
PlannedAttention BuildClusteredPlan(const AttentionSpec& spec, const AttentionShape& shape,
                                    HeadTensor<const float> query, HeadTensor<const float> key,
                                    const ClusterDirections& directions);

}  // namespace lshformer
