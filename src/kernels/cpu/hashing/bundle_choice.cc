// Which clusters queries open together.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention/executor.h"
#include "kernels/cpu/hashing/clusters.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/hashing/bundle_choice.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/hashing/cluster_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace {

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
    const int stride = call_.stride, padded = RoundUp(count, kLanes);
    GatherGroupRows(call_, centroids_, group, begin, count, rows_, transposed_);
    const int64_t first = int64_t{group} * level_.count;
    Multiply<Store::kSet, false>({sums_.keys.data() + first * stride, stride}, {transposed_, padded}, {logits_, padded},
                                 level_.count, padded, call_.head_dim);
    int r = 0;
    for (; r + 4 * kLanes <= padded; r += 4 * kLanes) AddSharesOf<4>(sums_.logits.data() + first, r, count, padded);
    for (; r < padded; r += kLanes) AddSharesOf<1>(sums_.logits.data() + first, r, count, padded);
  }

  // Of the rows r … r + vectors · kLanes − 1, whose products turn into probabilities.
  template <int vectors>
  void AddSharesOf(const float* cluster_logits, int r, int count, int padded) {
    const Floats d;
    const int32_t clusters = level_.count;
    FloatVec largest[vectors], inverse[vectors];
    for (int v = 0; v < vectors; ++v) {
      largest[v] = hn::Set(d, kMasked);
      inverse[v] = hn::Zero(d);
    }
    float* at = logits_ + r;
    for (int32_t c = 0; c < clusters; ++c, at += padded) {
      const float logit = cluster_logits[c];
      for (int v = 0; v < vectors; ++v) {
        const FloatVec product = hn::Load(d, at + v * kLanes);
        const FloatVec sum = logit == kMasked ? hn::Set(d, kMasked) : hn::Add(product, hn::Set(d, logit));
        largest[v] = hn::Max(largest[v], sum);
        hn::Store(sum, d, at + v * kLanes);
      }
    }
    at = logits_ + r;
    for (int32_t c = 0; c < clusters; ++c, at += padded) {
      for (int v = 0; v < vectors; ++v) {
        const FloatVec p = Exp2(d, hn::Sub(hn::Load(d, at + v * kLanes), largest[v]));
        inverse[v] = hn::Add(inverse[v], p);
        hn::Store(p, d, at + v * kLanes);
      }
    }
    for (int v = 0; v < vectors; ++v) {  // rows that fill up the last vector have no say
      const int rows = std::max(0, count - r - v * kLanes);
      const auto counted = hn::FirstN(d, static_cast<size_t>(rows));
      inverse[v] = hn::IfThenElseZero(counted, hn::Div(hn::Set(d, 1.0f), inverse[v]));
    }
    constexpr int kAtATime = 4;
    float sums[kAtATime + kLanes];
    for (int32_t c = 0; c < clusters; c += kAtATime) {
      FloatVec of_rows[kAtATime];
      for (int i = 0; i < kAtATime; ++i) {
        at = logits_ + int64_t{std::min(c + i, clusters - 1)} * padded + r;
        of_rows[i] = hn::Mul(inverse[0], hn::Load(d, at));
        for (int v = 1; v < vectors; ++v) of_rows[i] = hn::MulAdd(inverse[v], hn::Load(d, at + v * kLanes), of_rows[i]);
      }
      StoreLaneSums(of_rows, sums);
      for (int i = 0; i < std::min(kAtATime, clusters - c); ++i) shares_[c + i] += sums[i];
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
    auto open = std::min(order_.size(), static_cast<size_t>(level_.open));
    std::partial_sort(order_.begin(), order_.begin() + static_cast<int64_t>(open), order_.end(),
                      [&](int32_t a, int32_t b) { return shares_[a] != shares_[b] ? shares_[a] > shares_[b] : a < b; });
    if (call_.threshold) {  // of the bundle's mean
      const float least = static_cast<float>(end - begin) * std::exp2(*call_.threshold);
      while (open > 1 && !(shares_[order_[open - 1]] >= least)) --open;
    }
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

}  // namespace

void OpenForBundles(const ClusterCall& call, const UnitCentroids& centroids, const ClusterScores& scores,
                    int32_t* opened, int64_t stride) {
  BundleChooser(call, centroids, scores, opened, stride).Run();
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(OpenForBundles);

void ChooseOfBundles(const ClusterCall& call, const UnitCentroids& centroids, const ClusterScores& scores,
                     int32_t* opened, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(OpenForBundles)(call, centroids, scores, opened, stride);
}

}  // namespace lshformer
#endif
