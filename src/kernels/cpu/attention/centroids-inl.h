// Columns that are centroids of clusters: what gathers them, in place of keys and values.
#if defined(LSHFORMER_CENTROIDS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LSHFORMER_CENTROIDS_INL
#undef LSHFORMER_CENTROIDS_INL
#else
#define LSHFORMER_CENTROIDS_INL
#endif

#include <algorithm>

#include "kernels/cpu/attention/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {

// to[k] ← Σ_r weights[r] x_r[k] for the `vectors` · kLanes numbers from k = `at` on.
template <int vectors>
HWY_INLINE void AddUpKeys(UnitTensor<const float> from, const UnitWork& work, const int32_t* positions,
                          const float* weights, int32_t count, int at, float* to) {
  const Floats d;
  FloatVec sums[vectors];
  for (int v = 0; v < vectors; ++v) sums[v] = hn::Zero(d);
  for (int32_t r = 0; r < count; ++r) {
    if (weights[r] == 0) continue;  // a global key, which takes no part whatever its numbers are
    const float* row = from.at(positions[r]) + at;
    const FloatVec weight = hn::Set(d, weights[r]);
    for (int v = 0; v < vectors; ++v) sums[v] = hn::MulAdd(weight, hn::LoadU(d, row + v * kLanes), sums[v]);
  }
  for (int v = 0; v < vectors; ++v) hn::Store(sums[v], d, to + at + v * kLanes);
}

// What GatherRows does, for a pass of centroids [begin, end): their keys, which were made with the plan, and the
// weighted means of their keys' values.
inline void CopyCentroidKeys(const UnitWork& work, const TilePass& pass, int64_t begin, int64_t end, float* to,
                             uint8_t* not_finite) {
  const UnitCentroids& centroids = work.centroids();
  const float* keys = centroids.levels[pass.level].keys.data();
  const int padded = work.padded();
  for (int64_t i = begin; i < end; ++i, to += padded) {
    std::copy_n(keys + i * centroids.stride, centroids.stride, to);
    std::fill(to + centroids.stride, to + padded, 0.0f);
    not_finite[i - begin] |= IsFinite(to, padded) ? 0 : 1;
  }
}

inline void GatherCentroidValues(const UnitWork& work, const TilePass& pass, int64_t begin, int64_t end, float* to,
                                 uint8_t* not_finite) {
  const UnitTensor<const float> from = work.value;
  const PlanLevel& level = work.level(pass.level);
  const int32_t *begins = work.begins(level), *order = work.plan->orders.data() + work.clusters().key_order;
  const float* all_weights = work.centroids().levels[pass.level].weights.data();
  const int padded = work.padded(), head_dim = work.head_dim();
  // Cluster by cluster, whose values stay in the first cache while all groups look at them.
  for (int32_t c = 0; c < level.count; ++c) {
    const int64_t first = begins[c];
    const auto count = static_cast<int32_t>(begins[c + 1] - first);
    const int32_t* positions = order + first;
    const int64_t before = (c + level.count - begin % level.count) % level.count;
    for (int64_t i = begin + before; i < end; i += level.count) {
      const float* weights = all_weights + i / level.count * work.unit->length + first;
      float* row = to + (i - begin) * padded;
      int k = 0;
      for (; k + 4 * kLanes <= head_dim; k += 4 * kLanes) AddUpKeys<4>(from, work, positions, weights, count, k, row);
      for (; k + 2 * kLanes <= head_dim; k += 2 * kLanes) AddUpKeys<2>(from, work, positions, weights, count, k, row);
      for (; k + kLanes <= head_dim; k += kLanes) AddUpKeys<1>(from, work, positions, weights, count, k, row);
      std::fill(row + k, row + padded, 0.0f);
      for (; k < head_dim; ++k) {
        for (int32_t r = 0; r < count; ++r)
          if (weights[r] != 0) row[k] += weights[r] * from.at(positions[r])[k];
      }
      not_finite[i - begin] |= IsFinite(row, padded) ? 0 : 1;
    }
  }
}

// A centroid drops out as a key behind all others would.
inline int64_t DropoutPosition(const UnitWork& work, const TilePass& pass, const Columns& columns, int64_t column) {
  if (!pass.centroids) return columns.position(column);
  const PlanLevel& level = work.level(pass.level);
  return work.unit->length + level.first + column % level.count;
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
