// What the windows of queries take out of clusters that they did not open.
#include <algorithm>

#include "kernels/cpu/attention/executor.h"
#include "kernels/cpu/hashing/clusters.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/hashing/cluster_changes.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/vector_math-inl.h"
// clang-format off
#include <hwy/contrib/math/math-inl.h>  // after foreach_target.h
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace {

// Σ weights over the keys of a cluster that lie outside of [low, high]. There is a vector's room behind the last.
float SumOutside(const int32_t* positions, const float* weights, int32_t count, int32_t low, int32_t high) {
  const Floats d;
  const Ints di;
  FloatVec sum = hn::Zero(d);
  for (int32_t r = 0; r < count; r += kLanes) {
    const auto held = hn::FirstN(di, static_cast<size_t>(count - r));
    const auto position = hn::LoadU(di, positions + r);
    const auto inside = hn::And(hn::Gt(position, hn::Set(di, low - 1)), hn::Lt(position, hn::Set(di, high + 1)));
    const auto counts = hn::RebindMask(d, hn::AndNot(inside, held));
    sum = hn::Add(sum, hn::IfThenElseZero(counts, hn::LoadU(d, weights + r)));
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// Of the parts that are left, in place; kMasked stays.
void TakeLogarithms(std::vector<CentroidChange>& changes) {
  const Floats d;
  alignas(64) float parts[kLanes];
  for (size_t first = 0; first < changes.size(); first += kLanes) {
    const size_t count = std::min<size_t>(kLanes, changes.size() - first);
    for (size_t i = 0; i < kLanes; ++i) parts[i] = i < count ? std::max(changes[first + i].logit, 0.0f) : 1.0f;
    hn::Store(hn::Log2(d, hn::Load(d, parts)), d, parts);
    for (size_t i = 0; i < count; ++i)
      if (changes[first + i].logit != kMasked) changes[first + i].logit = parts[i];
  }
}

// What queries meet together but for their windows.
class MeetingCounter {
 public:
  MeetingCounter(const ClusterCall& call, const std::vector<ClusterScores>& scores, const int32_t* opened,
                 int64_t stride)
      : call_(call), scores_(scores), opened_(opened), stride_(stride) {}

  // Keys of the clusters that queries opened.
  int64_t KeysOpened() const {
    const CallLevel& level = call_.levels.back();
    int64_t met = 0;
    for (int p = 0; p < level.open; ++p) {
      const int32_t* opened = Opened(level, p);
      for (int32_t i = 0; i < call_.length; ++i)
        if (opened[i] >= 0) met += level.begins[opened[i] + 1] - level.begins[opened[i]];
    }
    return met;
  }

  // Queries that did not open a global key's cluster.
  int64_t Beyond(int32_t position) const {
    const CallLevel& level = call_.levels.back();
    int64_t met = call_.length;
    for (int p = 0; p < level.open; ++p) {
      const int32_t* opened = Opened(level, p);
      met -= std::count(opened, opened + call_.length, call_.key_clusters[position]);
    }
    return met;
  }

  // Centroids, which do not depend on the group: all of the first level, and those that opened clusters are made of.
  int64_t CentroidsScored() const {
    const auto scored = [&](size_t level, int32_t begin, int32_t end) -> int64_t {
      const float* weights = scores_[level].weight.data();
      return std::count_if(weights + begin, weights + end, [](float weight) { return weight != 0; });
    };
    int64_t met = call_.length * scored(0, 0, call_.levels[0].count);
    for (size_t l = 1; l < call_.levels.size(); ++l) {
      const CallLevel& above = call_.levels[l - 1];
      std::vector<int64_t> of_parent;
      for (int32_t c = 0; c < above.count; ++c)
        of_parent.push_back(scored(l, c * above.children, (c + 1) * above.children));
      for (int p = 0; p < above.open; ++p) {
        const int32_t* opened = Opened(above, p);
        for (int32_t i = 0; i < call_.length; ++i)
          if (opened[i] >= 0) met += of_parent[opened[i]];
      }
    }
    return met;
  }

 private:
  const int32_t* Opened(const CallLevel& level, int p) const { return opened_ + (level.opened_at + p) * stride_; }

  const ClusterCall& call_;
  const std::vector<ClusterScores>& scores_;
  const int32_t* opened_;
  int64_t stride_;
};

// What windows take out of clusters that queries are scored with and did not open.
class ChangeFinder {
 public:
  ChangeFinder(const ClusterCall& call, const std::vector<ClusterScores>& scores, const int32_t* opened, int64_t stride,
               UnitCentroids& into)
      : call_(call),
        scores_(scores),
        opened_(opened),
        stride_(stride),
        into_(into),
        key_order_(call.key_order, call.key_order + call.length),
        group_of_(call.length),
        changed_by_(call.levels.back().first + call.levels.back().count, -1) {
    key_order_.resize(call.length + kLanes);  // SumOutside
    for (int g = 0; g < call.groups; ++g)
      for (int32_t i = call.group_begins[g]; i < call.group_begins[g + 1]; ++i) group_of_[call.query_order[i]] = g;
    cluster_of_.resize(call.levels.size(), std::vector<int32_t>(call.length));
    for (size_t l = 0; l < call.levels.size(); ++l) {
      const int32_t leaves = call.levels.back().count / call.levels[l].count;
      for (int32_t j = 0; j < call.length; ++j)
        cluster_of_[l][j] = leaves == 1 ? call.key_clusters[j] : call.key_clusters[j] / leaves;
    }
  }

  // Returns how many keys the queries meet because of their windows, and global keys beyond those.
  int64_t Run() {
    into_.change_begins.assign(1, 0);
    for (int32_t i = 0; i < call_.length; ++i) {
      MeetNeighbours(i);
      into_.change_begins.push_back(static_cast<int64_t>(into_.changes.size()));
    }
    TakeLogarithms(into_.changes);
    return met_;
  }

 private:
  bool IsOpen(const CallLevel& level, int32_t query, int32_t cluster) const {
    for (int p = 0; p < level.open; ++p)
      if (opened_[(level.opened_at + p) * stride_ + query] == cluster) return true;
    return false;
  }

  // The level whose cluster stands for a key; the number of levels where it is in an open one of each.
  size_t LevelOf(int32_t query, int32_t key) const {
    size_t level = 0;
    while (level < cluster_of_.size() && IsOpen(call_.levels[level], query, cluster_of_[level][key])) ++level;
    return level;
  }

  void MeetNeighbours(int32_t query) {
    const int32_t reach = call_.always.reach;
    const int32_t low = std::max(0, query - reach), high = std::min(call_.length - 1, query + reach);
    for (const int32_t position : {call_.always.global_first, call_.always.global_last}) {
      const bool beyond = position >= 0 && (position < low || position > high);
      met_ += beyond && !IsOpen(call_.levels.back(), query, call_.key_clusters[position]) ? 1 : 0;
    }
    for (int32_t j = low; j <= high; ++j) {
      const size_t l = LevelOf(query, j);
      if (l == cluster_of_.size()) continue;
      ++met_;
      const int32_t cluster = cluster_of_[l][j], number = call_.levels[l].first + cluster;
      if (call_.always.IsGlobal(j) || changed_by_[number] == query) continue;
      changed_by_[number] = query;
      AddChange(query, l, cluster, low, high);
    }
  }

  void AddChange(int32_t query, size_t l, int32_t cluster, int32_t low, int32_t high) {
    const int64_t group = group_of_[query];
    const float rest = Rest(group, l, cluster, low, high);
    const float weight = scores_[l].weight[group * call_.levels[l].count + cluster];
    const bool none = rest * weight <= static_cast<float>(ClusteredAttention::kLeastRest);
    into_.changes.push_back({call_.levels[l].first + cluster, none ? kMasked : rest});
  }

  // The share of a cluster's weight that lies on keys outside of [low, high].
  float Rest(int64_t group, size_t l, int32_t cluster, int32_t low, int32_t high) const {
    const CallLevel& level = call_.levels[l];
    if (level.children == 0) {
      const int32_t begin = level.begins[cluster], count = level.begins[cluster + 1] - begin;
      return SumOutside(key_order_.data() + begin, into_.levels[l].weights.data() + group * call_.length + begin, count,
                        low, high);
    }
    const Floats d;
    const Ints di;
    const auto numbers = hn::Iota(di, 0);
    const int32_t *own = cluster_of_[l].data(), *child_of = cluster_of_[l + 1].data(), first = cluster * level.children;
    const float* shares = scores_[l + 1].share.data() + group * call_.levels[l + 1].count + first;
    FloatVec untouched = hn::Zero(d);
    for (int32_t k = 0; k < level.children; k += kLanes) {
      const auto number = hn::Add(numbers, hn::Set(di, first + k));
      auto counts = hn::FirstN(di, static_cast<size_t>(level.children - k));
      for (int32_t j = low; j <= high; ++j)
        if (own[j] == cluster) counts = hn::And(counts, hn::Ne(number, hn::Set(di, child_of[j])));
      untouched = hn::Add(untouched, hn::IfThenElseZero(hn::RebindMask(d, counts), hn::LoadU(d, shares + k)));
    }
    float rest = hn::GetLane(hn::SumOfLanes(d, untouched));
    for (int32_t j = low; j <= high; ++j) {
      const int32_t child = child_of[j];
      if (own[j] != cluster || std::find(child_of + low, child_of + j, child) != child_of + j) continue;
      rest += shares[child - first] * Rest(group, l + 1, child, low, high);
    }
    return rest;
  }

  const ClusterCall& call_;
  const std::vector<ClusterScores>& scores_;
  const int32_t* opened_;
  int64_t stride_;
  UnitCentroids& into_;
  std::vector<int32_t> key_order_, group_of_;
  std::vector<int32_t> changed_by_;               // by number: the last query that had a change of a cluster
  std::vector<std::vector<int32_t>> cluster_of_;  // [level][key]
  int64_t met_ = 0;
};

}  // namespace

int64_t Changes(const ClusterCall& call, const std::vector<ClusterScores>& scores, const int32_t* opened,
                int64_t stride, UnitCentroids& into) {
  const MeetingCounter counter(call, scores, opened, stride);
  const int64_t met = counter.CentroidsScored() + counter.KeysOpened();
  if (call.always.reach >= 0) return met + ChangeFinder(call, scores, opened, stride, into).Run();
  into.change_begins.assign(static_cast<size_t>(call.length) + 1, 0);  // centroids' weights are of no global key
  const auto beyond = [&](int32_t position) { return position < 0 ? 0 : counter.Beyond(position); };
  return met + beyond(call.always.global_first) + beyond(call.always.global_last);
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(Changes);

int64_t FindChanges(const ClusterCall& call, const std::vector<ClusterScores>& scores, const int32_t* opened,
                    int64_t stride, UnitCentroids& into) {
  return HWY_DYNAMIC_DISPATCH(Changes)(call, scores, opened, stride, into);
}

}  // namespace lshformer
#endif
