// The numbers of clustered attention that a plan names and does not hold: of each group of queries its mean, and of
// each cluster of keys a centroid, its weights and its logit (docs/attention.md, "Clustered"). A plan and its centroids
// are made together (BuildClusteredPlan); the executor takes them as an input beside queries, keys and values.
//
//   with m the mean query of a group and w_r = exp(scale · m·k_r):   W = Σ_r w_r,   centroid k̃ = Σ_r (w_r / W) k_r
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace lshformer {

// What one query has taken out of a cluster that it did not open.
struct CentroidChange {
  int32_t cluster;  // its number among those of all levels
  float logit;      // log₂ of the part of the cluster's weight that is left; that of a masked score: none
};

// Clusters of one size, summed up for each group of queries; `stride` is the unit's.
struct LevelCentroids {
  std::vector<float> keys;     // [groups][count][stride]: k̃
  std::vector<float> weights;  // [groups][length], in the order of keys: w / W; room for a vector behind them
  std::vector<float> logits;   // [groups][count]: M + log W, units of log 2; masked: none but global keys
};

// One sequence under one head.
struct UnitCentroids {
  int stride = 0;                       // of vectors, in whole vectors of 16
  std::vector<float> mean_queries;      // [groups][stride]: m
  std::vector<LevelCentroids> levels;   // the largest clusters first
  std::vector<int64_t> change_begins;   // [length + 1], by the position of a query
  std::vector<CentroidChange> changes;  // of a query by cluster

  int64_t Bytes() const {
    auto bytes = static_cast<int64_t>(sizeof(float) * mean_queries.size() + sizeof(int64_t) * change_begins.size() +
                                      sizeof(CentroidChange) * changes.size());
    for (const LevelCentroids& level : levels)
      bytes += static_cast<int64_t>(sizeof(float) * (level.keys.size() + level.weights.size() + level.logits.size()));
    return bytes;
  }
};

struct Centroids {
  std::vector<UnitCentroids> units;  // in the order of AttentionPlan::clusters

  int64_t Bytes() const {
    int64_t bytes = 0;
    for (const UnitCentroids& unit : units) bytes += unit.Bytes();
    return bytes;
  }
};
using CentroidsPtr = std::shared_ptr<const Centroids>;

}  // namespace lshformer
