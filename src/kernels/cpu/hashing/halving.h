// Rows cut into parts of equal size by halves (kernels/hashing.h, GroupByHalving).
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/cpu/hashing/clusters.h"
#include "kernels/hashing.h"
#include "kernels/packed_heads.h"

namespace lshformer {

// The tokens of a sequence among those of a batch.
struct TokenRange {
  int64_t first = 0;
  int32_t length = 0;
};

// One sequence under one head. Kept between calls for its memory.
class Halving {
 public:
  // Parts of a head's tokens along the first `directions` of its directions, which cuts take in turn. labels: [length].
  // Cuts go between groups of `grouped` parts first (parts: a multiple), then through them. The same on every
  // instruction set.
  void Run(HeadTensor<const float> x, TokenRange tokens, int head, const AlignedDirections& along, int directions,
           int32_t parts, int32_t* labels, int32_t grouped = 1);

 private:
  int32_t Begin(int32_t part) const { return static_cast<int32_t>((int64_t{part} * length_ + parts_ - 1) / parts_); }
  const float* ProjectionsAt(int depth) const { return projections_.data() + int64_t{depth % directions_} * length_; }
  void Cut(int32_t first, int32_t last, int depth);
  void SplitAt(int32_t begin, int32_t middle, int32_t end, int depth);
  // Equal numbers keep the order that they had, by the levels above.
  bool ComesBefore(int32_t a, int32_t b, int depth) const;

  int directions_ = 1;
  int32_t length_ = 0, parts_ = 0, grouped_ = 1;
  std::vector<int32_t> order_, bins_, below_, inside_, above_;  // room for a vector behind them
  std::vector<float> projections_, values_;                     // projections_: [directions][length], no NaN
};

// Those of all heads, turned round for whole vectors.
struct HalvingDirections {
  HalvingDirections(const ClusterDirections& directions, const AttentionShape& shape);
  AlignedDirections key, query;
};

// Of one sequence under one head, by token: the clusters of the last level that keys lie in, and the groups, or where
// queries open clusters together the bundles, of queries.
void HalveSequence(const ClusteredAttention& clustered, HeadTensor<const float> query, HeadTensor<const float> key,
                   TokenRange tokens, int head, const HalvingDirections& along, Halving& halving, int32_t* bundles,
                   int32_t* clusters);

}  // namespace lshformer
