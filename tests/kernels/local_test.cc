// Local attention beyond what all kinds are held to (attention_test, independence_test, oracle_test): what lies outside
// of a query's window is neither met nor visited.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "kernels/attention_case.h"
#include "kernels/every_isa.h"
#include "kernels/planning/plan_arrays.h"

namespace lshformer::testing {
namespace {

class LocalOnEveryIsa : public IsaFixture {};
INSTANTIATE_TEST_SUITE_P(Local, LocalOnEveryIsa,
                         ::testing::Combine(::testing::ValuesIn(LocalSpecs()), ::testing::ValuesIn(IsasAndBFloat16())),
                         NameOfSpecAndIsa);

// Every other window of the text than one in its middle: NaN, infinite and huge numbers there change no bit of its
// rows.
TEST_P(LocalOnEveryIsa, NothingOutsideOfTheWindowIsMet) {
  constexpr int kLength = 230, kQuery = 117;
  AttentionCase c = WithOperands(RandomCase(spec(), {kLength}, 2, 24, 4));
  const AttentionResult want = RunKernels(c, false);
  const int64_t row = int64_t{c.heads} * c.head_dim;
  const std::array<float, 4> spoilers{NAN, INFINITY, -INFINITY, 3e38f};
  for (int64_t i = 0; i < kLength; ++i) {
    if (std::abs(i - kQuery) <= spec().window) continue;
    for (int64_t k = i * row; k < (i + 1) * row; ++k) c.key[k] = c.value[k] = spoilers[i % spoilers.size()];
    if (i != kQuery) std::fill_n(c.query.begin() + i * row, row, spoilers[i % spoilers.size()]);
  }
  const AttentionResult got = RunKernels(c, false);
  const double rounding = c.operands == Operands::kBFloat16 ? 0x1p-7 : 0;
  for (int64_t k = kQuery * row; k < (kQuery + 1) * row; ++k) EXPECT_NEAR(got.out[k], want.out[k], rounding);
  for (int64_t head = 0; head < c.heads; ++head)
    EXPECT_NEAR(got.lse[kQuery * c.heads + head], want.lse[kQuery * c.heads + head], rounding);
}

// A window that holds the text is exact attention, bit for bit.
TEST_P(LocalOnEveryIsa, AWindowLargerThanTheTextIsDense) {
  const AttentionCase c = WithOperands(RandomCase(Local(79), {80, 1, 33}, 2, 24, 5));
  AttentionCase dense = c;
  dense.spec = AttentionSpec{};
  EXPECT_TRUE(RunKernels(c) == RunKernels(dense));
  for (const int beyond : {80, INT32_MAX}) {
    AttentionCase wide = c;
    wide.spec.window = beyond;
    EXPECT_TRUE(RunKernels(wide) == RunKernels(dense));
  }
}

TEST(Local, AWindowOfNoNeighbourGivesEveryTokenItsOwnValue) {
  const AttentionCase c = RandomCase(Local(0), {70}, 2, 16, 6);
  const AttentionResult got = RunKernels(c);
  EXPECT_EQ(got.out, c.value);
  EXPECT_EQ(got.counts.pairs_computed, 2 * 70);
  for (size_t i = 0; i < c.grad_out.size(); ++i) EXPECT_NEAR(got.grad_value[i], c.grad_out[i], 1e-5);
}

// Visited: the windows, and less than a tile's rows beside.
TEST(LocalPlan, VisitsTheDiagonalAlone) {
  for (const int window : {0, 1, 5, 31, 32, 63, 64, 65, 255, 256, 300}) {
    const AttentionCase c = RandomCase(Local(window), {2000}, 1, 4, 7);
    const AttentionPlanPtr plan = PlanOf(c).plan;
    const int64_t own = PairsInWindows(window, 2000), rows = window < 256 ? 32 : kTileRows;
    EXPECT_EQ(plan->counts.pairs_computed, own);
    EXPECT_GE(plan->units[0].visited_pairs, own);
    EXPECT_LE(plan->units[0].visited_pairs, own + 2000 * (rows - 1)) << window;
    for (const Tile& tile : plan->tiles) {
      for (int32_t s = tile.segment_begin; s < tile.segment_end; ++s) {
        const Segment& segment = plan->segments[s];
        if (!segment.every_pair) continue;
        EXPECT_GE(segment.column_begin, tile.row_end - 1 - window);
        EXPECT_LE(segment.column_end, tile.row_begin + window + 1);
      }
    }
  }
}

}  // namespace
}  // namespace lshformer::testing
