// What the windows of queries take out of clusters that they did not open.
#include <algorithm>
#include <bit>

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

// How much of each cluster's weight lies on the keys of a window that slides along the sequence, for every group of
// queries. Weights are whole numbers of 2⁻³⁰ here: what comes and goes leaves nothing behind, in any order.
class SlidingWindow {
 public:
  static constexpr float kUnit = 0x1p-30f;

  SlidingWindow(const ClusterCall& call, const std::vector<ClusterScores>& scores, const UnitCentroids& centroids)
      : call_(call), groups_(RoundUp(call.groups, kLanes)), rank_of_(call.length) {
    for (int32_t r = 0; r < call.length; ++r) rank_of_[call.key_order[r]] = r;
    const int32_t padded = RoundUp(call.length, kRowPadding);
    weights_ = ThreadWorkspace().Get<float>(Slot::kScores, int64_t{groups_} * padded);
    TransposeScaled(centroids.levels.back().weights.data(), call.length, call.groups, padded, groups_, 1 / kUnit,
                    weights_);
    const int32_t leaves = call.levels.back().count;
    for (size_t l = 0; l < call.levels.size(); ++l) {
      Level& level = levels_.emplace_back();
      const int32_t count = call.levels[l].count;
      level.leaves = leaves / count;
      level.keys.resize(count);
      level.taken.resize(static_cast<size_t>(count) * groups_);
      level.touched.resize((count + 63) / 64);
      if (l == 0) continue;
      level.shares.resize(level.taken.size());
      for (int32_t g = 0; g < call.groups; ++g)
        for (int32_t c = 0; c < count; ++c) level.shares[c * groups_ + g] = scores[l].share[g * count + c];
    }
  }

  void Add(int32_t key) { Move(key, 1); }
  void Remove(int32_t key) { Move(key, -1); }

  // Keys of the window in a cluster.
  int32_t KeysIn(size_t level, int32_t cluster) const { return levels_[level].keys[cluster]; }
  // A bit for every cluster of a level: whether the window has one of its keys.
  const std::vector<uint64_t>& Touched(size_t level) const { return levels_[level].touched; }
  // taken[cluster · groups() + group], in units of kUnit.
  const int32_t* Taken(size_t level) const { return levels_[level].taken.data(); }
  int groups() const { return groups_; }  // in whole vectors

 private:
  struct Level {
    int32_t leaves = 1;         // clusters of the last level that one is made of
    std::vector<int32_t> keys;  // [count]
    std::vector<uint64_t> touched;
    std::vector<int32_t> taken;  // [count][groups]
    std::vector<float> shares;   // [count][groups]: of the weight of the cluster that it is part of
    int64_t at = 0;              // of the cluster of the key that moves, in both
  };

  void Move(int32_t key, int sign) {
    const Floats d;
    const Ints di;
    const int32_t leaf = call_.key_clusters[key];
    for (Level& level : levels_) {
      const int32_t cluster = leaf / level.leaves;
      level.keys[cluster] += sign;
      const uint64_t bit = uint64_t{1} << cluster % 64;
      uint64_t& word = level.touched[cluster / 64];
      word = level.keys[cluster] > 0 ? word | bit : word & ~bit;
      level.at = int64_t{cluster} * groups_;
    }
    const float* weights = weights_ + int64_t{rank_of_[key]} * groups_;
    for (int g = 0; g < groups_; g += kLanes) {
      FloatVec weight = hn::Load(d, weights + g);
      for (size_t l = levels_.size(); l-- > 0;) {
        Level& level = levels_[l];
        int32_t* taken = level.taken.data() + level.at + g;
        const auto before = hn::LoadU(di, taken), own = hn::NearestInt(weight);
        hn::StoreU(sign > 0 ? hn::Add(before, own) : hn::Sub(before, own), di, taken);
        if (l > 0) weight = hn::Mul(weight, hn::LoadU(d, level.shares.data() + level.at + g));
      }
    }
  }

  const ClusterCall& call_;
  int groups_;
  std::vector<int32_t> rank_of_;  // of keys in their order
  float* weights_;                // [length][groups], in the order of keys: of the last level
  std::vector<Level> levels_;
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
        window_(call, scores, into),
        key_order_(call.key_order, call.key_order + call.length),
        group_of_(call.length) {
    key_order_.resize(call.length + kLanes);  // SumOutside
    for (int g = 0; g < call.groups; ++g)
      for (int32_t i = call.group_begins[g]; i < call.group_begins[g + 1]; ++i) group_of_[call.query_order[i]] = g;
    const int64_t most = std::min<int64_t>(2 * int64_t{call.always.reach} + 1, call.length);  // keys around a query
    clusters_.resize(most + kLanes);
    logits_.resize(most + kLanes);
  }

  // Returns how many keys the queries meet because of their windows, and global keys beyond those.
  int64_t Run() {
    const int32_t reach = call_.always.reach;
    into_.change_begins.assign(1, 0);
    for (int32_t j = 0; j < std::min(reach, call_.length); ++j) window_.Add(j);
    for (int32_t i = 0; i < call_.length; ++i) {
      if (i + reach < call_.length) window_.Add(i + reach);
      if (i > reach) window_.Remove(i - reach - 1);
      const int32_t low = std::max(0, i - reach), high = std::min(call_.length - 1, i + reach);
      CountKeys(i, low, high);
      for (size_t l = 0; l < call_.levels.size(); ++l) AddChanges(i, l, low, high);
      into_.change_begins.push_back(static_cast<int64_t>(into_.changes.size()));
    }
    return met_;
  }

 private:
  // Calls visit(cluster) for those of a level that a query opened, the best first.
  template <class Visit>
  void ForEachOpened(const CallLevel& level, int32_t query, const Visit& visit) const {
    const int32_t* opened = opened_ + level.opened_at * stride_ + query;
    for (int p = 0; p < level.open && opened[p * stride_] >= 0; ++p) visit(opened[p * stride_]);
  }

  void CountKeys(int32_t query, int32_t low, int32_t high) {
    const CallLevel& level = call_.levels.back();
    for (const int32_t position : {call_.always.global_first, call_.always.global_last}) {
      if (position < 0 || (position >= low && position <= high)) continue;
      ++met_;
      ForEachOpened(level, query, [&](int32_t cluster) { met_ -= cluster == call_.key_clusters[position] ? 1 : 0; });
    }
    met_ += high - low + 1;
    ForEachOpened(level, query, [&](int32_t cluster) { met_ -= window_.KeysIn(call_.levels.size() - 1, cluster); });
  }

  // Changes of one level, by their clusters' numbers: of all its clusters, or of those that opened ones are made of.
  void AddChanges(int32_t query, size_t l, int32_t low, int32_t high) {
    const CallLevel& level = call_.levels[l];
    touched_ = window_.Touched(l);
    ForEachOpened(level, query, [&](int32_t cluster) { touched_[cluster / 64] &= ~(uint64_t{1} << cluster % 64); });
    int32_t count = 0;
    const auto take = [&](int32_t begin, int32_t end) {
      for (int32_t word = begin / 64; word * 64 < end; ++word) {
        uint64_t bits = touched_[word];
        if (word * 64 < begin) bits &= ~uint64_t{0} << begin % 64;
        if (word * 64 + 64 > end) bits &= ~(~uint64_t{0} << end % 64);
        for (; bits != 0; bits &= bits - 1) clusters_[count++] = word * 64 + std::countr_zero(bits);
      }
    };
    if (l == 0) {
      take(0, level.count);
    } else {
      const CallLevel& above = call_.levels[l - 1];
      parents_.clear();
      ForEachOpened(above, query, [&](int32_t cluster) { parents_.push_back(cluster); });
      std::sort(parents_.begin(), parents_.end());
      for (const int32_t parent : parents_) take(parent * above.children, (parent + 1) * above.children);
    }
    FindLogits(group_of_[query], l, count, low, high);
    if (into_.changes.capacity() < into_.changes.size() + count) {  // as many for each query that is left, and some
      const auto so_far = static_cast<int64_t>(into_.changes.size()) + count;
      into_.changes.reserve(so_far + so_far * (call_.length - query) / (query + 1) * 9 / 8 + kLanes);
    }
    for (int32_t n = 0; n < count; ++n) into_.changes.push_back({level.first + clusters_[n], logits_[n]});
  }

  // Of what is left of the first `count` clusters_.
  void FindLogits(int32_t group, size_t l, int32_t count, int32_t low, int32_t high) {
    // Below this share what is left is added up key by key: it keeps its digits.
    constexpr float kShare = 1.0f / 16;
    const Floats d;
    const Ints di;
    const CallLevel& level = call_.levels[l];
    const auto groups = hn::Set(di, window_.groups()), first = hn::Set(di, group);
    const float* weights = scores_[l].weight.data() + int64_t{group} * level.count;
    std::fill_n(clusters_.data() + count, kLanes, 0);
    for (int32_t n = 0; n < count; n += kLanes) {
      const auto clusters = hn::LoadU(di, clusters_.data() + n);
      const auto taken = hn::GatherIndex(di, window_.Taken(l), hn::Add(hn::Mul(clusters, groups), first));
      const auto left = hn::Sub(hn::Set(di, 1 << 30), taken);
      FloatVec rests = hn::Mul(hn::ConvertTo(d, left), hn::Set(d, SlidingWindow::kUnit));
      const auto small = hn::Lt(rests, hn::Set(d, kShare));
      if (!hn::AllFalse(d, small)) {
        hn::StoreU(rests, d, logits_.data() + n);
        for (int32_t k = n; k < std::min(n + kLanes, count); ++k) {
          if (!(logits_[k] < kShare)) continue;
          const int32_t begin = level.begins[clusters_[k]], keys = level.begins[clusters_[k] + 1] - begin;
          logits_[k] =
              SumOutside(key_order_.data() + begin,
                         into_.levels[l].weights.data() + int64_t{group} * call_.length + begin, keys, low, high);
        }
        rests = hn::LoadU(d, logits_.data() + n);
      }
      hn::StoreU(LogitsOf(rests, hn::GatherIndex(d, weights, clusters)), d, logits_.data() + n);
    }
  }

  const ClusterCall& call_;
  const std::vector<ClusterScores>& scores_;
  const int32_t* opened_;
  int64_t stride_;
  UnitCentroids& into_;
  SlidingWindow window_;
  std::vector<int32_t> key_order_, group_of_;
  std::vector<uint64_t> touched_;
  std::vector<int32_t> parents_;   // that the query in work opened, of the level above
  std::vector<int32_t> clusters_;  // of the changes in work; room for a vector behind them
  std::vector<float> logits_;
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
