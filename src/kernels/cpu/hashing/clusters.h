// The numbers of clustered attention (kernels/centroids.h): projections, clusters' weighted means, which clusters a
// query opens, and what its window takes out of the others.
#pragma once
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "kernels/centroids.h"
#include "kernels/cpu/aligned_floats.h"
#include "kernels/packed_heads.h"
#include "kernels/planning/plan_arrays.h"

namespace lshformer {

// Directions [heads, head_dim, depth], turned round for whole vectors.
class AlignedDirections {
 public:
  AlignedDirections(const std::vector<float>& directions, const AttentionShape& shape, int depth);
  const float* Of(int head) const { return aligned_.get() + int64_t{head} * rows_ * padded_; }  // [depth][padded]
  int head_dim() const { return head_dim_; }
  int padded() const { return padded_; }

 private:
  int head_dim_, padded_, rows_;
  AlignedFloats aligned_;
};

// to[l][i] = direction_l · x_i of `length` tokens from `first` on, for the first `depth` directions, the same on every
// instruction set; +∞ for a product that is no number.
void ProjectRows(HeadTensor<const float> x, int64_t first, int32_t length, int head, const AlignedDirections& along,
                 int depth, std::vector<float>& to);

// to[i] ← row i of `length` tokens from `first` on, [length][stride], zeros at their ends; stride: a multiple of 16.
// Whether all numbers are finite. Rows of a head lie far apart in a tensor of all: they are read from there once.
bool CopyRowsOfHead(HeadTensor<const float> from, int64_t first, int32_t length, int head, int head_dim, int stride,
                    float* to);
// to[i] ← row positions[i] of such a copy.
void GatherRows(const float* from, std::span<const int32_t> positions, int stride, float* to);

// Clusters of one size, and where each one's keys begin in their order.
struct CallLevel : PlanLevel {
  const int32_t* begins = nullptr;  // [count + 1]; the base's offset is of no use here
};

// One sequence under one head.
struct ClusterCall {
  // [length][stride], aligned, zeros at the ends of rows; in query_order and key_order.
  const float *query = nullptr, *key = nullptr;
  int head_dim = 0;
  int stride = 0;  // of vectors, in whole vectors of 16
  int32_t groups = 0;
  std::vector<CallLevel> levels;  // the largest clusters first
  int32_t length = 0;
  float scale = 1;                        // of scores
  const int32_t* key_order = nullptr;     // [length] positions of keys, cluster by cluster
  const int32_t* query_order = nullptr;   // [length] positions of queries, group by group
  const int32_t* group_begins = nullptr;  // [groups + 1], in query_order
  // Of queries that open the same clusters, in query_order, groups one after another; empty: each query its own.
  std::span<const int32_t> bundle_begins;
  const int32_t* key_clusters = nullptr;  // [length], by position, of the last level
  // Of the last level those clusters are opened that reach it, beside the best; units of log 2.
  std::optional<float> threshold;
  AlwaysSeen always;
};

// ClusterScores::choice of a cluster that is never scored.
inline constexpr float kNeverChosen = -std::numeric_limits<float>::infinity();

// What the choice and the rests of clusters need beside the centroids, [groups][clusters] of a level; there is
// room for a vector behind them.
struct ClusterScores {
  std::vector<float> choice;   // what is added to (q − m)·k̃ where clusters are chosen, units of log 2
  std::vector<float> weight;   // W; 0: none but global keys, the cluster is never scored
  std::vector<float> largest;  // M, units of log 2
  std::vector<float> spread;   // s
  std::vector<float> share;    // of the weight of the cluster that it is part of
};

// Fills in the means of groups and the weights, centroids and logits of clusters, level by level from the last, whose
// clusters are made of keys. Scores [level].
std::vector<ClusterScores> SumUpClusters(const ClusterCall& call, UnitCentroids& into);
// opened[(opened_at + p) · stride + position]: the cluster of a level that a query likes p-th best, of those that it is
// scored with, p < open; −1 where there are no more, or none that reaches the threshold. Of bundles the same for all
// queries (docs/attention.md).
void ChooseClusters(const ClusterCall& call, const UnitCentroids& centroids, const std::vector<ClusterScores>& scores,
                    int32_t* opened, int64_t stride);
// The same of bundles alone, which have one level: that of `scores`.
void ChooseOfBundles(const ClusterCall& call, const UnitCentroids& centroids, const ClusterScores& scores,
                     int32_t* opened, int64_t stride);
// Fills in the changes, and returns how many keys the queries meet key by key and how many centroids they are scored
// with, together.
int64_t FindChanges(const ClusterCall& call, const std::vector<ClusterScores>& scores, const int32_t* opened,
                    int64_t stride, UnitCentroids& into);

}  // namespace lshformer
