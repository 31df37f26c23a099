#include "kernels/cost.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/philox.h"
#include "kernels/execution.h"
#include "kernels/hashing.h"
#include "kernels/packed_heads.h"
#include "kernels/plan.h"

namespace lshformer {
namespace {

constexpr double kSoftmaxFlops = 5;  // a pair: scale, maximum, subtract-and-exp, sum, divide

}  // namespace

double CollisionProbability(double theta, int bands, int table_size, int hashes) {
  const double same = std::pow(1 - theta / std::numbers::pi, bands);
  const double one = same + (1 - same) / table_size;
  return 1 - std::pow(1 - one, hashes);
}

double AttentionCost::paper_flops() const { return selection_flops > 0 ? selection_flops : score_flops; }

namespace {

// Pairs of a sequence that are seen whatever the hash says: a band around the diagonal, rows and columns of global
// tokens.
double AlwaysSeenPairs(const AttentionSpec& spec, int64_t length) {
  if (spec.window == 0 && !spec.global_first && !spec.global_last) return 0;
  double pairs = 0;
  for (int64_t i = 0; i < length; ++i) {
    const bool first = spec.global_first && i == 0, last = spec.global_last && i == length - 1;
    const bool band = spec.window > 0;
    const int64_t low = band ? std::max<int64_t>(0, i - spec.window) : i;
    const int64_t high = band ? std::min<int64_t>(length, i + int64_t{spec.window} + 1) : i;
    const int64_t beside = (spec.global_first && low > 0 ? 1 : 0) + (spec.global_last && high < length ? 1 : 0);
    pairs += static_cast<double>(first || last ? length : high - low + beside);
  }
  return pairs;
}

// Products of one query in Reformer's windows, all rounds together, away from the ends of rounds.
double ReformerPairsOfAQuery(const ReformerAttention& reformer, const AttentionSpec& spec, int64_t length) {
  const double n = static_cast<double>(length), earlier = reformer.causal ? (n + 1) / (2 * n) : 1;
  if (!IsSparseAt(spec, static_cast<int>(length))) return n * earlier;
  const std::array<int, 2> factors = BucketFactors(reformer, length);
  double window = static_cast<double>(reformer.chunk) * (reformer.look_back + 1 + reformer.look_ahead);
  if (!reformer.cross_bucket) window = std::min(window, n / factors[0] / factors[1]);
  return reformer.rounds * window * earlier;
}

// Of one sequence under one layer.
struct LayerCall {
  const AttentionSpec& spec;
  int heads, head_dim;
  int64_t length;
  double share;  // measured, of all pairs; < 0: none
};

AttentionCost Cost(const ReformerAttention& reformer, const LayerCall& call) {
  const auto [spec, heads, head_dim, length, share] = call;
  const double n = static_cast<double>(length);
  AttentionCost cost;
  cost.pairs_total = heads * n * n;
  cost.pairs = length == 0 ? 0 : heads * n * ReformerPairsOfAQuery(reformer, spec, length);
  if (IsSparseAt(spec, static_cast<int>(length))) {
    const double earlier = reformer.causal ? 0.5 : 1,
                 missed = std::max(0.0, 1 - cost.pairs / (heads * n * n * earlier));
    cost.pairs += heads * AlwaysSeenPairs(spec, length) * earlier * missed;
    cost.selection_flops = 2.0 * RotationColumns(reformer, length) * head_dim * n * reformer.rounds * heads;
  }
  cost.dot_products = cost.pairs;
  cost.score_flops = 2.0 * head_dim * cost.dot_products;
  cost.value_flops = (2.0 * head_dim + kSoftmaxFlops) * cost.pairs;
  return cost;
}

// Σ over a sequence's queries of the keys in the window of their chunk, for SimHash's sorted pairs under one hash
// function.
double WindowPairs(const SimHashAttention& simhash, int64_t length) {
  const int64_t chunk = simhash.chunk, chunks = (length + chunk - 1) / chunk;
  double pairs = 0;
  for (int64_t c = 0; c < chunks; ++c) {
    const int64_t rows = std::min(length, (c + 1) * chunk) - c * chunk;
    const int64_t begin = std::max<int64_t>(0, c - simhash.look_back) * chunk;
    const int64_t end = std::min(length, (c + simhash.look_ahead + 1) * chunk);
    pairs += static_cast<double>(rows) * static_cast<double>(end - begin);
  }
  return pairs;
}

// The share of pairs that SimHash sees where queries and keys are orthogonal.
double ExpectedShare(const SimHashAttention& simhash, int64_t length) {
  const double n = static_cast<double>(length);
  if (simhash.pairs == Pairs::kSorted) return 1 - std::pow(1 - WindowPairs(simhash, length) / (n * n), simhash.hashes);
  if (SignPatternsAreBuckets(simhash)) return 1 - std::pow(1 - std::pow(0.5, BandsOf(simhash, length)), simhash.hashes);
  return CollisionProbability(std::numbers::pi / 2, simhash.bands, simhash.table_size, simhash.hashes);
}
// Every pair, computed and summed.
AttentionCost Cost(const DenseAttention&, const LayerCall& call) {
  const double all = call.heads * static_cast<double>(call.length) * static_cast<double>(call.length);
  AttentionCost cost;
  cost.pairs_total = cost.pairs = cost.dot_products = all;
  cost.score_flops = 2.0 * call.head_dim * cost.dot_products;
  cost.value_flops = (2.0 * call.head_dim + kSoftmaxFlops) * cost.pairs;
  return cost;
}

// Exact attention's over fewer pairs.
AttentionCost Cost(const LocalAttention&, const LayerCall& call) {
  AttentionCost cost = Cost(DenseAttention{}, call);
  const double share =
      static_cast<double>(PairsInWindows(call.spec.window, call.length)) * call.heads / std::max(1.0, cost.pairs_total);
  for (double* part : {&cost.pairs, &cost.dot_products, &cost.score_flops, &cost.value_flops}) *part *= share;
  return cost;
}

AttentionCost Cost(const SimHashAttention& simhash, const LayerCall& call) {
  auto [spec, heads, head_dim, length, share] = call;
  if (!IsSparseAt(spec, static_cast<int>(length))) return Cost(DenseAttention{}, call);
  const double n = static_cast<double>(length), all = heads * n * n;
  AttentionCost cost;
  cost.pairs_total = all;
  cost.selection_flops = 1000 * PaperHashKflops(BandsOf(simhash, length), head_dim, length, simhash.hashes, heads);
  if (share < 0) {
    share = ExpectedShare(simhash, length);
    if (length > 0) share += AlwaysSeenPairs(spec, length) / (n * n) * (1 - share);
  } else if (simhash.pairs == Pairs::kReference) {
    share *= 2 * n / (n + 1);  // counted were products
  }
  cost.pairs = share * all;
  // The authors compute one product for (i, j) and its mirror image.
  cost.dot_products = simhash.pairs == Pairs::kReference ? share * heads * n * (n + 1) / 2 : cost.pairs;
  cost.score_flops = 2.0 * head_dim * cost.dot_products;
  cost.value_flops = (2.0 * head_dim + kSoftmaxFlops) * cost.pairs;
  if (simhash.fill != Fill::kNone) {
    // Σ v of all keys once and, per query, the share of those it did not see; the mean key's score where that fills.
    cost.value_flops += 3.0 * head_dim * heads * n;
    if (simhash.fill == Fill::kMean) cost.score_flops += 3.0 * head_dim * heads * n;
  }
  return cost;
}

// Keys of opened clusters, every centroid of the first level, those that opened ones are made of on the levels below,
// and neighbours and global tokens beyond; sums of clusters are hashing.
AttentionCost Cost(const ClusteredAttention& clustered, const LayerCall& call) {
  const auto [spec, heads, head_dim, length, share] = call;
  if (!IsSparseAt(spec, static_cast<int>(length))) return Cost(DenseAttention{}, call);
  const double n = static_cast<double>(length), all = heads * n * n;
  const std::vector<ClusterLevel> levels = LevelsOf(clustered, length);
  double centroids = levels.front().count;
  for (size_t l = 1; l < levels.size(); ++l)
    centroids += std::min(levels[l - 1].open, levels[l - 1].count) * (levels[l - 1].cluster / levels[l].cluster);
  const double leaves = levels.back().count, opened = clustered.open.back() * n / leaves;
  const double neighbours = spec.window > 0 ? 2 * spec.window + 1 : 0;
  const double always = neighbours + (spec.global_first ? 1 : 0) + (spec.global_last ? 1 : 0);
  AttentionCost cost;
  cost.pairs_total = all;
  cost.pairs = share < 0 ? heads * n * (centroids + opened + always * (1 - opened / n)) : share * all;
  cost.selection_flops = 2.0 * static_cast<double>(SelectionProducts(clustered, length)) * head_dim * n * heads;
  cost.dot_products = cost.pairs;
  cost.score_flops = 2.0 * head_dim * cost.dot_products;
  cost.value_flops = (2.0 * head_dim + kSoftmaxFlops) * cost.pairs;
  return cost;
}

}  // namespace

AttentionCost CostOfAttention(const AttentionSpec& spec, int heads, int head_dim, int64_t length, double share) {
  if (!spec.heads.empty()) {
    AttentionCost sum;
    for (const AttentionSpec& head : spec.heads) sum += CostOfAttention(head, 1, head_dim, length, share);
    return sum;
  }
  const LayerCall call{spec, heads, head_dim, length, share};
  return std::visit([&](const auto& kind) { return Cost(kind, call); }, spec.kind);
}

double PaperHashKflops(int bands, int head_dim, int64_t length, int hashes, int heads) {
  return 2.0 * bands * head_dim * 2.0 * static_cast<double>(length) * hashes * heads / 1000;
}

double PaperDenseKflops(int head_dim, int64_t length, int heads) {
  const double n = static_cast<double>(length);
  return 2.0 * n * n * head_dim * heads / 1000;
}

namespace {

PlannedAttention PlanOfRandomKeys(const DenseAttention&, const AttentionSpec&, const AttentionShape& shape) {
  return {BuildDensePlan(shape)};
}

PlannedAttention PlanOfRandomKeys(const LocalAttention&, const AttentionSpec& spec, const AttentionShape& shape) {
  return {BuildLocalPlan(spec, shape)};
}

// With buckets drawn evenly: what they are changes nothing but the order of tokens.
PlannedAttention PlanOfRandomKeys(const ReformerAttention& reformer, const AttentionSpec& spec,
                                  const AttentionShape& shape) {
  const std::array<int, 2> factors = BucketFactors(reformer, shape.tokens());
  std::vector<int32_t> buckets(static_cast<size_t>(shape.heads) * reformer.rounds * shape.tokens());
  for (size_t i = 0; i < buckets.size(); ++i) buckets[i] = static_cast<int32_t>(i) % (factors[0] * factors[1]);
  return {BuildReformerPlan(spec, shape, buckets)};
}

PlannedAttention PlanOfRandomKeys(const SimHashAttention& simhash, const AttentionSpec& spec,
                                  const AttentionShape& shape) {
  const int64_t length = shape.tokens();
  if (!IsSparseAt(spec, static_cast<int>(length))) return {BuildDensePlan(shape)};
  const SimHashPlanes planes = DrawSimHashPlanes(spec, shape.heads, shape.head_dim, /*layer=*/0, /*step=*/0, length);
  PhiloxStream bits(StreamKey(spec.seed, 0, 0, 0, Purpose::kPlanes));
  const int64_t table_size = TableSizeOf(simhash, length);
  const auto buckets = [&] {
    std::vector<int32_t> drawn;
    for (int64_t h = 0; h < int64_t{shape.heads} * simhash.hashes; ++h) {
      for (int64_t t = 0; t < length; ++t) {
        int64_t sum = 0;
        for (int band = 0; band < planes.bands; ++band)
          sum += bits.Below(2) != 0 ? planes.coefficients[h * planes.bands + band] : 0;
        drawn.push_back(static_cast<int32_t>(sum % table_size));
      }
    }
    return drawn;
  };
  const std::vector<int32_t> query = buckets(), key = buckets();
  return {BuildSimHashPlan(spec, shape, query, key)};
}

// With random queries and keys: what they are changes next to nothing in what is kept.
PlannedAttention PlanOfRandomKeys(const ClusteredAttention&, const AttentionSpec& spec, const AttentionShape& shape) {
  PhiloxStream stream(StreamKey(spec.seed, 0, 0, 0, Purpose::kDirections));
  std::vector<float> rows(static_cast<size_t>(shape.tokens()) * shape.heads * shape.head_dim);
  for (float& x : rows) x = static_cast<float>(stream.Uniform() - 0.5);
  const HeadTensor<const float> tensor{rows.data(), int64_t{shape.heads} * shape.head_dim, shape.head_dim};
  return BuildPlan(spec, shape, tensor, tensor, DrawProjections(spec, shape, /*layer=*/0, /*step=*/0));
}

}  // namespace

double AttentionWorkBytes(const AttentionSpec& spec, int heads, int head_dim, int64_t length) {
  constexpr int64_t kPlanned = 65536;  // from here on in proportion
  if (length > kPlanned)
    return AttentionWorkBytes(spec, heads, head_dim, kPlanned) * static_cast<double>(length) / kPlanned;
  const std::vector<int32_t> cu_seqlens{0, static_cast<int32_t>(length)};
  const AttentionShape shape{cu_seqlens, heads, head_dim};
  return static_cast<double>(
      WorkBytes(std::visit([&](const auto& kind) { return PlanOfRandomKeys(kind, spec, shape); }, spec.kind)));
}

}  // namespace lshformer
