// Clustered attention: its oracle by hand and by finite differences, its kernels against the oracle, what results must
// not depend on, and numbers that break sums.
#include "kernels/ref/clustered.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/attention_case.h"
#include "kernels/every_isa.h"
#include "kernels/execution.h"
#include "kernels/hashing.h"
#include "kernels/packed_heads.h"
#include "kernels/plan.h"
#include "kernels/planning/plan_arrays.h"
#include "util/sanitized.h"

namespace lshformer::testing {
namespace {

// |got − want| ≤ tolerance · the largest |want|, and no number where there is none.
template <class T>
void ExpectNear(const std::vector<float>& got, const std::vector<T>& want, double tolerance, const char* name) {
  ASSERT_EQ(got.size(), want.size()) << name;
  double largest = 0;
  for (const T x : want) largest = std::max(largest, std::abs(static_cast<double>(x)));
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(static_cast<double>(got[i]) - want[i]), tolerance * largest) << name << " element " << i;
}

void ExpectNearOracle(const AttentionCase& c, const AttentionResult& got) {
  const OracleResult want = RunOracle(c);
  const double tolerance = c.operands == Operands::kBFloat16 ? 3e-2 : 2e-4;
  EXPECT_EQ(got.counts.pairs_computed, want.outputs.pairs_computed);
  ExpectNear(got.out, want.outputs.out, tolerance, "out");
  ExpectNear(got.lse, want.outputs.lse, tolerance, "lse");
  ExpectNear(got.grad_query, want.grads.query, tolerance, "grad_query");
  ExpectNear(got.grad_key, want.grads.key, tolerance, "grad_key");
  ExpectNear(got.grad_value, want.grads.value, tolerance, "grad_value");
}

class Clustering : public IsaFixture {
 protected:
  void TearDown() override {
    SetThreads(HardwareThreads());
    IsaFixture::TearDown();
  }
};
INSTANTIATE_TEST_SUITE_P(EverySetting, Clustering,
                         ::testing::Combine(::testing::ValuesIn(FewerIfSanitized(ClusteredSpecs(), 3)),
                                            ::testing::ValuesIn(IsasAndBFloat16())),
                         NameOfSpecAndIsa);

TEST_P(Clustering, AgreesWithTheOracle) {
  for (const int head_dim : kSanitized ? std::vector{33} : std::vector{5, 16, 33, 64}) {
    SCOPED_TRACE(head_dim);
    const AttentionCase c = WithOperands(RandomCase(spec(), {0, 1, 17, 150, 2, 211}, 2, head_dim, 4, 0.8));
    ExpectNearOracle(c, RunKernels(c));
  }
}

TEST_P(Clustering, DropoutDropsTheSamePairsAsTheOracle) {
  AttentionCase c = WithOperands(RandomCase(spec(), {40, 170}, 2, 24, 5, 0.8));
  c.dropout = 0.3f;
  ExpectNearOracle(c, RunKernels(c));
}

TEST_P(Clustering, AloneOrInABatchBitForBit) {
  AttentionCase c = WithOperands(RandomCase(spec(), {3, 0, 70, 1, 230}, 2, 20, 6));
  c.dropout = 0.2f;
  const AttentionResult all = RunKernels(c);
  const auto part = [&](const std::vector<float>& x, size_t b, int64_t width) {
    return std::vector<float>(x.begin() + c.cu_seqlens[b] * width, x.begin() + c.cu_seqlens[b + 1] * width);
  };
  for (size_t b = 0; b + 1 < c.cu_seqlens.size(); ++b) {
    const AttentionResult alone = RunKernels(Alone(c, b));
    const int64_t row = int64_t{c.heads} * c.head_dim;
    EXPECT_TRUE(part(all.out, b, row) == alone.out && part(all.lse, b, c.heads) == alone.lse) << "sequence " << b;
    EXPECT_TRUE(part(all.grad_query, b, row) == alone.grad_query && part(all.grad_key, b, row) == alone.grad_key &&
                part(all.grad_value, b, row) == alone.grad_value)
        << "sequence " << b;
  }
}

TEST_P(Clustering, StridesChangeNothing) {
  AttentionCase c = WithOperands(RandomCase(spec(), {5, 166}, 2, 19, 8));
  const AttentionResult want = RunKernels(c);
  const int64_t width = 24, tokens = c.tokens();  // heads-major rows of 24 floats, oddly aligned
  const auto spread = [&](const std::vector<float>& x) {
    std::vector<float> wide(1 + tokens * c.heads * width, NAN);
    for (int64_t t = 0; t < tokens; ++t)
      for (int h = 0; h < c.heads; ++h)
        std::copy_n(x.data() + (t * c.heads + h) * c.head_dim, c.head_dim, wide.data() + 1 + (h * tokens + t) * width);
    return wide;
  };
  const std::vector<float> query = spread(c.query), key = spread(c.key), value = spread(c.value);
  const auto in = [&](const std::vector<float>& x) {
    return HeadTensor<const float>{x.data() + 1, width, tokens * width};
  };
  const PlannedAttention planned =
      BuildClusteredPlan(c.spec, c.shape(), in(query), in(key), c.buckets.query, c.buckets.key);
  std::vector<float> out(c.query.size()), lse(tokens * c.heads);
  RunAttentionForward({c.shape(),
                       in(query),
                       in(key),
                       in(value),
                       {out.data(), c.heads * c.head_dim, c.head_dim},
                       lse.data(),
                       c.Scale(),
                       planned.plan.get(),
                       planned.centroids.get(),
                       c.Dropout(),
                       c.operands});
  EXPECT_EQ(out, want.out);
  EXPECT_EQ(lse, want.lse);
}

// One kind of a layer, a setting for each head.
class HeadsThatDiffer : public IsaFixture {
 public:
  static AttentionSpec Three(AttentionSpec one, AttentionSpec two, AttentionSpec three) {
    return OfHeads({std::move(one), std::move(two), std::move(three)}, "test");
  }
  static std::vector<AttentionSpec> Specs() {
    const AttentionSpec dense, fine = WithAlways(Clustered(8, 3, 4), 2, true, true),
                               coarse = WithAlways(Clustered(32, 1, 2), 6, false, true);
    AttentionSpec long_ones = WithAlways(Bundled(16, 1, 4, 24), 2, true, true);
    long_ones.min_length = 200;
    return {Three(fine, coarse, dense), Three(dense, long_ones, fine), Three(coarse, long_ones, fine)};
  }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, HeadsThatDiffer,
                         ::testing::Combine(::testing::ValuesIn(HeadsThatDiffer::Specs()),
                                            ::testing::ValuesIn(IsasAndBFloat16())),
                         NameOfSpecAndIsa);

TEST_P(HeadsThatDiffer, AgreeWithTheOracle) {
  AttentionCase c = WithOperands(RandomCase(spec(), {17, 150, 1, 211}, 3, 33, 4, 0.8));
  c.dropout = 0.1f;
  ExpectNearOracle(c, RunKernels(c));
}

TEST_P(HeadsThatDiffer, ComputeWhatEachWouldAlone) {
  const AttentionCase all = WithOperands(RandomCase(spec(), {150, 211}, 3, 20, 9));
  const AttentionResult together = RunKernels(all);
  const int64_t tokens = all.tokens();
  for (int head = 0; head < 3; ++head) {
    const auto rows = [&](const std::vector<float>& x) {
      std::vector<float> own;
      for (int64_t token = 0; token < tokens; ++token)
        own.insert(own.end(), x.begin() + (token * 3 + head) * all.head_dim,
                   x.begin() + (token * 3 + head + 1) * all.head_dim);
      return own;
    };
    const auto labels = [&](const std::vector<int32_t>& x) {
      return std::vector<int32_t>(x.begin() + head * tokens, x.begin() + (head + 1) * tokens);
    };
    AttentionCase one = all;
    one.heads = 1;
    one.spec = OfHead(spec(), head);
    for (auto* x : {&one.query, &one.key, &one.value, &one.grad_out}) *x = rows(*x);
    one.buckets = {labels(all.buckets.query), labels(all.buckets.key)};
    const AttentionResult alone = RunKernels(one);
    EXPECT_EQ(rows(together.out), alone.out) << head;
    EXPECT_EQ(rows(together.grad_query), alone.grad_query) << head;
    EXPECT_EQ(rows(together.grad_key), alone.grad_key) << head;
    EXPECT_EQ(rows(together.grad_value), alone.grad_value) << head;
  }
}

// One sequence long enough for all threads to work on it.
TEST(ClusteredThreads, ChangeNothing) {
  for (const AttentionSpec& spec :
       {WithAlways(Clustered(400, 2, 2), 2, true, true), WithAlways(Bundled(200, 3, 2, 64), 2, true, true),
        WithAlways(Bundled(200, 3, 2, 64), 0, true, true),
        WithAlways(Levels({800, 200, 100}, {2, 2, 6}, 2), 2, true, true)}) {
    AttentionCase c = RandomCase(spec, {100, 2400, 37}, 1, 8, 7);
    c.dropout = 0.1f;
    const AttentionPlanPtr plan = PlanOf(c).plan;
    EXPECT_GE(plan->units[1].visited_pairs, 1'000'000);
    SetThreads(1);
    const AttentionResult one = RunKernels(c);
    for (const int threads : {2, 3}) {
      SetThreads(threads);
      EXPECT_TRUE(one == RunKernels(c)) << NameOf(spec) << ", " << threads << " threads";
    }
    SetThreads(HardwareThreads());
  }
}

// Where every cluster of the first level is opened, all of the second level are scored, as in the flat form; more
// centroids are scored, that is all.
TEST(ClusteredLevels, AllOpenedAreTheLevelBelow) {
  const AttentionCase flat = RandomCase(WithAlways(Clustered(8, 3, 4), 2, true, true), {160, 320}, 2, 24, 18);
  for (const int size : {16, 32, 80}) {
    AttentionCase levels = flat;
    levels.spec = WithAlways(Levels({size, 8}, {100, 3}, 4), 2, true, true);
    const AttentionResult got = RunKernels(levels), want = RunKernels(flat);
    EXPECT_EQ(got.counts.pairs_computed, want.counts.pairs_computed + 2 * (160 * 160 + 320 * 320) / size);
    ExpectNear(got.out, want.out, 1e-5, "out");
    ExpectNear(got.lse, want.lse, 1e-5, "lse");
    ExpectNear(got.grad_key, want.grad_key, 1e-4, "grad_key");
  }
}

// Queries that are all the same choose alike: together they open what each would.
TEST(ClusteredBundles, EqualQueriesOpenWhatEachWould) {
  AttentionCase each = RandomCase(WithAlways(Clustered(16, 3, 1), 2, true, true), {150, 333}, 2, 24, 20);
  for (int64_t i = 0; i < std::ssize(each.query); ++i) each.query[i] = each.query[i % (2 * 24)];
  AttentionCase together = each;
  together.spec = WithAlways(Bundled(16, 3, 1, 48), 2, true, true);
  for (int b = 0; b < 2; ++b) {
    const int32_t begin = each.cu_seqlens[b], length = each.cu_seqlens[b + 1] - begin;
    for (int head = 0; head < 2; ++head)
      for (int32_t i = 0; i < length; ++i)
        together.buckets.query[head * each.tokens() + begin + i] = i / ((length + 3) / 4) % (length == 150 ? 4 : 7);
  }
  const AttentionResult want = RunKernels(each), got = RunKernels(together);
  ExpectNear(got.out, want.out, 1e-5, "out");
  ExpectNear(got.grad_query, want.grad_query, 1e-4, "grad_query");
  EXPECT_EQ(got.counts.pairs_computed, want.counts.pairs_computed);
}

TEST(ClusteredBundles, CountsByHand) {
  const auto bundles = [](int groups, int bundle, int64_t length) {
    return BundlesOfAGroup({.groups = groups, .bundle = bundle}, length);
  };
  EXPECT_EQ(bundles(4, 1, 4096), 1);
  EXPECT_EQ(bundles(4, 64, 4096), 16);
  EXPECT_EQ(bundles(4, 64, 4097), 17);  // 1,025 queries in the largest group
  EXPECT_EQ(bundles(3, 16, 100), 3);    // 34
  EXPECT_EQ(bundles(64, 64, 100), 1);
  const ClusteredAttention fine{.groups = 4, .bundle = 2};
  EXPECT_EQ(QueryCuts(fine, 4096), 11);
  EXPECT_EQ(QueryDirections(fine, 4096), 6);
  EXPECT_EQ(QueryDirections({.groups = 5}, 4096), 3);
}

// auto is the levels that it stands for, bit for bit.
TEST(ClusteredLevels, AutoFollowsTheLength) {
  const AttentionSpec automatic = WithAlways(Levels({}, {3}, 4), 2, true, true);
  for (const int length : {8192, 8193}) {
    const bool flat = length == 8192;
    const AttentionSpec spec = flat ? Clustered(32, 3, 4) : Levels({256, 32}, {3, 3}, 4);
    const AttentionCase want = RandomCase(WithAlways(spec, 2, true, true), {length}, 1, 16, 19);
    AttentionCase got = want;
    got.spec = automatic;
    EXPECT_TRUE(RunKernels(got) == RunKernels(want)) << length;
  }
  const std::vector<ClusterLevel> levels = LevelsOf(As<ClusteredAttention>(automatic), 100'000);
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_EQ(levels[0].cluster, 2048);
  EXPECT_EQ(levels[0].count, 49);
  EXPECT_EQ(levels[2].count, 49 * 64);
}

TEST(ClusteredLevels, CountsByHand) {
  const std::vector<ClusterLevel> levels = LevelsOf({.cluster = {24, 12, 4}, .open = {3, 2, 5}}, 100);
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_EQ(levels[0].count, 5);
  EXPECT_EQ(levels[1].count, 10);
  EXPECT_EQ(levels[2].count, 30);
}

// With every cluster opened but one nothing but that one's centroid is approximate; where a cluster is one key nothing
// is.
TEST(ClusteredLimits, ClustersOfOneKeyAreExactAttention) {
  const AttentionCase c = RandomCase(Clustered(1, 5, 3), {120}, 2, 16, 9);
  AttentionCase dense = c;
  dense.spec = AttentionSpec{};
  const AttentionResult got = RunKernels(c, false), want = RunKernels(dense, false);
  ExpectNear(got.out, want.out, 1e-5, "out");
  ExpectNear(got.lse, want.lse, 1e-5, "lse");
}

TEST(ClusteredLimits, ShortSequencesAreExactBitForBit) {
  EXPECT_EQ(ShortestSparse(Levels({}, {4}, 4)), 81);
  for (const AttentionSpec& form : {Clustered(16, 4, 4), Bundled(16, 4, 4, 64), Levels({64, 16}, {2, 4}, 4)}) {
    const AttentionSpec spec = WithAlways(form, 2, true, true);
    const AttentionCase c = RandomCase(spec, {80, 7}, 2, 16, 10);
    AttentionCase dense = c;
    dense.spec = AttentionSpec{};
    EXPECT_TRUE(RunKernels(c) == RunKernels(dense));
    EXPECT_EQ(RunKernels(c, false).counts.pairs_computed, RunKernels(dense, false).counts.pairs_computed);
    EXPECT_EQ(ShortestSparse(spec), 81);
    // One token more is approximate, but near.
    const AttentionCase longer = RandomCase(spec, {81}, 2, 16, 10);
    ExpectNearOracle(longer, RunKernels(longer));
  }
}

// Equal keys: every weight is the same, no spread, no −0.
TEST(ClusteredLimits, EqualKeysAreExactAttention) {
  for (const AttentionSpec& spec : {Clustered(8, 2, 4), Bundled(8, 2, 4, 20), Levels({32, 8}, {2, 2}, 4)}) {
    AttentionCase c = RandomCase(WithAlways(spec, 2, true, true), {150}, 2, 16, 11);
    for (size_t i = 0; i < c.key.size(); ++i) c.key[i] = c.key[i % c.head_dim];
    AttentionCase dense = c;
    dense.spec = AttentionSpec{};
    const AttentionResult got = RunKernels(c, false), want = RunKernels(dense, false);
    ExpectNear(got.lse, want.lse, 1e-5, "lse");
    ExpectNear(got.out, RunOracle(c).outputs.out, 1e-4, "out");
  }
}

// Scores of ±10⁴: the largest of each cluster comes off first, so that none is lost and nothing overflows.
TEST(ClusteredLimits, LargeScoresLoseNoCluster) {
  for (const AttentionSpec& spec : {Clustered(8, 2, 4), Bundled(8, 3, 4, 20), Levels({64, 32, 8}, {2, 2, 2}, 4)}) {
    for (const double size : {40.0, 60.0}) {
      AttentionCase c = RandomCase(WithAlways(spec, 2, true, true), {200}, 2, 16, 12, size);
      // Of a bundle every query looks at one key alone then: clusters weigh the same, and rounding chooses.
      if (As<ClusteredAttention>(spec).bundle == 1)
        ExpectNear(RunKernels(c, false).lse, RunOracle(c).outputs.lse, 1e-5, "lse");
      const AttentionResult got = RunKernels(c);
      for (const auto* tensor : {&got.out, &got.grad_query, &got.grad_key, &got.grad_value})
        for (const float x : *tensor) ASSERT_TRUE(std::isfinite(x));
    }
  }
}

// Nothing crashes, whatever the numbers are; sequences beside stay what they are.
TEST(ClusteredLimits, NumbersThatAreNoneStayInTheirSequence) {
  for (const AttentionSpec& form : {Clustered(8, 2, 4), Bundled(8, 2, 4, 20), Levels({16, 8}, {2, 2}, 4)}) {
    const AttentionSpec spec = WithAlways(form, 2, true, true);
    const AttentionCase c = RandomCase(spec, {100, 90}, 2, 8, 13);
    const AttentionResult want = RunKernels(c);
    for (const float x : {NAN, INFINITY, -INFINITY, 3e38f}) {
      AttentionCase bad = c;
      std::fill_n(bad.key.begin() + 17 * 16, 5, x);
      std::fill_n(bad.query.begin() + 23 * 16, 5, x);
      const AttentionResult got = RunKernels(bad);
      EXPECT_TRUE(std::equal(got.out.begin() + 100 * 16, got.out.end(), want.out.begin() + 100 * 16)) << x;
      const Buckets labels = GroupByHalving(spec, bad.shape(), {bad.query.data(), 16, 8}, {bad.key.data(), 16, 8},
                                            DrawClusterDirections(spec, bad.shape(), 0));
      EXPECT_LT(*std::max_element(labels.key.begin(), labels.key.end()), 14);
    }
  }
}

// The gradient is that of a forward whose means, weights and choice are held.
TEST(ClusteredOracle, GradientIsThatOfTheForwardThatHoldsItsConstants) {
  for (const AttentionSpec& spec : ClusteredSpecs()) {
    SCOPED_TRACE(NameOf(spec));
    const AttentionCase c = RandomCase(spec, {90}, 1, 6, 14, 0.7);
    std::vector<double> query = Wide(c.query), key = Wide(c.key), value = Wide(c.value);
    const std::vector<double> held_query = query, held_key = key, held_value = value, grad_out = Wide(c.grad_out);
    const auto inputs = [&](const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v) {
      return ref::Inputs{c.shape(), spec, q, k, v, c.Scale(), c.buckets.query, c.buckets.key, {}};
    };
    const ref::Inputs held = inputs(held_query, held_key, held_value);
    const auto& clustered = As<ClusteredAttention>(spec);
    const auto loss = [&] {
      const std::vector<double> out = ref::ForwardHolding(clustered, inputs(query, key, value), held).out;
      return std::inner_product(out.begin(), out.end(), grad_out.begin(), 0.0);
    };
    const ref::Gradients grads = ref::Backward(clustered, held, grad_out);
    const auto check = [&](std::vector<double>& x, const std::vector<double>& gradient, const char* name) {
      double largest = 0;
      for (const double g : gradient) largest = std::max(largest, std::abs(g));
      for (size_t i = 0; i < x.size(); i += 37) {
        const double before = x[i], step = 1e-5;
        x[i] = before + step;
        const double above = loss();
        x[i] = before - step;
        const double below = loss();
        x[i] = before;
        EXPECT_NEAR((above - below) / (2 * step), gradient[i], 1e-7 * largest) << name << " element " << i;
      }
    };
    check(query, grads.query, "query");
    check(key, grads.key, "key");
    check(value, grads.value, "value");
  }
}

// Four keys in two clusters of two, the second opened; one group, so m = q: the centroid's logit is log Σ exp(q·k).
TEST(ClusteredOracle, ByHand) {
  AttentionSpec spec = Clustered(2, 1, 1);
  const std::vector<int32_t> cu_seqlens{0, 5}, groups(5, 0), clusters{0, 0, 1, 1, 2};
  const std::vector<double> query(5, 1.0), key{0.1, 0.3, 0.9, 1.5, 0.2}, value{1, 2, 3, 4, 5};
  const ref::Inputs in{{cu_seqlens, 1, 1}, spec, query, key, value, 1.0, groups, clusters, {}};
  const ref::Outputs got = ref::Forward(in);
  double sum = 0, weighted = 0;
  for (int j = 0; j < 5; ++j) {
    sum += std::exp(key[j]);
    weighted += std::exp(key[j]) * value[j];
  }
  // All queries are their group's mean, so every centroid is exact, value included.
  for (int i = 0; i < 5; ++i) {
    EXPECT_NEAR(got.lse[i], std::log(sum), 1e-12);
    EXPECT_NEAR(got.out[i], weighted / sum, 1e-12);
  }
  EXPECT_EQ(got.pairs_computed, 5 * (2 + 3));
}

// Clusters of neighbours, of which a window takes all keys, or all but one or two that may weigh next to nothing.
TEST(ClusteredWindows, TakeNearlyAllOfAClusterToo) {
  for (const AttentionSpec& spec :
       {WithAlways(Clustered(8, 0, 4), 9, false, false), WithAlways(Levels({32, 8}, {1, 0}, 4), 30, false, true)}) {
    for (const double spread : {0.8, 3.0}) {
      AttentionCase c = RandomCase(spec, {160}, 2, 16, 17, spread);
      for (size_t i = 0; i < c.buckets.key.size(); ++i) c.buckets.key[i] = static_cast<int32_t>(i % 160 / 8);
      ExpectNearOracle(c, RunKernels(c));
    }
  }
}

class Probabilities : public ::testing::TestWithParam<AttentionSpec> {};
// Without a window a centroid stands for all of its keys.
INSTANTIATE_TEST_SUITE_P(ClusteredOracle, Probabilities,
                         ::testing::Values(Clustered(8, 2, 4), Bundled(8, 2, 3, 10), Levels({32, 8}, {2, 2}, 4)));

TEST_P(Probabilities, AddUpAndMakeTheOutput) {
  const AttentionSpec spec = GetParam();
  const AttentionCase c = RandomCase(spec, {100}, 2, 8, 15);
  const std::vector<double> query = Wide(c.query), key = Wide(c.key), value = Wide(c.value);
  const ref::Inputs in{c.shape(), spec, query, key, value, c.Scale(), c.buckets.query, c.buckets.key, {}};
  const ref::Outputs want = ref::Forward(in);
  for (int head = 0; head < 2; ++head) {
    const std::vector<double> map = ref::ClusteredProbabilities(As<ClusteredAttention>(spec), in, 0, head);
    for (int64_t i = 0; i < 100; ++i) {
      EXPECT_NEAR(std::accumulate(map.begin() + i * 100, map.begin() + (i + 1) * 100, 0.0), 1, 1e-12);
      double out = 0;
      for (int64_t j = 0; j < 100; ++j) out += map[i * 100 + j] * value[(j * 2 + head) * 8 + 3];
      EXPECT_NEAR(out, want.out[(i * 2 + head) * 8 + 3], 1e-12);
    }
  }
}

// Linear in tokens: 16 times as many take 16 to 17 times the memory, the clusters' logarithm apart.
TEST(ClusteredMemory, GrowsWithTokens) {
  for (const AttentionSpec& form : {Clustered(16, 4, 4), Bundled(16, 4, 4, 64), Levels({512, 64, 16}, {2, 4, 4}, 4)}) {
    const AttentionSpec spec = WithAlways(form, 2, true, true);
    const auto bytes = [&](int length) {
      const AttentionCase c = RandomCase(spec, {length}, 1, 32, 17);
      return static_cast<double>(WorkBytes(PlanOf(c)));
    };
    SetThreads(1);
    EXPECT_LT(bytes(16384) / bytes(1024), 17.0);
    SetThreads(HardwareThreads());
  }
}

}  // namespace
}  // namespace lshformer::testing
