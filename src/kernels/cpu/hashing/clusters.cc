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

// Products of a cluster's keys with the means of all groups, [keys][groups], become the weights w / W of the keys;
// those of global keys 0. Lanes are groups, so that sums need no horizontal step and a few keys of many groups fill
// vectors. largest, total [groups]: M and W. groups: in whole vectors.
void WeighKeys(const ClusterCall& call, const int32_t* positions, int32_t count, int groups, float* products,
               float* largest, float* total) {
  const Floats d;
  const FloatVec factor = hn::Set(d, call.scale * kLog2E);
  for (int g = 0; g < groups; g += kLanes) {
    float* at = products + g;
    FloatVec top = hn::Set(d, -std::numeric_limits<float>::infinity());
    auto numbers = hn::Eq(top, top);  // groups none of whose logits is none
    for (int32_t r = 0; r < count; ++r, at += groups) {
      const FloatVec logit = hn::Mul(factor, hn::Load(d, at));
      hn::Store(logit, d, at);
      if (call.always.IsGlobal(positions[r])) continue;
      numbers = hn::And(numbers, hn::Eq(logit, logit));
      top = hn::Max(top, logit);
    }
    top = hn::IfThenElse(numbers, top, hn::NaN(d));
    at = products + g;
    for (int32_t r = 0; r < count; ++r, at += groups) {
      const FloatVec weight = Exp2(d, hn::Sub(hn::Load(d, at), top));
      hn::Store(call.always.IsGlobal(positions[r]) ? hn::Zero(d) : weight, d, at);
    }
    at = products + g;
    FloatVec sum = hn::Zero(d);
    for (int32_t r = 0; r < count; ++r, at += groups) sum = hn::Add(sum, hn::Load(d, at));
    const FloatVec share = hn::Div(hn::Set(d, 1.0f), sum);
    at = products + g;
    for (int32_t r = 0; r < count; ++r, at += groups) hn::Store(hn::Mul(hn::Load(d, at), share), d, at);
    hn::Store(top, d, largest + g);
    hn::Store(sum, d, total + g);
  }
}

// Σ u |k − mean|² over rows of `stride` numbers, which are `vectors` vectors, or, where that is 0, any number.
template <int vectors>
HWY_INLINE float SpreadOf(const float* keys, const float* weights, int32_t count, int stride, const float* mean) {
  const Floats d;
  const int width = vectors > 0 ? vectors * kLanes : stride;
  FloatVec total = hn::Zero(d);
  for (int32_t r = 0; r < count; ++r, keys += stride) {
    FloatVec sum = hn::Zero(d);
    for (int k = 0; k < width; k += kLanes) {
      const FloatVec apart = hn::Sub(hn::LoadU(d, keys + k), hn::LoadU(d, mean + k));
      sum = hn::MulAdd(apart, apart, sum);
    }
    total = hn::MulAdd(hn::Set(d, weights[r]), sum, total);
  }
  return hn::GetLane(hn::SumOfLanes(d, total));
}

float Spread(const float* keys, const float* weights, int32_t count, int stride, const float* mean) {
  if (stride == 4 * kLanes) return SpreadOf<4>(keys, weights, count, stride, mean);
  if (stride == 2 * kLanes) return SpreadOf<2>(keys, weights, count, stride, mean);
  return SpreadOf<0>(keys, weights, count, stride, mean);
}

// to[k] ← Σ_r weights[r] rows[r][k].
void WeightedMean(const float* rows, const float* weights, int32_t count, int stride, float* to) {
  const Floats d;
  for (int k = 0; k < stride; k += kLanes) {
    FloatVec sum = hn::Zero(d);
    for (int32_t r = 0; r < count; ++r)
      sum = hn::MulAdd(hn::Set(d, weights[r]), hn::LoadU(d, rows + int64_t{r} * stride + k), sum);
    hn::StoreU(sum, d, to + k);
  }
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

// Sums up the clusters of keys.
class KeySums {
 public:
  // means: [groups][stride], of queries.
  KeySums(const ClusterCall& call, const float* means, const LevelSums& into)
      : call_(call), into_(into), groups_(RoundUp(call.groups, kLanes)) {
    const CallLevel& level = into.level;
    int32_t most = 0;  // keys of a cluster
    for (int32_t c = 0; c < level.count; ++c) most = std::max(most, level.begins[c + 1] - level.begins[c]);
    Workspace& memory = ThreadWorkspace();
    transposed_means_ = memory.Get<float>(Slot::kRowsTransposed, int64_t{groups_} * call.stride);
    products_ = memory.Get<float>(Slot::kScores, int64_t{most} * groups_);
    weights_ = memory.Get<float>(Slot::kWeightRows, int64_t{groups_} * RoundUp(most, kLanes));
    centroids_ = memory.Get<float>(Slot::kAccumulator, int64_t{call.groups} * call.stride);
    largest_ = memory.Get<float>(Slot::kSums, int64_t{2} * groups_);
    total_ = largest_ + groups_;
    TransposeScaled(means, call.stride, call.groups, call.stride, groups_, 1, transposed_means_);
  }

  // Cluster by cluster, whose keys stay in the first cache while all groups look at them.
  void Run() {
    for (int32_t c = 0; c < into_.level.count; ++c) SumUp(c);
  }

 private:
  void SumUp(int32_t c) {
    const CallLevel& level = into_.level;
    const int stride = call_.stride;
    const int32_t begin = level.begins[c], count = level.begins[c + 1] - begin, padded = RoundUp(count, kLanes);
    const int32_t* positions = call_.key_order + begin;
    const auto is_global = [&](int32_t position) { return call_.always.IsGlobal(position); };
    if (std::all_of(positions, positions + count, is_global)) {
      for (int g = 0; g < call_.groups; ++g) into_.NeverChoose(int64_t{g} * level.count + c);
      return;
    }
    const ConstMatrix keys{call_.key + int64_t{begin} * stride, stride};
    Multiply<Store::kSet, false>(keys, {transposed_means_, groups_}, {products_, groups_}, count, groups_, stride);
    WeighKeys(call_, positions, count, groups_, products_, largest_, total_);
    TransposeScaled(products_, groups_, count, groups_, padded, 1, weights_);
    Multiply<Store::kSet, false>({weights_, padded}, keys, {centroids_, stride}, call_.groups, stride, count);
    for (int g = 0; g < call_.groups; ++g) {
      const int64_t at = int64_t{g} * level.count + c;
      const float *weights = weights_ + int64_t{g} * padded, *centroid = centroids_ + int64_t{g} * stride;
      std::copy_n(weights, count, into_.centroids.weights.data() + int64_t{g} * call_.length + begin);
      std::copy_n(centroid, stride, into_.centroids.keys.data() + at * stride);
      into_.scores.weight[at] = total_[g];
      into_.scores.largest[at] = largest_[g];
      into_.scores.spread[at] = Spread(keys.data, weights, count, stride, centroid);
      into_.SetLogits(at);
    }
  }

  const ClusterCall& call_;
  const LevelSums& into_;
  int groups_;               // in whole vectors
  float* transposed_means_;  // [stride][groups]
  float* products_;          // [keys of a cluster][groups]
  float* weights_;           // [groups][keys of a cluster, in whole vectors]
  float* centroids_;         // [groups][stride]
  float *largest_, *total_;  // [groups]
};

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
    WeightedMean(centroids, shares, level.children, stride, centroid);
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
  KeySums(call, means, levels.back()).Run();
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
