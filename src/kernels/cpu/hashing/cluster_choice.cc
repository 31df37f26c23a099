// Which clusters queries open.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kernels/cpu/attention/executor.h"
#include "kernels/cpu/hashing/clusters.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/hashing/cluster_choice.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/hashing/cluster_rows-inl.h"
// clang-format off
#include <hwy/contrib/math/math-inl.h>  // after foreach_target.h
// clang-format on

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

// What tiles of queries have in common with all clusters of the first level.
class FirstLevelScores {
 public:
  FirstLevelScores(const ClusterCall& call, const UnitCentroids& centroids)
      : call_(call), centroids_(centroids), level_(call.levels.front()), sums_(centroids.levels.front()) {
    Workspace& memory = ThreadWorkspace();
    rows_ = memory.Get<float>(Slot::kRows, int64_t{kTileRows} * call.stride);
    transposed_ = memory.Get<float>(Slot::kRowsTransposed, int64_t{kTileRows} * call.stride);
    products_ = memory.Get<float>(Slot::kScores, int64_t{level_.count} * kTileRows);
  }

  // Calls visit(group, begin, count) for the tiles of queries, whose products and totals there are then.
  template <class Visit>
  void ForEachTile(const Visit& visit) {
    for (int g = 0; g < call_.groups; ++g) {
      for (int32_t begin = call_.group_begins[g]; begin < call_.group_begins[g + 1]; begin += kTileRows) {
        const int32_t count = std::min(kTileRows, call_.group_begins[g + 1] - begin);
        Score(g, begin, count);
        visit(g, begin, count);
      }
    }
  }
  int padded() const { return padded_; }
  const float* Of(int32_t cluster) const { return products_ + int64_t{cluster} * padded_; }  // [padded]: (q − m)·k̃
  const float* totals() const { return totals_; }  // [count]: log₂ of what all clusters weigh together

 private:
  void Score(int64_t group, int32_t begin, int32_t count) {
    const Floats d;
    padded_ = RoundUp(count, kLanes);
    GatherGroupRows(call_, centroids_, group, begin, count, rows_, transposed_);
    const int64_t first = group * level_.count;
    Multiply<Store::kSet, false>({sums_.keys.data() + first * call_.stride, call_.stride}, {transposed_, padded_},
                                 {products_, padded_}, level_.count, padded_, call_.head_dim);
    for (int r = 0; r < padded_; r += kLanes) {
      const auto logit_of = [&](int32_t c) HWY_ATTR {
        const float logit = sums_.logits[first + c];
        return logit == kMasked ? hn::Set(d, kMasked) : hn::Add(hn::Load(d, Of(c) + r), hn::Set(d, logit));
      };
      FloatVec largest = hn::Set(d, kMasked), total = hn::Zero(d);
      for (int32_t c = 0; c < level_.count; ++c) largest = hn::Max(largest, logit_of(c));
      for (int32_t c = 0; c < level_.count; ++c) total = hn::Add(total, Exp2(d, hn::Sub(logit_of(c), largest)));
      hn::Store(hn::Add(largest, hn::Log2(d, total)), d, totals_ + r);
    }
  }

  const ClusterCall& call_;
  const UnitCentroids& centroids_;
  const CallLevel& level_;
  const LevelCentroids& sums_;
  float *rows_, *transposed_, *products_;  // products_: [clusters][padded]
  int padded_ = 0;
  alignas(64) float totals_[kTileRows];
};

// Of all clusters those that reach the threshold: the best and all that score so much beside what all weigh together.
void ChooseByThreshold(const ClusterCall& call, const UnitCentroids& centroids, const ClusterScores& scores,
                       int32_t* opened, int64_t opened_stride) {
  using Scored = std::pair<float, int32_t>;  // −score, cluster: the best come first, of equals the first cluster
  const Floats d;
  const CallLevel& level = call.levels.front();
  FirstLevelScores tile(call, centroids);
  std::array<std::vector<Scored>, kTileRows> reached;
  alignas(64) float least[kTileRows], held[kLanes];
  tile.ForEachTile([&](int64_t group, int32_t begin, int32_t count) HWY_ATTR {
    const int padded = tile.padded();
    std::array<Scored, kTileRows> best;
    best.fill({-kNeverChosen, -1});
    for (auto& row : reached) row.clear();
    for (int r = 0; r < padded; ++r) least[r] = tile.totals()[r] + *call.threshold;
    const float* choice = scores.choice.data() + group * level.count;
    for (int r = 0; r < padded; r += kLanes) {
      const auto cut = hn::Load(d, least + r);
      FloatVec largest = hn::Set(d, kNeverChosen);
      for (int32_t c = 0; c < level.count; ++c) {
        if (choice[c] == kNeverChosen) continue;
        const auto score = hn::Add(hn::Load(d, tile.Of(c) + r), hn::Set(d, choice[c]));
        const auto counts = hn::Or(hn::Ge(score, cut), hn::Gt(score, largest));
        if (hn::AllFalse(d, counts)) continue;
        largest = hn::Max(largest, score);
        hn::Store(score, d, held);
        for (int lane = 0; lane < std::min(kLanes, count - r); ++lane) {
          const Scored scored{-held[lane], c};
          if (held[lane] >= least[r + lane]) reached[r + lane].push_back(scored);
          best[r + lane] = std::min(best[r + lane], scored);
        }
      }
    }
    for (int32_t r = 0; r < count; ++r) {
      std::vector<Scored>& row = reached[r];
      if (row.empty() && best[r].second >= 0) row.push_back(best[r]);
      const auto open = std::min(row.size(), static_cast<size_t>(level.open));
      std::partial_sort(row.begin(), row.begin() + static_cast<int64_t>(open), row.end());
      for (size_t p = 0; p < static_cast<size_t>(level.open); ++p)
        opened[static_cast<int64_t>(p) * opened_stride + call.query_order[begin + r]] = p < open ? row[p].second : -1;
    }
  });
}

// By position: log₂ of what all clusters of the first level weigh together.
std::vector<float> TotalsOfFirstLevel(const ClusterCall& call, const UnitCentroids& centroids) {
  std::vector<float> totals(call.length);
  FirstLevelScores tile(call, centroids);
  tile.ForEachTile([&](int64_t, int32_t begin, int32_t count) {
    for (int32_t r = 0; r < count; ++r) totals[call.query_order[begin + r]] = tile.totals()[r];
  });
  return totals;
}

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
  // totals: for a threshold, TotalsOfFirstLevel; else empty.
  ChildChooser(const ClusterCall& call, const UnitCentroids& centroids, const std::vector<ClusterScores>& scores,
               int level, const std::vector<float>& totals, int32_t* opened, int64_t opened_stride)
      : call_(call),
        centroids_(centroids),
        above_(call.levels[level - 1]),
        level_(call.levels[level]),
        keys_(centroids.levels[level].keys.data()),
        choice_(scores[level].choice),
        totals_(totals),
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
        CopyScaled(call_.query + int64_t{i} * stride, 1, stride, query);
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
    const float least = totals_.empty() ? kNeverChosen : totals_[position] + *call_.threshold;
    bool more = true;
    for (int p = 0; p < level_.open; ++p) {
      float score = kNeverChosen;
      const int32_t best = more ? TakeLargest(parents * children, score) : -1;
      more = best >= 0 && (p == 0 || score >= least);
      opened_[(level_.opened_at + p) * stride_ + position] =
          more ? parents_[best / children] * children + best % children : -1;
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

  // The first of the largest of `count` scores, which is out of the choice then, and that score; −1: there is none.
  // Behind the last is a vector of kNeverChosen.
  int32_t TakeLargest(int32_t count, float& score) {
    const Floats d;
    float* scores = scores_.data();
    FloatVec largest = hn::Set(d, kNeverChosen);
    for (int32_t k = 0; k < count; k += kLanes) largest = hn::Max(largest, hn::LoadU(d, scores + k));
    largest = hn::MaxOfLanes(d, largest);
    score = hn::GetLane(largest);
    if (score == kNeverChosen) return -1;
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
  const std::vector<float>&choice_, &totals_;
  int32_t* opened_;
  int64_t stride_;
  std::vector<int32_t> parents_;
  std::vector<float> scores_;  // of the parents' children; room for two vectors
};

}  // namespace

void Choose(const ClusterCall& call, const UnitCentroids& centroids, const std::vector<ClusterScores>& scores,
            int32_t* opened, int64_t stride) {
  const CallLevel& first = call.levels.front();
  const size_t last = call.levels.size() - 1;
  if (call.threshold && last == 0) {
    ChooseByThreshold(call, centroids, scores.front(), opened, stride);
    return;
  }
  const std::vector<float> none, totals = call.threshold ? TotalsOfFirstLevel(call, centroids) : none;
  if (first.open > 0) ChooseOfAll(call, centroids, scores.front(), opened + first.opened_at * stride, stride);
  for (size_t level = 1; level <= last; ++level)
    ChildChooser(call, centroids, scores, static_cast<int>(level), level == last ? totals : none, opened, stride).Run();
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(Choose);

void ChooseClusters(const ClusterCall& call, const UnitCentroids& centroids, const std::vector<ClusterScores>& scores,
                    int32_t* opened, int64_t stride) {
  if (!call.bundle_begins.empty()) {
    ChooseOfBundles(call, centroids, scores.front(), opened, stride);
    return;
  }
  HWY_DYNAMIC_DISPATCH(Choose)(call, centroids, scores, opened, stride);
}

}  // namespace lshformer
#endif
