// Which clusters queries open.
#include <algorithm>

#include "kernels/cpu/attention/executor.h"
#include "kernels/cpu/hashing/clusters.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/hashing/cluster_choice.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace {

// The `open` largest of the scores seen so far, of kTileRows rows; the first of equals stays first.
struct Largest {
  float* scores;     // [open][kTileRows]
  int32_t* indices;  // [open][kTileRows]; −1: none
  int open;

  void Add(int r, FloatVec score, int32_t index) const {
    const Floats d;
    const Ints di;
    if (hn::AllFalse(d, hn::Gt(score, hn::Load(d, scores + (open - 1) * kTileRows + r)))) return;
    auto number = hn::Set(di, index);
    auto moves = hn::FirstN(d, 0);  // what was before the others stays before them, equal or not
    for (int p = 0; p < open; ++p) {
      float* at = scores + p * kTileRows + r;
      int32_t* index_at = indices + p * kTileRows + r;
      const FloatVec held = hn::Load(d, at);
      const auto held_index = hn::Load(di, index_at);
      const auto larger = hn::Or(moves, hn::Gt(score, held));
      hn::Store(hn::IfThenElse(larger, score, held), d, at);
      hn::Store(hn::IfThenElse(hn::RebindMask(di, larger), number, held_index), di, index_at);
      number = hn::IfThenElse(hn::RebindMask(di, larger), held_index, number);
      score = hn::IfThenElse(larger, held, score);
      moves = larger;
    }
  }
};

// Queries [begin, begin + count) of a group, less its mean, as products take them: transposed[k][r].
void GatherGroupRows(const ClusterCall& call, const UnitCentroids& centroids, int64_t group, int32_t begin,
                     int32_t count, float* rows, float* transposed) {
  const int stride = call.stride;
  GatherPositions(call.query, call.query_order + begin, count, stride, rows);
  TakeOffRows(centroids.mean_queries.data() + group * stride, count, stride, stride, rows);
  TransposeScaled(rows, stride, count, call.head_dim, RoundUp(count, kLanes), call.scale * kLog2E, transposed);
}

// Of all clusters of the first level.
void ChooseOfAll(const ClusterCall& call, const UnitCentroids& centroids, const ClusterScores& scores, int32_t* opened,
                 int64_t opened_stride) {
  const Floats d;
  const int stride = call.stride;
  const CallLevel& level = call.levels.front();
  Workspace& memory = ThreadWorkspace();
  float* rows = memory.Get<float>(Slot::kRows, int64_t{kTileRows} * stride);
  float* transposed = memory.Get<float>(Slot::kRowsTransposed, int64_t{kTileRows} * stride);
  float* products = memory.Get<float>(Slot::kScores, int64_t{kBlockColumns} * kTileRows);
  const Largest largest{memory.Get<float>(Slot::kSums, int64_t{level.open} * kTileRows),
                        memory.Get<int32_t>(Slot::kUnseenValues, int64_t{level.open} * kTileRows), level.open};
  for (int g = 0; g < call.groups; ++g) {
    const float* keys = centroids.levels.front().keys.data() + int64_t{g} * level.count * stride;
    const float* choice = scores.choice.data() + int64_t{g} * level.count;
    for (int32_t begin = call.group_begins[g]; begin < call.group_begins[g + 1]; begin += kTileRows) {
      const int32_t count = std::min(kTileRows, call.group_begins[g + 1] - begin), padded = RoundUp(count, kLanes);
      GatherGroupRows(call, centroids, g, begin, count, rows, transposed);
      std::fill_n(largest.scores, level.open * kTileRows, kNeverChosen);
      std::fill_n(largest.indices, level.open * kTileRows, -1);
      for (int32_t first = 0; first < level.count; first += kBlockColumns) {
        const int columns = std::min(kBlockColumns, level.count - first);
        Multiply<Store::kSet, false>({keys + int64_t{first} * stride, stride}, {transposed, padded}, {products, padded},
                                     columns, padded, call.head_dim);
        for (int c = 0; c < columns; ++c) {
          if (choice[first + c] == kNeverChosen) continue;
          const FloatVec added = hn::Set(d, choice[first + c]);
          for (int r = 0; r < padded; r += kLanes)
            largest.Add(r, hn::Add(hn::Load(d, products + c * padded + r), added), first + c);
        }
      }
      for (int32_t r = 0; r < count; ++r) {
        for (int p = 0; p < level.open; ++p)
          opened[p * opened_stride + call.query_order[begin + r]] = largest.indices[p * kTileRows + r];
      }
    }
  }
}

// Of all clusters, for all queries of a bundle: those with the largest (s + ε) Σ_i p_i, where p_i is the share of query
// i's softmax over all centroids that the cluster's gets.
class BundleChooser {
 public:
  BundleChooser(const ClusterCall& call, const UnitCentroids& centroids, const ClusterScores& scores, int32_t* opened,
                int64_t opened_stride)
      : call_(call),
        centroids_(centroids),
        level_(call.levels.front()),
        sums_(centroids.levels.front()),
        scores_(scores),
        opened_(opened),
        opened_stride_(opened_stride),
        shares_(level_.count) {
    Workspace& memory = ThreadWorkspace();
    rows_ = memory.Get<float>(Slot::kRows, int64_t{kTileRows} * call.stride);
    transposed_ = memory.Get<float>(Slot::kRowsTransposed, int64_t{kTileRows} * call.stride);
    logits_ = memory.Get<float>(Slot::kScores, int64_t{level_.count} * kTileRows);
  }

  void Run() {
    int group = 0;
    for (size_t bundle = 0; bundle + 1 < call_.bundle_begins.size(); ++bundle) {
      const int32_t begin = call_.bundle_begins[bundle], end = call_.bundle_begins[bundle + 1];
      if (begin == end) continue;
      while (begin >= call_.group_begins[group + 1]) ++group;
      std::fill(shares_.begin(), shares_.end(), 0.0f);
      for (int32_t first = begin; first < end; first += kTileRows)
        AddShares(group, first, std::min(kTileRows, end - first));
      Open(group, begin, end);
    }
  }

 private:
  void AddShares(int group, int32_t begin, int32_t count) {
    const Floats d;
    const int stride = call_.stride, padded = RoundUp(count, kLanes);
    GatherGroupRows(call_, centroids_, group, begin, count, rows_, transposed_);
    const int64_t first = int64_t{group} * level_.count;
    Multiply<Store::kSet, false>({sums_.keys.data() + first * stride, stride}, {transposed_, padded}, {logits_, padded},
                                 level_.count, padded, call_.head_dim);
    for (int r = 0; r < padded; r += kLanes) {
      FloatVec largest = hn::Set(d, kMasked);
      for (int32_t c = 0; c < level_.count; ++c) {
        float* at = logits_ + int64_t{c} * padded + r;
        const float logit = sums_.logits[first + c];
        const FloatVec sum = logit == kMasked ? hn::Set(d, kMasked) : hn::Add(hn::Load(d, at), hn::Set(d, logit));
        largest = hn::Max(largest, sum);
        hn::Store(sum, d, at);
      }
      FloatVec total = hn::Zero(d);
      for (int32_t c = 0; c < level_.count; ++c) {
        float* at = logits_ + int64_t{c} * padded + r;
        const FloatVec p = Exp2(d, hn::Sub(hn::Load(d, at), largest));
        total = hn::Add(total, p);
        hn::Store(p, d, at);
      }
      // Rows that fill up the last vector have no say.
      const auto counted = hn::FirstN(d, static_cast<size_t>(count - r));
      const FloatVec inverse = hn::IfThenElseZero(counted, hn::Div(hn::Set(d, 1.0f), total));
      for (int32_t c = 0; c < level_.count; ++c) {
        const FloatVec share = hn::Mul(hn::Load(d, logits_ + int64_t{c} * padded + r), inverse);
        shares_[c] += hn::GetLane(hn::SumOfLanes(d, share));
      }
    }
  }

  // The largest first, of equals the first cluster; what is no number is never opened.
  void Open(int group, int32_t begin, int32_t end) {
    constexpr auto kEpsilon = static_cast<float>(ClusteredAttention::kSpreadEpsilon);
    const int64_t first = int64_t{group} * level_.count;
    order_.clear();
    for (int32_t c = 0; c < level_.count; ++c) {
      shares_[c] *= scores_.spread[first + c] + kEpsilon;
      if (sums_.logits[first + c] != kMasked && shares_[c] == shares_[c]) order_.push_back(c);
    }
    const auto open = std::min(order_.size(), static_cast<size_t>(level_.open));
    std::partial_sort(order_.begin(), order_.begin() + static_cast<int64_t>(open), order_.end(),
                      [&](int32_t a, int32_t b) { return shares_[a] != shares_[b] ? shares_[a] > shares_[b] : a < b; });
    for (size_t p = 0; p < static_cast<size_t>(level_.open); ++p)
      for (int32_t i = begin; i < end; ++i)
        opened_[static_cast<int64_t>(p) * opened_stride_ + call_.query_order[i]] = p < open ? order_[p] : -1;
  }

  const ClusterCall& call_;
  const UnitCentroids& centroids_;
  const CallLevel& level_;
  const LevelCentroids& sums_;
  const ClusterScores& scores_;
  int32_t* opened_;
  int64_t opened_stride_;
  float *rows_, *transposed_, *logits_;  // logits_: [clusters][rows]
  std::vector<float> shares_;            // Σ_i p_i
  std::vector<int32_t> order_;
};

// to[i] ← the sum of the lanes of sums[i], of four vectors; there is room for a vector.
#if HWY_TARGET == HWY_SCALAR
void StoreLaneSums(const FloatVec* sums, float* to) {
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

// products[r] = x · row r of `count` rows [count][stride]; there is room for a vector behind the last.
void DotsOfRows(const float* x, const float* rows, int32_t count, int stride, float* products) {
  const Floats d;
  constexpr int kAtATime = 4;
  for (int32_t r = 0; r < count; r += kAtATime) {
    FloatVec sums[kAtATime];
    const float* row[kAtATime];
    for (int i = 0; i < kAtATime; ++i) {
      row[i] = rows + int64_t{std::min(r + i, count - 1)} * stride;
      sums[i] = hn::Zero(d);
    }
    for (int k = 0; k < stride; k += kLanes) {
      const FloatVec own = hn::Load(d, x + k);
      for (int i = 0; i < kAtATime; ++i) sums[i] = hn::MulAdd(own, hn::LoadU(d, row[i] + k), sums[i]);
    }
    StoreLaneSums(sums, products + r);
  }
}

// Of those clusters of a level that the clusters opened above it are made of: others for each query.
class ChildChooser {
 public:
  ChildChooser(const ClusterCall& call, const UnitCentroids& centroids, const std::vector<ClusterScores>& scores,
               int level, int32_t* opened, int64_t opened_stride)
      : call_(call),
        centroids_(centroids),
        above_(call.levels[level - 1]),
        level_(call.levels[level]),
        keys_(centroids.levels[level].keys.data()),
        choice_(scores[level].choice),
        opened_(opened),
        stride_(opened_stride),
        parents_(above_.open),
        scores_(int64_t{above_.open} * above_.children + 2 * kLanes) {}

  void Run() {
    const int stride = call_.stride;
    float* query = ThreadWorkspace().Get<float>(Slot::kRows, stride);
    for (int g = 0; g < call_.groups; ++g) {
      for (int32_t i = call_.group_begins[g]; i < call_.group_begins[g + 1]; ++i) {
        const int32_t position = call_.query_order[i];
        CopyScaled(call_.query + int64_t{position} * stride, 1, stride, query);
        TakeOffRows(centroids_.mean_queries.data() + int64_t{g} * stride, 1, stride, stride, query);
        CopyScaled(query, call_.scale * kLog2E, stride, query);
        Choose(query, g, position);
      }
    }
  }

 private:
  void Choose(const float* query, int64_t group, int32_t position) {
    const int32_t children = above_.children;
    int32_t parents = 0;  // in the order of their numbers: of equal scores the first is chosen
    for (int p = 0; p < above_.open; ++p) {
      const int32_t parent = opened_[(above_.opened_at + p) * stride_ + position];
      if (parent < 0) continue;
      int32_t place = parents++;
      for (; place > 0 && parents_[place - 1] > parent; --place) parents_[place] = parents_[place - 1];
      parents_[place] = parent;
    }
    for (int32_t p = 0; p < parents; ++p) {
      const int64_t at = group * level_.count + int64_t{parents_[p]} * children;
      DotsOfRows(query, keys_ + at * call_.stride, children, call_.stride, scores_.data() + int64_t{p} * children);
      AddChoice(choice_.data() + at, children, scores_.data() + int64_t{p} * children);
    }
    std::fill_n(scores_.data() + int64_t{parents} * children, kLanes, kNeverChosen);
    for (int p = 0; p < level_.open; ++p) {
      const int32_t best = TakeLargest(parents * children);
      opened_[(level_.opened_at + p) * stride_ + position] =
          best < 0 ? -1 : parents_[best / children] * children + best % children;
    }
  }

  // What is no number is never chosen.
  static void AddChoice(const float* choice, int32_t count, float* scores) {
    const Floats d;
    for (int32_t k = 0; k < count; k += kLanes) {
      const auto held = hn::FirstN(d, static_cast<size_t>(count - k));
      const FloatVec score = hn::Add(hn::LoadU(d, scores + k), hn::LoadU(d, choice + k));
      const auto counts = hn::And(held, hn::Eq(score, score));
      hn::StoreU(hn::IfThenElse(counts, score, hn::Set(d, kNeverChosen)), d, scores + k);
    }
  }

  // The first of the largest of `count` scores, which is out of the choice then; −1: there is none. Behind the last is
  // a vector of kNeverChosen.
  int32_t TakeLargest(int32_t count) {
    const Floats d;
    float* scores = scores_.data();
    FloatVec largest = hn::Set(d, kNeverChosen);
    for (int32_t k = 0; k < count; k += kLanes) largest = hn::Max(largest, hn::LoadU(d, scores + k));
    largest = hn::MaxOfLanes(d, largest);
    if (hn::GetLane(largest) == kNeverChosen) return -1;
    for (int32_t k = 0;; k += kLanes) {
      const intptr_t lane = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, scores + k), largest));
      if (lane < 0) continue;
      scores[k + lane] = kNeverChosen;
      return k + static_cast<int32_t>(lane);
    }
  }

  const ClusterCall& call_;
  const UnitCentroids& centroids_;
  const CallLevel &above_, &level_;
  const float* keys_;
  const std::vector<float>& choice_;
  int32_t* opened_;
  int64_t stride_;
  std::vector<int32_t> parents_;
  std::vector<float> scores_;  // of the parents' children; room for two vectors
};

}  // namespace

void Choose(const ClusterCall& call, const UnitCentroids& centroids, const std::vector<ClusterScores>& scores,
            int32_t* opened, int64_t stride) {
  const CallLevel& first = call.levels.front();
  if (!call.bundle_begins.empty()) {
    BundleChooser(call, centroids, scores.front(), opened, stride).Run();
    return;
  }
  if (first.open > 0) ChooseOfAll(call, centroids, scores.front(), opened + first.opened_at * stride, stride);
  for (size_t level = 1; level < call.levels.size(); ++level)
    ChildChooser(call, centroids, scores, static_cast<int>(level), opened, stride).Run();
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(Choose);

void ChooseClusters(const ClusterCall& call, const UnitCentroids& centroids, const std::vector<ClusterScores>& scores,
                    int32_t* opened, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(Choose)(call, centroids, scores, opened, stride);
}

}  // namespace lshformer
#endif
