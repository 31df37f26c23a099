// A threshold in place of a fixed number of opened clusters, beyond what clustered_test holds all settings to: where it
// opens all or one, it is the fixed number.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/attention_case.h"
#include "kernels/every_isa.h"
#include "kernels/planning/plan_arrays.h"

namespace lshformer::testing {
namespace {

constexpr double kLow = -60, kHigh = 60;  // of log(share · spread): all clusters reach the one, none the other

std::vector<AttentionSpec> Forms() {
  return {WithAlways(Clustered(8, 2, 4), 2, true, true), Clustered(16, 2, 2),
          WithAlways(Bundled(8, 2, 3, 20), 2, true, true), WithAlways(Bundled(16, 2, 2, 64), 0, true, true),
          WithAlways(Levels({32, 8}, {2, 3}, 4), 2, true, true)};
}

class Threshold : public IsaFixture {};
INSTANTIATE_TEST_SUITE_P(Clustered, Threshold,
                         ::testing::Combine(::testing::ValuesIn(Forms()), ::testing::ValuesIn(IsasAndBFloat16())),
                         NameOfSpecAndIsa);

// How many clusters of the last level the queries of a case open.
std::vector<int> Opened(const AttentionCase& c) {
  const PlannedAttention planned = PlanOf(c);
  const AttentionPlan& plan = *planned.plan;
  const int most = MostOpenedOfLast(As<ClusteredAttention>(c.spec));
  std::vector<int> opened;
  for (int head = 0; head < c.heads; ++head) {
    for (int64_t i = 0; i < c.tokens(); ++i) {
      int count = 0;
      for (int p = 0; p < most; ++p)
        count += plan.query_buckets[(int64_t{head} * plan.hashes + p) * c.tokens() + i] >= 0 ? 1 : 0;
      opened.push_back(count);
    }
  }
  return opened;
}

TEST_P(Threshold, ThatAllReachOpensFourTimesAsMany) {
  AttentionCase all = WithOperands(RandomCase(spec(), {150, 211}, 2, 20, 3, 0.8));
  AttentionCase fixed = all;
  As<ClusteredAttention>(all.spec).threshold = kLow;
  As<ClusteredAttention>(fixed.spec).open.back() *= ClusteredAttention::kMostTimesOpen;
  EXPECT_TRUE(RunKernels(all) == RunKernels(fixed));
  EXPECT_EQ(RunKernels(all, false).counts.pairs_computed, RunKernels(fixed, false).counts.pairs_computed);
}

TEST_P(Threshold, ThatNoneReachesOpensTheBest) {
  AttentionCase none = WithOperands(RandomCase(spec(), {150, 211}, 2, 20, 3, 0.8));
  AttentionCase one = none;
  As<ClusteredAttention>(none.spec).threshold = kHigh;
  As<ClusteredAttention>(one.spec).open.back() = 1;
  const AttentionResult got = RunKernels(none), want = RunKernels(one);
  EXPECT_EQ(got.counts.pairs_computed, want.counts.pairs_computed);
  for (size_t i = 0; i < got.out.size(); ++i) EXPECT_NEAR(got.out[i], want.out[i], 1e-5);
  for (size_t i = 0; i < got.lse.size(); ++i) EXPECT_NEAR(got.lse[i], want.lse[i], 1e-5);
  for (size_t i = 0; i < got.grad_key.size(); ++i) EXPECT_NEAR(got.grad_key[i], want.grad_key[i], 2e-4);
}

TEST(ClusteredThreshold, OpensFewerTheHigherItIs) {
  for (const AttentionSpec& form : Forms()) {
    SCOPED_TRACE(NameOf(form));
    const int open = As<ClusteredAttention>(form).open.back();
    double before = 1e9;
    bool differ = false;
    for (const double threshold : {-20.0, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 20.0}) {
      AttentionCase c = RandomCase(form, {300}, 1, 16, 5);
      As<ClusteredAttention>(c.spec).threshold = threshold;
      double sum = 0;
      const std::vector<int> opened = Opened(c);
      for (const int count : opened) {
        EXPECT_GE(count, 1);
        EXPECT_LE(count, 4 * open);
        differ = differ || count != opened.front();
        sum += count;
      }
      EXPECT_LE(sum, before) << threshold;
      before = sum;
    }
    EXPECT_TRUE(differ) << "queries open as many as they need";
  }
}

// Work memory holds a row for each cluster that is opened, not for each that may be.
TEST(ClusteredThreshold, MemoryIsOfWhatIsOpened) {
  AttentionCase c = RandomCase(Clustered(16, 4, 4), {4096}, 1, 32, 6);
  const int64_t fixed = ForwardWorkBytes(PlanOf(c));
  As<ClusteredAttention>(c.spec).threshold = kHigh;
  EXPECT_LT(ForwardWorkBytes(PlanOf(c)), fixed);
}

}  // namespace
}  // namespace lshformer::testing
