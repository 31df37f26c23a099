// What those who choose clusters for queries share, compiled once for each instruction set.
#if defined(LSHFORMER_CLUSTER_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LSHFORMER_CLUSTER_ROWS_INL
#undef LSHFORMER_CLUSTER_ROWS_INL
#else
#define LSHFORMER_CLUSTER_ROWS_INL
#endif

#include <cstring>

#include "kernels/cpu/attention/executor.h"
#include "kernels/cpu/hashing/clusters.h"
#include "kernels/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {

// Queries [begin, begin + count) of a group, less its mean, as products take them: transposed[k][r].
inline void GatherGroupRows(const ClusterCall& call, const UnitCentroids& centroids, int64_t group, int32_t begin,
                            int32_t count, float* rows, float* transposed) {
  const int stride = call.stride;
  std::memcpy(rows, call.query + int64_t{begin} * stride, sizeof(float) * count * stride);
  TakeOffRows(centroids.mean_queries.data() + group * stride, count, stride, stride, rows);
  TransposeScaled(rows, stride, count, call.head_dim, RoundUp(count, kLanes), call.scale * kLog2E, transposed);
}

// to[i] ← the sum of the lanes of sums[i], of four vectors; there is room for a vector.
#if HWY_TARGET == HWY_SCALAR
inline void StoreLaneSums(const FloatVec* sums, float* to) {
  for (int i = 0; i < 4; ++i) to[i] = hn::GetLane(sums[i]);
}
#else
HWY_INLINE void StoreLaneSums(const FloatVec* sums, float* to) {
  const Floats d;
  const auto neighbours = [d](FloatVec low, FloatVec high)
                              HWY_ATTR { return hn::Add(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low)); };
  FloatVec all = neighbours(neighbours(sums[0], sums[1]), neighbours(sums[2], sums[3]));
  for (int lanes = kLanes; lanes > 4; lanes /= 2) all = neighbours(all, all);
  hn::StoreU(all, d, to);
}
#endif

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
