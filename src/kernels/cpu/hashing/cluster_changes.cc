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
  const Words words;
  const auto first = hn::Set(words, static_cast<uint32_t>(low)),
             apart = hn::Set(words, static_cast<uint32_t>(high - low));
  FloatVec sum = hn::Zero(d);
  const auto outside = [&](int32_t r) HWY_ATTR {  // positions before `low` wrap around to large numbers
    const auto position = hn::LoadU(words, reinterpret_cast<const uint32_t*>(positions + r));
    return hn::RebindMask(d, hn::Gt(hn::Sub(position, first), apart));
  };
  int32_t r = 0;
  for (; r + kLanes <= count; r += kLanes)
    sum = hn::Add(sum, hn::IfThenElseZero(outside(r), hn::LoadU(d, weights + r)));
  if (r < count) {
    const auto counts = hn::And(outside(r), hn::FirstN(d, static_cast<size_t>(count - r)));
    sum = hn::Add(sum, hn::IfThenElseZero(counts, hn::LoadU(d, weights + r)));
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// Of shares of clusters' weights that are left.
HWY_INLINE FloatVec LogitsOf(FloatVec rests, FloatVec weights) {
  const Floats d;
  constexpr auto kLeast = static_cast<float>(ClusteredAttention::kLeastRest);
  const auto none = hn::Le(hn::Mul(rests, weights), hn::Set(d, kLeast));
  const FloatVec logarithms = hn::Log2(d, hn::IfThenZeroElse(hn::Lt(rests, hn::Zero(d)), rests));
  return hn::IfThenElse(none, hn::Set(d, kMasked), logarithms);
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
inline constexpr bool kKnowsSumsWithoutOne = true;

// to[r] ← Σ weights of a cluster but that of key r, bit for bit as SumOutside adds them: the lane of the key that is
// left out goes through the tree of SumOfLanes beside the sums of the other lanes. Room for a vector behind `to`.
void SumsWithoutOne(const float* weights, int32_t count, float* to) {
  const Floats d;
  const auto part = [&](int32_t r) HWY_ATTR {
    return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count - r)), hn::LoadU(d, weights + r));
  };
  FloatVec lanes = hn::Zero(d);
  for (int32_t r = 0; r < count; r += kLanes) lanes = hn::Add(lanes, part(r));
  constexpr int kOtherHalf = 0x4E, kOtherBlock = 0xB1;
  const FloatVec eighth{_mm512_shuffle_f32x4(lanes.raw, lanes.raw, kOtherHalf)};
  const FloatVec of_two = hn::Add(lanes, eighth);
  const FloatVec fourth{_mm512_shuffle_f32x4(of_two.raw, of_two.raw, kOtherBlock)};
  const FloatVec of_four = hn::Add(of_two, fourth), second = hn::Shuffle1032(of_four);
  const FloatVec of_eight = hn::Add(of_four, second), next = hn::Shuffle2301(of_eight);
  for (int32_t left_out = 0; left_out < count; left_out += kLanes) {
    FloatVec sum = hn::Zero(d);
    for (int32_t r = 0; r < count; r += kLanes)
      if (r != left_out) sum = hn::Add(sum, part(r));
    sum = hn::Add(hn::Add(hn::Add(hn::Add(sum, eighth), fourth), second), next);
    hn::StoreU(sum, d, to + left_out);
  }
}
#else
inline constexpr bool kKnowsSumsWithoutOne = false;  // SumOfLanes has other trees
inline void SumsWithoutOne(const float*, int32_t, float*) {}
#endif

// Changes, whose logarithms are taken in whole vectors.
class ChangeList {
 public:
  explicit ChangeList(std::vector<CentroidChange>& into) : into_(into) {}

  void Add(int32_t cluster, float logit) { into_.push_back({cluster, logit}); }
  // rest: the share that is left. weight: of the whole cluster.
  void AddRest(int32_t cluster, float rest, float weight) {
    places_[waiting_] = into_.size();
    rests_[waiting_] = rest;
    weights_[waiting_] = weight;
    Add(cluster, kMasked);
    if (++waiting_ == kLanes) Finish();
  }
  // Fills in the logits of those that wait.
  void Finish() {
    const Floats d;
    std::fill(rests_ + waiting_, rests_ + kLanes, 1.0f);
    hn::Store(LogitsOf(hn::Load(d, rests_), hn::Load(d, weights_)), d, rests_);
    for (int i = 0; i < waiting_; ++i) into_[places_[i]].logit = rests_[i];
    waiting_ = 0;
  }
  int64_t size() const { return static_cast<int64_t>(into_.size()); }

 private:
  std::vector<CentroidChange>& into_;
  int waiting_ = 0;
  size_t places_[kLanes] = {};
  alignas(64) float rests_[kLanes], weights_[kLanes] = {};
};

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
        changes_(into.changes),
        key_order_(call.key_order, call.key_order + call.length),
        group_of_(call.length),
        changed_by_(call.levels.back().first + call.levels.back().count, -1) {
    key_order_.resize(call.length + kLanes);  // SumOutside
    for (int g = 0; g < call.groups; ++g)
      for (int32_t i = call.group_begins[g]; i < call.group_begins[g + 1]; ++i) group_of_[call.query_order[i]] = g;
    cluster_of_.resize(call.levels.size(), std::vector<int32_t>(static_cast<size_t>(call.length) + kLanes));
    const int64_t most = std::min<int64_t>(2 * int64_t{call.always.reach} + 1, call.length);  // keys around a query
    levels_.resize(most + kLanes);
    touched_.resize(most);
    place_of_.resize(changed_by_.size());
    if (kKnowsSumsWithoutOne) FindLogitsWithoutOne();
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
      into_.change_begins.push_back(changes_.size());
    }
    changes_.Finish();
    return met_;
  }

 private:
  bool IsOpen(const CallLevel& level, int32_t query, int32_t cluster) const {
    for (int p = 0; p < level.open; ++p)
      if (opened_[(level.opened_at + p) * stride_ + query] == cluster) return true;
    return false;
  }

  // levels_[j − low]: the level whose cluster stands for key j of low … high; the number of levels where the key is in
  // an open one of each.
  void FindLevels(int32_t query, int32_t low, int32_t high) {
    const Ints d;
    for (int32_t j = low; j <= high; j += kLanes) {
      auto found = hn::Zero(d);
      auto opened_so_far = hn::Eq(found, found);
      for (size_t l = 0; l < cluster_of_.size(); ++l) {
        const CallLevel& level = call_.levels[l];
        const int32_t* opened = opened_ + level.opened_at * stride_ + query;
        const auto own = hn::LoadU(d, cluster_of_[l].data() + j);
        auto opened_here = hn::Lt(found, found);
        for (int p = 0; p < level.open && opened[p * stride_] >= 0; ++p)
          opened_here = hn::Or(opened_here, hn::Eq(own, hn::Set(d, opened[p * stride_])));
        opened_so_far = hn::And(opened_so_far, opened_here);
        found = hn::IfThenElse(opened_so_far, hn::Add(found, hn::Set(d, 1)), found);
      }
      hn::StoreU(found, d, levels_.data() + (j - low));
    }
  }

  void MeetNeighbours(int32_t query) {
    const int32_t reach = call_.always.reach;
    const int32_t low = std::max(0, query - reach), high = std::min(call_.length - 1, query + reach);
    for (const int32_t position : {call_.always.global_first, call_.always.global_last}) {
      const bool beyond = position >= 0 && (position < low || position > high);
      met_ += beyond && !IsOpen(call_.levels.back(), query, call_.key_clusters[position]) ? 1 : 0;
    }
    FindLevels(query, low, high);
    int touched = 0;
    for (int32_t j = low; j <= high; ++j) {
      const auto l = static_cast<size_t>(levels_[j - low]);
      if (l == cluster_of_.size()) continue;
      ++met_;
      if (call_.always.IsGlobal(j)) continue;
      const int32_t cluster = cluster_of_[l][j], number = call_.levels[l].first + cluster;
      if (changed_by_[number] == query) {
        ++touched_[place_of_[number]].keys;
        continue;
      }
      changed_by_[number] = query;
      place_of_[number] = touched;
      touched_[touched++] = {l, cluster, j, 1};
    }
    for (int t = 0; t < touched; ++t) AddChange(group_of_[query], touched_[t], low, high);
  }

  // A cluster that a window takes keys out of: how many, and the first.
  struct Touched {
    size_t level;
    int32_t cluster, first_key, keys;
  };

  void AddChange(int64_t group, const Touched& touched, int32_t low, int32_t high) {
    const CallLevel& level = call_.levels[touched.level];
    const int32_t number = level.first + touched.cluster;
    if (kKnowsSumsWithoutOne && touched.keys == 1 && level.children == 0) {
      changes_.Add(number, without_one_[group * call_.length + rank_of_[touched.first_key]]);
    } else {
      changes_.AddRest(number, Rest(group, touched.level, touched.cluster, low, high),
                       scores_[touched.level].weight[group * level.count + touched.cluster]);
    }
  }

  // Most windows take one key out of a cluster: the logits of what is left then, for all groups and keys of the last
  // level, cost little together.
  void FindLogitsWithoutOne() {
    const Floats d;
    const CallLevel& level = call_.levels.back();
    rank_of_.resize(call_.length);
    for (int32_t r = 0; r < call_.length; ++r) rank_of_[call_.key_order[r]] = r;
    without_one_ = ThreadWorkspace().Get<float>(Slot::kScores, int64_t{call_.groups} * call_.length + kLanes);
    for (int64_t g = 0; g < call_.groups; ++g) {
      for (int32_t c = 0; c < level.count; ++c) {
        const int32_t begin = level.begins[c], count = level.begins[c + 1] - begin;
        const int64_t at = g * call_.length + begin;
        SumsWithoutOne(into_.levels.back().weights.data() + at, count, without_one_ + at);
        const FloatVec weight = hn::Set(d, scores_.back().weight[g * level.count + c]);
        for (int32_t r = 0; r < count; r += kLanes)
          hn::StoreU(LogitsOf(hn::LoadU(d, without_one_ + at + r), weight), d, without_one_ + at + r);
      }
    }
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
  ChangeList changes_;
  std::vector<int32_t> key_order_, group_of_;
  std::vector<int32_t> changed_by_;               // by number: the last query whose window takes out of a cluster,
  std::vector<int32_t> place_of_;                 // and the cluster's place in touched_
  std::vector<Touched> touched_;                  // by the window of the query in work
  std::vector<int32_t> rank_of_;                  // of keys in their order
  float* without_one_ = nullptr;                  // [groups][length], in the order of keys
  std::vector<std::vector<int32_t>> cluster_of_;  // [level][key]; room for a vector behind them
  std::vector<int32_t> levels_;                   // of the keys around the query in work
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
