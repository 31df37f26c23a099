#include "kernels/cpu/clusters.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/executor.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/clusters.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/vector_math-inl.h"
// clang-format off
#include <hwy/contrib/math/math-inl.h>  // after foreach_target.h
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace {

constexpr float kNeverChosen = -std::numeric_limits<float>::infinity();

// Rows at these positions, one after another.
void GatherPositions(const float* from, const int32_t* positions, int32_t count, int stride, float* to) {
  const Floats d;
  for (int32_t i = 0; i < count; ++i, to += stride) {
    const float* row = from + int64_t{positions[i]} * stride;
    for (int k = 0; k < stride; k += kLanes) hn::Store(hn::Load(d, row + k), d, to + k);
  }
}

// means[g][stride]: of the queries of each group, 0 of none.
void MeanQueries(const ClusterCall& call, int groups, int stride, float* means) {
  const Floats d;
  for (int g = 0; g < groups; ++g, means += stride) {
    std::fill_n(means, stride, 0.0f);
    const int32_t begin = call.group_begins[g], end = call.group_begins[g + 1];
    if (begin == end) continue;
    const float share = 1.0f / static_cast<float>(end - begin);
    for (int32_t i = begin; i < end; ++i) {
      const float* row = call.query + int64_t{call.query_order[i]} * stride;
      for (int k = 0; k < stride; k += kLanes)
        hn::Store(hn::Add(hn::Load(d, means + k), hn::Load(d, row + k)), d, means + k);
    }
    for (int k = 0; k < stride; k += kLanes)
      hn::Store(hn::Mul(hn::Set(d, share), hn::Load(d, means + k)), d, means + k);
  }
}

// logits[r] ← 2^(logits[r] − M) of a cluster, 0 for global keys; returns M, −∞ where all are global.
float RelativeToLargest(const ClusterCall& call, const int32_t* positions, int32_t count, float* logits) {
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
      const FloatVec apart = hn::Sub(hn::Load(d, keys + k), hn::LoadU(d, mean + k));
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
    for (int v = 0; v < vectors; ++v) sums[v] = hn::MulAdd(weight, hn::Load(d, keys + v * kLanes), sums[v]);
  }
  for (int v = 0; v < vectors; ++v) hn::StoreU(sums[v], d, to + v * kLanes);
}

// The members of `into` and `scores` for group g; keys: [length][stride] in order; work: [length], a vector more.
void SumUpGroup(const ClusterCall& call, int g, const float* mean, const float* keys, float* work, Clusters& into,
                ClusterScores& scores) {
  const Floats d;
  const int stride = into.stride;
  const float factor = call.scale * kLog2E;
  for (int32_t r = 0; r < call.length; ++r) work[r] = factor * Dot(mean, keys + int64_t{r} * stride, stride);
  std::vector<float> largest(into.count);
  for (int32_t c = 0; c < into.count; ++c)
    largest[c] = RelativeToLargest(call, call.key_order + into.begins[c], into.begins[c + 1] - into.begins[c],
                                   work + into.begins[c]);
  for (int32_t r = 0; r < call.length; r += kLanes) hn::Store(Exp2(d, hn::Load(d, work + r)), d, work + r);
  for (int32_t c = 0; c < into.count; ++c) {
    const int32_t begin = into.begins[c], count = into.begins[c + 1] - begin;
    const int64_t at = int64_t{g} * into.count + c;
    float* centroid = into.keys.data() + at * stride;
    float* weights = into.weights.data() + int64_t{g} * call.length + begin;
    const bool scored = std::any_of(call.key_order + begin, call.key_order + begin + count,
                                    [&](int32_t position) { return !call.always.IsGlobal(position); });
    if (!scored) {
      into.logits[at] = kMasked;
      scores.choice[at] = kNeverChosen;
      continue;
    }
    float total = 0;
    for (int32_t r = 0; r < count; ++r) total += work[begin + r];
    const float share = 1 / total;
    for (int32_t r = 0; r < count; ++r) weights[r] = work[begin + r] * share;
    const float* first = keys + int64_t{begin} * stride;
    int k = 0;
    for (; k + 4 * kLanes <= stride; k += 4 * kLanes) WeightedMean<4>(first + k, weights, count, stride, centroid + k);
    for (; k < stride; k += kLanes) WeightedMean<1>(first + k, weights, count, stride, centroid + k);
    scores.weight[at] = total;
    into.logits[at] = largest[c] + std::log2(total);
    const float spread = Spread(keys + int64_t{begin} * stride, weights, count, stride, centroid);
    scores.choice[at] = into.logits[at] + std::log2(spread + static_cast<float>(ClusteredAttention::kSpreadEpsilon));
  }
}

// The `open` largest of the scores seen so far, of kTileRows rows; the first of equals stays first.
struct Largest {
  float* scores;     // [open][kTileRows]
  int32_t* indices;  // [open][kTileRows]
  int open;

  void Add(int r, FloatVec score, int32_t index) const {
    const Floats d;
    const Ints di;
    if (hn::AllFalse(d, hn::Gt(score, hn::Load(d, scores + (open - 1) * kTileRows + r)))) return;
    auto number = hn::Set(di, index);
    for (int p = 0; p < open; ++p) {
      float* at = scores + p * kTileRows + r;
      int32_t* index_at = indices + p * kTileRows + r;
      const FloatVec held = hn::Load(d, at);
      const auto held_index = hn::Load(di, index_at);
      const auto larger = hn::Gt(score, held);
      hn::Store(hn::IfThenElse(larger, score, held), d, at);
      hn::Store(hn::IfThenElse(hn::RebindMask(di, larger), number, held_index), di, index_at);
      number = hn::IfThenElse(hn::RebindMask(di, larger), held_index, number);
      score = hn::IfThenElse(larger, held, score);
    }
  }

  // Places that stayed empty, where scores are no numbers: clusters that are not among the others, the first ones.
  void FillUp(int r) const {
    for (int p = 0; p < open; ++p) {
      int32_t& index = indices[p * kTileRows + r];
      const auto taken = [&](int32_t candidate) {
        for (int other = 0; other < open; ++other)
          if (other != p && indices[other * kTileRows + r] == candidate) return true;
        return false;
      };
      if (index >= 0) continue;
      int32_t candidate = 0;
      while (taken(candidate)) ++candidate;
      index = candidate;
    }
  }
};

}  // namespace

void CopyAll(HeadTensor<const float> from, int64_t first, int32_t length, int head, int head_dim, int stride,
             float* to) {
  const Floats d;
  for (int32_t i = 0; i < length; ++i, to += stride) {
    if (i + kRowsAhead < length) PrefetchRow(from.at(first + i + kRowsAhead, head), head_dim);
    const float* row = from.at(first + i, head);
    int k = 0;
    for (; k + kLanes <= head_dim; k += kLanes) hn::Store(hn::LoadU(d, row + k), d, to + k);
    for (; k < stride; ++k) to[k] = k < head_dim ? row[k] : 0.0f;
  }
}

void SumUp(const ClusterCall& call, Clusters& into, ClusterScores& scores) {
  const int stride = into.stride;
  Workspace& memory = ThreadWorkspace();
  float* means = memory.Get<float>(Slot::kRows, int64_t{into.groups} * stride);
  MeanQueries(call, into.groups, stride, means);
  into.mean_queries.assign(means, means + int64_t{into.groups} * stride);
  float* keys = memory.Get<float>(Slot::kColumns, int64_t{call.length} * stride);
  GatherPositions(call.key, call.key_order, call.length, stride, keys);
  float* work = memory.Get<float>(Slot::kSums, call.length + kLanes);
  std::fill_n(work, call.length + kLanes, 0.0f);
  for (int g = 0; g < into.groups; ++g) SumUpGroup(call, g, means + int64_t{g} * stride, keys, work, into, scores);
}

void Choose(const ClusterCall& call, const Clusters& clusters, const ClusterScores& scores, int32_t* opened,
            int64_t opened_stride) {
  const Floats d;
  const int stride = clusters.stride;
  Workspace& memory = ThreadWorkspace();
  float* rows = memory.Get<float>(Slot::kRows, int64_t{kTileRows} * stride);
  float* transposed = memory.Get<float>(Slot::kRowsTransposed, int64_t{kTileRows} * stride);
  float* products = memory.Get<float>(Slot::kScores, int64_t{kBlockColumns} * kTileRows);
  const Largest largest{memory.Get<float>(Slot::kSums, int64_t{call.open} * kTileRows),
                        memory.Get<int32_t>(Slot::kUnseenValues, int64_t{call.open} * kTileRows), call.open};
  for (int g = 0; g < clusters.groups; ++g) {
    const float* mean = clusters.mean_queries.data() + int64_t{g} * stride;
    const float* centroids = clusters.keys.data() + int64_t{g} * clusters.count * stride;
    const float* choice = scores.choice.data() + int64_t{g} * clusters.count;
    for (int32_t begin = call.group_begins[g]; begin < call.group_begins[g + 1]; begin += kTileRows) {
      const int32_t count = std::min(kTileRows, call.group_begins[g + 1] - begin), padded = RoundUp(count, kLanes);
      GatherPositions(call.query, call.query_order + begin, count, stride, rows);
      TakeOffRows(mean, count, stride, stride, rows);
      TransposeScaled(rows, stride, count, call.head_dim, padded, call.scale * kLog2E, transposed);
      std::fill_n(largest.scores, call.open * kTileRows, kNeverChosen);
      std::fill_n(largest.indices, call.open * kTileRows, -1);
      for (int32_t first = 0; first < clusters.count; first += kBlockColumns) {
        const int columns = std::min(kBlockColumns, clusters.count - first);
        Multiply<Store::kSet, false>({centroids + int64_t{first} * stride, stride}, {transposed, padded},
                                     {products, padded}, columns, padded, call.head_dim);
        for (int c = 0; c < columns; ++c) {
          if (choice[first + c] == kNeverChosen) continue;
          const FloatVec added = hn::Set(d, choice[first + c]);
          for (int r = 0; r < padded; r += kLanes)
            largest.Add(r, hn::Add(hn::Load(d, products + c * padded + r), added), first + c);
        }
      }
      for (int32_t r = 0; r < count; ++r) {
        largest.FillUp(r);
        for (int p = 0; p < call.open; ++p)
          opened[p * opened_stride + call.query_order[begin + r]] = largest.indices[p * kTileRows + r];
      }
    }
  }
}

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

// What each query meets key by key, and what its window takes out of clusters that it did not open.
class ChangeFinder {
 public:
  ChangeFinder(const ClusterCall& call, const ClusterScores& scores, const int32_t* opened, int64_t stride,
               Clusters& into)
      : call_(call),
        scores_(scores),
        opened_(opened),
        stride_(stride),
        into_(into),
        key_order_(call.key_order, call.key_order + call.length),
        group_of_(call.length),
        changed_by_(into.count, -1) {
    key_order_.resize(call.length + kLanes);  // SumOutside
    for (int g = 0; g < into.groups; ++g)
      for (int32_t i = call.group_begins[g]; i < call.group_begins[g + 1]; ++i) group_of_[call.query_order[i]] = g;
  }

  // Returns how many keys the queries meet, together.
  int64_t Run() {
    into_.change_begins.assign(1, 0);
    for (int32_t i = 0; i < call_.length; ++i) {
      for (int p = 0; p < call_.open; ++p) {
        const int32_t cluster = opened_[p * stride_ + i];
        keys_met_ += into_.begins[cluster + 1] - into_.begins[cluster];
      }
      MeetNeighbours(i);
      into_.change_begins.push_back(static_cast<int64_t>(into_.changes.size()));
    }
    TakeLogarithms(into_.changes);
    return keys_met_;
  }

 private:
  bool IsOpen(int32_t query, int32_t cluster) const {
    for (int p = 0; p < call_.open; ++p)
      if (opened_[p * stride_ + query] == cluster) return true;
    return false;
  }

  void MeetNeighbours(int32_t query) {
    const int32_t reach = call_.always.reach;
    const int32_t low = std::max(0, query - reach), high = std::min(call_.length - 1, query + reach);
    for (const int32_t position : {call_.always.global_first, call_.always.global_last}) {
      const bool beyond = position >= 0 && (reach < 0 || position < low || position > high);
      keys_met_ += beyond && !IsOpen(query, call_.key_clusters[position]) ? 1 : 0;
    }
    for (int32_t j = low; reach >= 0 && j <= high; ++j) {
      const int32_t cluster = call_.key_clusters[j];
      if (IsOpen(query, cluster)) continue;
      ++keys_met_;
      if (call_.always.IsGlobal(j) || changed_by_[cluster] == query) continue;
      changed_by_[cluster] = query;
      AddChange(query, cluster, low, high);
    }
  }

  void AddChange(int32_t query, int32_t cluster, int32_t low, int32_t high) {
    const int64_t group = group_of_[query];
    const int32_t begin = into_.begins[cluster], count = into_.begins[cluster + 1] - begin;
    const float rest =
        SumOutside(key_order_.data() + begin, into_.weights.data() + group * call_.length + begin, count, low, high);
    const float weight = scores_.weight[group * into_.count + cluster];
    const bool none = rest * weight <= static_cast<float>(ClusteredAttention::kLeastRest);
    into_.changes.push_back({cluster, none ? kMasked : rest});
  }

  const ClusterCall& call_;
  const ClusterScores& scores_;
  const int32_t* opened_;
  int64_t stride_;
  Clusters& into_;
  std::vector<int32_t> key_order_, group_of_;
  std::vector<int32_t> changed_by_;  // the last query that had a change of a cluster
  int64_t keys_met_ = 0;
};

}  // namespace

int64_t Changes(const ClusterCall& call, const ClusterScores& scores, const int32_t* opened, int64_t stride,
                Clusters& into) {
  return ChangeFinder(call, scores, opened, stride, into).Run();
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(CopyAll);
HWY_EXPORT(SumUp);
HWY_EXPORT(Choose);
HWY_EXPORT(Changes);

void CopyRowsOfHead(HeadTensor<const float> from, int64_t first, int32_t length, int head, int head_dim, int stride,
                    float* to) {
  HWY_DYNAMIC_DISPATCH(CopyAll)(from, first, length, head, head_dim, stride, to);
}

ClusterScores SumUpClusters(const ClusterCall& call, Clusters& into) {
  const int64_t centroids = int64_t{into.groups} * into.count;
  into.keys.assign(centroids * into.stride, 0.0f);
  into.logits.assign(centroids, 0.0f);
  into.weights.assign(int64_t{into.groups} * call.length + kRowPadding, 0.0f);
  ClusterScores scores{std::vector<float>(centroids), std::vector<float>(centroids)};
  HWY_DYNAMIC_DISPATCH(SumUp)(call, into, scores);
  return scores;
}

void ChooseClusters(const ClusterCall& call, const Clusters& clusters, const ClusterScores& scores, int32_t* opened,
                    int64_t stride) {
  if (call.open > 0) HWY_DYNAMIC_DISPATCH(Choose)(call, clusters, scores, opened, stride);
}

int64_t FindChanges(const ClusterCall& call, const ClusterScores& scores, const int32_t* opened, int64_t stride,
                    Clusters& into) {
  return HWY_DYNAMIC_DISPATCH(Changes)(call, scores, opened, stride, into);
}

}  // namespace lshformer
#endif
