#include "kernels/cpu/hashing/clusters.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/attention/executor.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/hashing/clusters.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/vector_math-inl.h"
// clang-format off
#include <hwy/contrib/math/math-inl.h>  // after foreach_target.h
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace {

// means[g][stride]: of the queries of each group, 0 of none.
void MeanQueries(const ClusterCall& call, int groups, int stride, float* means) {
  const Floats d;
  for (int g = 0; g < groups; ++g, means += stride) {
    std::fill_n(means, stride, 0.0f);
    const int32_t begin = call.group_begins[g], end = call.group_begins[g + 1];
    if (begin == end) continue;
    const float share = 1.0f / static_cast<float>(end - begin);
    for (int32_t i = begin; i < end; ++i) {
      const float* row = call.query + int64_t{i} * stride;
      for (int k = 0; k < stride; k += kLanes)
        hn::Store(hn::Add(hn::Load(d, means + k), hn::Load(d, row + k)), d, means + k);
    }
    for (int k = 0; k < stride; k += kLanes)
      hn::Store(hn::Mul(hn::Set(d, share), hn::Load(d, means + k)), d, means + k);
  }
}

// The largest of `count` logits; false: one is no number. There is a vector's room behind the last.
bool LargestOf(const float* logits, int32_t count, float& largest) {
  const Floats d;
  FloatVec top = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int32_t r = 0; r < count; r += kLanes) {
    const FloatVec x = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(count - r)), hn::LoadU(d, logits + r), top);
    if (!hn::AllTrue(d, hn::Eq(x, x))) return false;
    top = hn::Max(top, x);
  }
  largest = hn::GetLane(hn::MaxOfLanes(d, top));
  return true;
}

// logits[r] ← logits[r] − M of a cluster, −∞ for global keys; returns M, −∞ where all are global.
float RelativeToLargest(const ClusterCall& call, int32_t cluster, const int32_t* positions, int32_t count,
                        float* logits) {
  const auto holds = [&](int32_t global) { return global >= 0 && call.key_clusters[global] == cluster; };
  if (float largest;
      !holds(call.always.global_first) && !holds(call.always.global_last) && LargestOf(logits, count, largest)) {
    for (int32_t r = 0; r < count; ++r) logits[r] -= largest;
    return largest;
  }
  float largest = -std::numeric_limits<float>::infinity();
  for (int32_t r = 0; r < count; ++r) {
    if (call.always.IsGlobal(positions[r])) {
      logits[r] = -std::numeric_limits<float>::infinity();
    } else if (logits[r] > largest || std::isnan(logits[r])) {
      largest = logits[r];
    }
  }
  for (int32_t r = 0; r < count; ++r) logits[r] -= call.always.IsGlobal(positions[r]) ? 0 : largest;
  return largest;
}

// Σ u |k − mean|² over rows.
float Spread(const float* keys, const float* weights, int32_t count, int stride, const float* mean) {
  const Floats d;
  FloatVec total = hn::Zero(d);
  for (int32_t r = 0; r < count; ++r, keys += stride) {
    FloatVec sum = hn::Zero(d);
    for (int k = 0; k < stride; k += kLanes) {
      const FloatVec apart = hn::Sub(hn::LoadU(d, keys + k), hn::LoadU(d, mean + k));
      sum = hn::MulAdd(apart, apart, sum);
    }
    total = hn::MulAdd(hn::Set(d, weights[r]), sum, total);
  }
  return hn::GetLane(hn::SumOfLanes(d, total));
}

// to[k] ← Σ_r weights[r] keys[r][k], for `vectors` vectors.
template <int vectors>
HWY_INLINE void WeightedMean(const float* keys, const float* weights, int32_t count, int stride, float* to) {
  const Floats d;
  FloatVec sums[vectors];
  for (int v = 0; v < vectors; ++v) sums[v] = hn::Zero(d);
  for (int32_t r = 0; r < count; ++r, keys += stride) {
    const FloatVec weight = hn::Set(d, weights[r]);
    for (int v = 0; v < vectors; ++v) sums[v] = hn::MulAdd(weight, hn::LoadU(d, keys + v * kLanes), sums[v]);
  }
  for (int v = 0; v < vectors; ++v) hn::StoreU(sums[v], d, to + v * kLanes);
}

// What is known of the clusters of one size.
struct LevelSums {
  const CallLevel& level;
  LevelCentroids& centroids;
  ClusterScores& scores;

  // What follows from weight, M and spread.
  void SetLogits(int64_t at) const {
    constexpr auto kEpsilon = static_cast<float>(ClusteredAttention::kSpreadEpsilon);
    centroids.logits[at] = scores.largest[at] + std::log2(scores.weight[at]);
    scores.choice[at] = centroids.logits[at] + std::log2(scores.spread[at] + kEpsilon);
  }
  void NeverChoose(int64_t at) const {
    centroids.logits[at] = kMasked;
    scores.choice[at] = kNeverChosen;
  }
};

// Products of a cluster's keys with the means of all groups: [keys][groups, padded].
struct ClusterDots {
  const float* dots;
  int stride;
};

// The sums of group g, of one cluster of keys. work: as long as the cluster and a vector more, zeros behind.
void SumUpKeys(const ClusterCall& call, int g, int32_t c, const ClusterDots& dots, float* work, const LevelSums& into) {
  const Floats d;
  const CallLevel& level = into.level;
  LevelCentroids& centroids = into.centroids;
  ClusterScores& scores = into.scores;
  const int stride = call.stride;
  const float factor = call.scale * kLog2E;
  const int32_t begin = level.begins[c], count = level.begins[c + 1] - begin;
  const int64_t at = int64_t{g} * level.count + c;
  const int32_t* positions = call.key_order + begin;
  for (int32_t r = 0; r < count; ++r) work[r] = factor * dots.dots[r * dots.stride + g];
  const float largest = RelativeToLargest(call, c, positions, count, work);
  if (std::none_of(positions, positions + count, [&](int32_t position) { return !call.always.IsGlobal(position); })) {
    into.NeverChoose(at);
    return;
  }
  for (int32_t r = 0; r < count; r += kLanes) hn::Store(Exp2(d, hn::Load(d, work + r)), d, work + r);
  float total = 0;
  for (int32_t r = 0; r < count; ++r) total += work[r];
  const float share = 1 / total;
  float* weights = centroids.weights.data() + int64_t{g} * call.length + begin;
  for (int32_t r = 0; r < count; ++r) weights[r] = work[r] * share;
  const float* keys = call.key + int64_t{begin} * stride;
  float* centroid = centroids.keys.data() + at * stride;
  int k = 0;
  for (; k + 4 * kLanes <= stride; k += 4 * kLanes) WeightedMean<4>(keys + k, weights, count, stride, centroid + k);
  for (; k + 2 * kLanes <= stride; k += 2 * kLanes) WeightedMean<2>(keys + k, weights, count, stride, centroid + k);
  for (; k < stride; k += kLanes) WeightedMean<1>(keys + k, weights, count, stride, centroid + k);
  scores.weight[at] = total;
  scores.largest[at] = largest;
  scores.spread[at] = Spread(keys, weights, count, stride, centroid);
  into.SetLogits(at);
}

// The same of clusters of clusters, from the level below: what their keys' sums would be, but for rounding.
void SumUpChildren(int g, int32_t length, int stride, const LevelSums& below, const LevelSums& into) {
  const CallLevel& level = into.level;
  ClusterScores &scores = into.scores, &below_scores = below.scores;
  for (int32_t c = 0; c < level.count; ++c) {
    const int64_t at = int64_t{g} * level.count + c, first = int64_t{g} * below.level.count + c * level.children;
    float largest = kNeverChosen, total = 0;
    for (int64_t child = first; child < first + level.children; ++child) {
      const float own = below_scores.largest[child];
      if (below_scores.weight[child] != 0 && (own > largest || std::isnan(own))) largest = own;
    }
    float* shares = below_scores.share.data() + first;
    for (int32_t k = 0; k < level.children; ++k) {
      const float weight = below_scores.weight[first + k];
      shares[k] = weight == 0 ? 0 : weight * std::exp2(below_scores.largest[first + k] - largest);
      total += shares[k];
    }
    if (total == 0) {
      into.NeverChoose(at);
      continue;
    }
    for (int32_t k = 0; k < level.children; ++k) shares[k] /= total;
    const float* centroids = below.centroids.keys.data() + first * stride;
    float* centroid = into.centroids.keys.data() + at * stride;
    for (int k = 0; k < stride; k += kLanes)
      WeightedMean<1>(centroids + k, shares, level.children, stride, centroid + k);
    scores.weight[at] = total;
    scores.largest[at] = largest;
    scores.spread[at] = Spread(centroids, shares, level.children, stride, centroid);
    for (int32_t k = 0; k < level.children; ++k) {
      scores.spread[at] += shares[k] * below_scores.spread[first + k];
      const int32_t child = c * level.children + k;
      for (int64_t r = int64_t{g} * length + below.level.begins[child];
           r < int64_t{g} * length + below.level.begins[child + 1]; ++r)
        into.centroids.weights[r] = shares[k] * below.centroids.weights[r];
    }
    into.SetLogits(at);
  }
}

}  // namespace

bool CopyAll(HeadTensor<const float> from, int64_t first, int32_t length, int head, int head_dim, int stride,
             float* to) {
  const Floats d;
  FloatVec apart = hn::Zero(d);  // bits of x − x, which are 0 where x is finite alone
  float rest = 0;
  for (int32_t i = 0; i < length; ++i, to += stride) {
    if (i + kRowsAhead < length) PrefetchRow(from.at(first + i + kRowsAhead, head), head_dim);
    const float* row = from.at(first + i, head);
    int k = 0;
    for (; k + kLanes <= head_dim; k += kLanes) {
      const FloatVec x = hn::LoadU(d, row + k);
      apart = hn::Or(apart, hn::Sub(x, x));
      hn::Store(x, d, to + k);
    }
    for (; k < head_dim; ++k) {
      to[k] = row[k];
      rest += row[k] - row[k];
    }
    for (; k < stride; ++k) to[k] = 0.0f;
  }
  return hn::AllTrue(d, hn::Eq(apart, hn::Zero(d))) && rest == 0;
}

void GatherAll(const float* from, std::span<const int32_t> positions, int stride, float* to) {
  const Floats d;
  const auto length = static_cast<int64_t>(positions.size());
  for (int64_t i = 0; i < length; ++i, to += stride) {
    if (i + kRowsAhead < length) PrefetchRow(from + int64_t{positions[i + kRowsAhead]} * stride, stride);
    const float* row = from + int64_t{positions[i]} * stride;
    for (int k = 0; k < stride; k += kLanes) hn::Store(hn::Load(d, row + k), d, to + k);
  }
}

void SumUp(const ClusterCall& call, UnitCentroids& into, std::vector<ClusterScores>& scores) {
  const int stride = call.stride;
  Workspace& memory = ThreadWorkspace();
  float* means = memory.Get<float>(Slot::kRows, int64_t{call.groups} * stride);
  MeanQueries(call, call.groups, stride, means);
  into.mean_queries.assign(means, means + int64_t{call.groups} * stride);
  std::vector<LevelSums> levels;
  for (size_t l = 0; l < call.levels.size(); ++l) levels.push_back({call.levels[l], into.levels[l], scores[l]});
  const CallLevel& last = call.levels.back();
  int32_t most = 0;  // keys of a cluster
  for (int32_t c = 0; c < last.count; ++c) most = std::max(most, last.begins[c + 1] - last.begins[c]);
  const int groups = RoundUp(call.groups, kLanes);
  float* transposed = memory.Get<float>(Slot::kRowsTransposed, int64_t{groups} * stride);
  float* dots = memory.Get<float>(Slot::kScores, int64_t{most} * groups);
  float* work = memory.Get<float>(Slot::kSums, most + kLanes);
  TransposeScaled(means, stride, call.groups, stride, groups, 1, transposed);
  std::fill_n(work, most + kLanes, 0.0f);
  // Cluster by cluster, whose keys stay in the first cache while all groups look at them.
  for (int32_t c = 0; c < last.count; ++c) {
    const int32_t begin = last.begins[c];
    Multiply<Store::kSet, false>({call.key + int64_t{begin} * stride, stride}, {transposed, groups}, {dots, groups},
                                 last.begins[c + 1] - begin, groups, stride);
    for (int g = 0; g < call.groups; ++g) SumUpKeys(call, g, c, {dots, groups}, work, levels.back());
  }
  for (int g = 0; g < call.groups; ++g)
    for (size_t l = levels.size() - 1; l > 0; --l) SumUpChildren(g, call.length, stride, levels[l], levels[l - 1]);
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(CopyAll);
HWY_EXPORT(GatherAll);
HWY_EXPORT(SumUp);

bool CopyRowsOfHead(HeadTensor<const float> from, int64_t first, int32_t length, int head, int head_dim, int stride,
                    float* to) {
  return HWY_DYNAMIC_DISPATCH(CopyAll)(from, first, length, head, head_dim, stride, to);
}

void GatherRows(const float* from, std::span<const int32_t> positions, int stride, float* to) {
  HWY_DYNAMIC_DISPATCH(GatherAll)(from, positions, stride, to);
}

std::vector<ClusterScores> SumUpClusters(const ClusterCall& call, UnitCentroids& into) {
  into.stride = call.stride;
  std::vector<ClusterScores> scores;
  for (const CallLevel& level : call.levels) {
    const int64_t centroids = int64_t{call.groups} * level.count;
    LevelCentroids& own = into.levels.emplace_back();
    own.keys.assign(centroids * call.stride, 0.0f);
    own.logits.assign(centroids, 0.0f);
    own.weights.assign(int64_t{call.groups} * call.length + kRowPadding, 0.0f);
    const std::vector<float> zeros(centroids + kRowPadding);
    scores.push_back({zeros, zeros, zeros, zeros, zeros});
  }
  HWY_DYNAMIC_DISPATCH(SumUp)(call, into, scores);
  return scores;
}

}  // namespace lshformer
#endif
