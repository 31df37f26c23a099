// Clustered attention of numbers that are none, and of clusters that are all alike: kernels and oracle agree on which
// rows are spoiled and which clusters are opened.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/attention_case.h"
#include "kernels/every_isa.h"
#include "kernels/execution.h"
#include "kernels/hashing.h"
#include "kernels/isa.h"
#include "kernels/plan.h"
#include "kernels/planning/plan_arrays.h"

namespace lshformer::testing {
namespace {

double Tolerance(const AttentionCase& c) { return c.operands == Operands::kBFloat16 ? 3e-2 : 2e-4; }

// Of one kind: NaN, +∞, −∞ or finite; finite ones within tolerance · the largest finite one of `want`.
void ExpectAlike(const std::vector<float>& got, const std::vector<double>& want, double tolerance, const char* name) {
  ASSERT_EQ(got.size(), want.size()) << name;
  double largest = 0;
  for (const double x : want) largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : largest;
  for (size_t i = 0; i < got.size(); ++i) {
    const auto x = static_cast<double>(got[i]);
    ASSERT_EQ(std::isnan(x), std::isnan(want[i])) << name << " element " << i << " of " << want[i];
    if (std::isinf(x) || std::isinf(want[i])) {
      ASSERT_EQ(x, want[i]) << name << " element " << i;
    } else if (!std::isnan(x)) {
      ASSERT_LE(std::abs(x - want[i]), tolerance * largest) << name << " element " << i;
    }
  }
}

class HostileClustering : public IsaFixture {};
INSTANTIATE_TEST_SUITE_P(EverySetting, HostileClustering,
                         ::testing::Combine(::testing::ValuesIn(FewerIfSanitized(ClusteredSpecs(), 3)),
                                            ::testing::ValuesIn(IsasAndBFloat16())),
                         NameOfSpecAndIsa);

// A number that is none in a query or a key: its head of its sequence is exact attention, forward and backward, in
// which a query's NaN spoils that query's row alone, a key's all rows, and an infinite key the rows that it scores +∞.
// One in a value spoils its own dimension of all rows, through keys and through centroids.
TEST_P(HostileClustering, NumbersThatAreNone) {
  constexpr int kHeadDim = 8, kHeads = 2, kRow = kHeads * kHeadDim, kLength = 120;
  const AttentionCase c = WithOperands(RandomCase(spec(), {kLength, 70}, kHeads, kHeadDim, 21, 0.8));
  const AttentionResult want = RunKernels(c);
  const auto agrees = [&](const AttentionCase& bad, const char* what) {
    SCOPED_TRACE(what);
    const AttentionResult got = RunKernels(bad);
    const OracleResult oracle = RunOracle(bad);
    const double tolerance = Tolerance(c);
    EXPECT_EQ(got.counts.pairs_computed, oracle.outputs.pairs_computed);
    ExpectAlike(got.out, oracle.outputs.out, tolerance, "out");
    ExpectAlike(got.lse, oracle.outputs.lse, tolerance, "lse");
    ExpectAlike(got.grad_query, oracle.grads.query, tolerance, "grad_query");
    ExpectAlike(got.grad_key, oracle.grads.key, tolerance, "grad_key");
    ExpectAlike(got.grad_value, oracle.grads.value, tolerance, "grad_value");
    bool untouched = true;
    for (size_t i = 0; i < got.out.size(); ++i) {  // the other head, and the other sequence
      if (i / kRow < kLength && i % kRow < kHeadDim) continue;
      untouched = untouched && got.out[i] == want.out[i] && got.grad_key[i] == want.grad_key[i];
    }
    EXPECT_TRUE(untouched);
    return got;
  };
  const auto spoiled_rows = [&](const AttentionResult& got) {
    int rows = 0;
    for (int i = 0; i < kLength; ++i)
      rows += std::any_of(&got.out[i * kRow], &got.out[i * kRow] + kHeadDim, [](float x) { return std::isnan(x); });
    return rows;
  };
  AttentionCase query = c, key = c, value = c;
  query.query[30 * kRow + 3] = NAN;
  EXPECT_EQ(spoiled_rows(agrees(query, "a query's NaN")), 1);
  key.key[30 * kRow + 3] = NAN;
  EXPECT_EQ(spoiled_rows(agrees(key, "a key's NaN")), kLength);
  value.value[30 * kRow + 3] = NAN;
  EXPECT_EQ(spoiled_rows(agrees(value, "a value's NaN")), kLength);
  for (const float infinity : {INFINITY, -INFINITY}) {
    query.query[30 * kRow + 3] = infinity;
    EXPECT_EQ(spoiled_rows(agrees(query, "an infinite query")), 1);
    key.key[30 * kRow + 3] = infinity;
    int positive = 0;
    for (int i = 0; i < kLength; ++i) positive += c.query[i * kRow + 3] * infinity > 0;
    EXPECT_EQ(spoiled_rows(agrees(key, "an infinite key")), positive);
  }
  AttentionCase all = c;
  for (int i = 0; i < kLength; ++i)
    for (auto* tensor : {&all.query, &all.key}) std::fill_n(tensor->begin() + i * kRow, kHeadDim, NAN);
  EXPECT_EQ(spoiled_rows(agrees(all, "a head of NaN")), kLength);
}

// Of clusters that score the same the first are opened.
TEST_P(HostileClustering, OfEqualsTheFirst) {
  constexpr int kHeadDim = 8, kHeads = 2;
  AttentionCase c = RandomCase(spec(), {97, 257}, kHeads, kHeadDim, 22, 0.8);
  for (auto* tensor : {&c.query, &c.key}) std::fill(tensor->begin(), tensor->end(), 0.0f);
  c = WithOperands(c);
  const AttentionResult got = RunKernels(c);
  const OracleResult want = RunOracle(c);
  EXPECT_EQ(got.counts.pairs_computed, want.outputs.pairs_computed);
  ExpectAlike(got.out, want.outputs.out, Tolerance(c), "out");
  ExpectAlike(got.lse, want.outputs.lse, Tolerance(c), "lse");
  ExpectAlike(got.grad_query, want.grads.query, Tolerance(c), "grad_query");
  ExpectAlike(got.grad_key, want.grads.key, Tolerance(c), "grad_key");
  ExpectAlike(got.grad_value, want.grads.value, Tolerance(c), "grad_value");
}

// Also where a later one scores more and goes before them: of 257 keys that are all zero the ninth of 17 clusters has
// 16, all others have 15 that are not global, or 14.
TEST(EqualClusters, ALaterLargerOneMovesThemBack) {
  AttentionSpec spec = WithAlways(Clustered(16, 4, 4), 2, true, true);
  AttentionCase c = RandomCase(spec, {257}, 1, 16, 23);
  for (auto* tensor : {&c.query, &c.key}) std::fill(tensor->begin(), tensor->end(), 0.0f);
  c.buckets = GroupByHalving(spec, c.shape(), {c.query.data(), 16, 16}, {c.key.data(), 16, 16},
                             DrawClusterDirections(spec, c.shape(), 0));
  for (const std::string& isa : SupportedIsas()) {
    SCOPED_TRACE(isa);
    ForceIsa(isa);
    const AttentionPlanPtr plan = PlanOf(c).plan;
    for (int p = 0; p < 4; ++p) EXPECT_EQ(plan->query_buckets[p * 257], (std::array{8, 0, 1, 2})[p]);
    ExpectAlike(RunKernels(c, false).out, RunOracle(c).outputs.out, Tolerance(c), "out");
  }
  ForceIsa("auto");
}

}  // namespace
}  // namespace lshformer::testing
