#include "kernels/cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "base/philox.h"
#include "kernels/counts.h"
#include "kernels/plan.h"

namespace lshformer {
namespace {

AttentionSpec SimHash(int bands, int hashes, int table_size, Pairs pairs = Pairs::kFull, Fill fill = Fill::kZero) {
  return {.kind = SimHashAttention{
              .bands = bands, .hashes = hashes, .table_size = table_size, .fill = fill, .pairs = pairs}};
}

// The paper's Figure 1 at 10 tokens, 2 heads × 64: rows 2, 4, 6, 8 bands; columns 1 … 4 hash functions.
TEST(Cost, KflopGridOfThePaper) {
  const double grid[4][4] = {{10.24, 20.48, 30.72, 40.96},
                             {20.48, 40.96, 61.44, 81.92},
                             {30.72, 61.44, 92.16, 122.88},
                             {40.96, 81.92, 122.88, 163.84}};
  for (int row = 0; row < 4; ++row) {
    for (int hashes = 1; hashes <= 4; ++hashes) {
      const int bands = 2 * (row + 1);
      EXPECT_DOUBLE_EQ(PaperHashKflops(bands, 64, 10, hashes, 2), grid[row][hashes - 1]);
      for (const int table_size : {64, 128, 192, 256}) {
        EXPECT_DOUBLE_EQ(CostOfAttention(SimHash(bands, hashes, table_size), 2, 64, 10).paper_flops(),
                         1000 * grid[row][hashes - 1]);
      }
    }
  }
  EXPECT_DOUBLE_EQ(PaperDenseKflops(64, 10, 2), 25.60);
  EXPECT_DOUBLE_EQ(CostOfAttention({}, 2, 64, 10).paper_flops(), 25600);
}

TEST(Cost, OfWindows) {
  const AttentionSpec spec = ParseAttentionSpec({{"type", "local"}, {"window", 10}}, "test");
  const AttentionCost cost = CostOfAttention(spec, 2, 64, 100), dense = CostOfAttention({}, 2, 64, 100);
  EXPECT_DOUBLE_EQ(cost.pairs, 2 * (100 * 21 - 10 * 11));
  EXPECT_DOUBLE_EQ(cost.pairs_total, 2 * 100 * 100);
  EXPECT_DOUBLE_EQ(cost.full_flops(), dense.full_flops() * cost.share());
  EXPECT_EQ(cost.selection_flops, 0);
  EXPECT_DOUBLE_EQ(CostOfAttention(spec, 2, 64, 8).pairs, 2 * 8 * 8);
}

// 512 tokens: 32 centroids, 64 keys of opened clusters, and of seven others what those do not hold already.
TEST(Cost, OfClusters) {
  const AttentionSpec spec = ParseAttentionSpec("clustered", "test");
  const AttentionCost cost = CostOfAttention(spec, 2, 64, 512);
  EXPECT_DOUBLE_EQ(cost.pairs, 2 * 512 * (32 + 64 + 7 * (1 - 64.0 / 512)));
  EXPECT_DOUBLE_EQ(cost.selection_flops, 2.0 * (5 + 2 + 12) * 64 * 512 * 2);
  EXPECT_DOUBLE_EQ(CostOfAttention(spec, 2, 64, 80).pairs, 2 * 80 * 80);  // not hashed
}

// Four groups of eight bundles of 64: two cuts between groups, three through them.
TEST(Cost, OfBundles) {
  const AttentionSpec spec = ParseAttentionSpec({{"type", "clustered"}, {"bundle", 64}, {"window", 0}}, "test");
  const AttentionCost cost = CostOfAttention(spec, 2, 64, 2048);
  EXPECT_DOUBLE_EQ(cost.pairs, 2 * 2048 * (128 + 64 + 2 * (1 - 64.0 / 2048)));
  EXPECT_DOUBLE_EQ(cost.selection_flops, 2.0 * (7 + 5 + 12) * 64 * 2048 * 2);
}

// 2,048 tokens: 16 centroids of 128 keys, 4 · 8 of 16 keys, and keys as above.
TEST(Cost, OfClustersOfClusters) {
  const AttentionSpec spec =
      ParseAttentionSpec({{"type", "clustered"}, {"cluster", {128, 16}}, {"open", {4, 3}}}, "test");
  const AttentionCost cost = CostOfAttention(spec, 2, 64, 2048);
  EXPECT_DOUBLE_EQ(cost.pairs, 2 * 2048 * (16 + 32 + 48 + 7 * (1 - 48.0 / 2048)));
  EXPECT_DOUBLE_EQ(cost.selection_flops, 2.0 * (7 + 2 + 16) * 64 * 2048 * 2);
}

TEST(Cost, LongSequencesOfThePaper) {
  EXPECT_DOUBLE_EQ(CostOfAttention(SimHash(2, 1, 256), 1, 64, 512).selection_flops, 262144);
  EXPECT_DOUBLE_EQ(CostOfAttention({}, 1, 64, 512).score_flops, 33554432);
  // About 33,217 of the 131,328 pairs i ≤ j collide.
  EXPECT_NEAR(CostOfAttention(SimHash(2, 1, 256, Pairs::kReference), 1, 64, 512).dot_products, 33217, 1);
}

// Table 1: 28.5 products measured, 28.79 expected, 3.65 KFLOP; with the hashes 13.89 = 54 % of 25.60.
TEST(Cost, DotProductsOfThePaper) {
  const AttentionCost cost = CostOfAttention(SimHash(2, 1, 64, Pairs::kReference, Fill::kNone), 2, 64, 10);
  EXPECT_NEAR(cost.dot_products, 28.79, 0.005);
  EXPECT_NEAR((cost.selection_flops + 2 * 64 * 28.5) / 1000, 13.89, 0.005);
  EXPECT_NEAR(cost.score_flops, 128 * cost.dot_products, 1e-9);
  EXPECT_EQ(CostOfAttention({}, 2, 64, 10).dot_products, 200);
  EXPECT_NEAR(
      CostOfAttention(SimHash(2, 1, 64, Pairs::kReference, Fill::kNone), 2, 64, 10, /*share=*/28.0 / 200).dot_products,
      28, 1e-9);
  EXPECT_EQ(cost.pairs_total, 200);
}

TEST(Cost, HashLaw) {
  const double right = std::numbers::pi / 2;
  EXPECT_NEAR(CollisionProbability(right, 2, 64, 1), 0.261719, 1e-6);
  EXPECT_NEAR(CollisionProbability(std::numbers::pi / 3, 2, 64, 1), 0.453125, 1e-6);
  EXPECT_NEAR(CollisionProbability(right, 4, 16, 2), 0.227524, 1e-6);
  EXPECT_NEAR(CollisionProbability(1, 8, 64, 4), 0.224321, 1e-6);
  EXPECT_EQ(CollisionProbability(0, 5, 64, 1), 1);
  EXPECT_NEAR(CollisionProbability(std::numbers::pi, 5, 64, 1), 1.0 / 64, 1e-12);
}

// The law against the hash itself: two vectors at a known angle in the plane, fresh planes and coefficients every time.
TEST(Cost, HashLawAgainstDrawnHashes) {
  struct Case {
    double theta;
    int bands, table_size, hashes;
  };
  for (const Case& c :
       {Case{1.0, 8, 64, 4}, Case{1.5707963, 4, 16, 2}, Case{1.0471976, 2, 64, 1}, Case{2.5, 3, 7, 3}}) {
    PhiloxStream random(11);
    constexpr int kDraws = 40000;
    int met = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      bool equal = false;
      for (int hash = 0; hash < c.hashes; ++hash) {
        uint64_t first = 0, second = 0;
        for (int band = 0; band < c.bands; ++band) {
          const double x = random.Normal(), y = random.Normal();
          const uint64_t coefficient = random.Below(static_cast<uint64_t>(c.table_size));
          if (x > 0) first += coefficient;
          if (x * std::cos(c.theta) + y * std::sin(c.theta) > 0) second += coefficient;
        }
        equal |= first % c.table_size == second % c.table_size;
      }
      met += equal;
    }
    const double p = CollisionProbability(c.theta, c.bands, c.table_size, c.hashes);
    EXPECT_NEAR(met / static_cast<double>(kDraws), p, 4 * std::sqrt(p * (1 - p) / kDraws)) << c.theta;
  }
}

TEST(Cost, ShorterThanMinLengthIsDense) {
  AttentionSpec spec = SimHash(2, 1, 64);
  spec.min_length = 100;
  EXPECT_EQ(CostOfAttention(spec, 2, 64, 99).full_flops(), CostOfAttention({}, 2, 64, 99).full_flops());
  EXPECT_LT(CostOfAttention(spec, 2, 64, 100).full_flops(), CostOfAttention({}, 2, 64, 100).full_flops());
}

// What a plan visits is what the cost says; under several hash functions chance decides how much falls together.
TEST(Cost, OfSortedPairsIsThatOfTheirWindows) {
  AttentionSpec spec = SimHash(0, 1, 64, Pairs::kSorted);
  As<SimHashAttention>(spec).look_ahead = 2;
  for (const int32_t length : {150, 1000, 4096}) {
    const std::vector<int32_t> cu_seqlens{0, length}, buckets(length);
    const auto planned =
        static_cast<double>(Counts(*BuildSimHashPlan(spec, {cu_seqlens, 1, 64}, buckets, buckets)).pairs_computed);
    EXPECT_NEAR(CostOfAttention(spec, 1, 64, length).pairs, planned, 1e-9 * planned);
  }
  const double one = CostOfAttention(spec, 1, 64, 4096).share();
  As<SimHashAttention>(spec).hashes = 2;
  EXPECT_NEAR(CostOfAttention(spec, 1, 64, 4096).share(), 2 * one - one * one, 1e-9);
}

// Keys per query where vectors fall evenly: 64 to 128 from 256 tokens on, whatever the length.
TEST(Cost, OfAutoBandsIsBoundedPerQuery) {
  const AttentionSpec spec = SimHash(0, 1, 64);
  for (int64_t length = 256; length < int64_t{1} << 30; length = length * 3 / 2) {
    const double keys = CostOfAttention(spec, 1, 64, length).pairs / static_cast<double>(length);
    EXPECT_GE(keys, 64) << length;
    EXPECT_LE(keys, 128) << length;
  }
}

AttentionSpec Reformer(int rounds) { return {.kind = ReformerAttention{.rounds = rounds}}; }

// Windows of two chunks of 64, whatever the length; 128 buckets are 64 rotations.
TEST(Cost, ReformerGrowsWithTheLength) {
  const AttentionCost cost = CostOfAttention(Reformer(1), 12, 64, 4096);
  EXPECT_DOUBLE_EQ(cost.pairs, 12.0 * 4096 * 128);
  EXPECT_DOUBLE_EQ(cost.dot_products, cost.pairs);
  EXPECT_DOUBLE_EQ(cost.selection_flops, 2.0 * 64 * 64 * 4096 * 12);
  EXPECT_DOUBLE_EQ(cost.score_flops, 2.0 * 64 * cost.pairs);
  EXPECT_DOUBLE_EQ(cost.pairs_total, 12.0 * 4096 * 4096);
  EXPECT_DOUBLE_EQ(CostOfAttention(Reformer(3), 12, 64, 4096).pairs, 3 * cost.pairs);
  EXPECT_DOUBLE_EQ(CostOfAttention(Reformer(1), 12, 64, 8192).pairs, 2 * cost.pairs);
  EXPECT_DOUBLE_EQ(CostOfAttention(Reformer(4), 2, 64, 64).full_flops(), CostOfAttention({}, 2, 64, 64).full_flops());
}

// The pairs are those that the plan visits.
TEST(Cost, ReformersPairsAreThePlans) {
  for (const int rounds : {1, 2}) {
    for (const bool causal : {false, true}) {
      AttentionSpec spec = Reformer(rounds);
      As<ReformerAttention>(spec).causal = causal;
      const std::vector<int32_t> lengths{0, 2048}, buckets(static_cast<size_t>(2) * rounds * 2048, 1);
      const double visited =
          static_cast<double>(Counts(*BuildReformerPlan(spec, {lengths, 2, 64}, buckets)).attention_flops / (4 * 64));
      EXPECT_NEAR(CostOfAttention(spec, 2, 64, 2048).pairs, causal ? visited / 2 : visited, 0.01 * visited);
    }
  }
}

// A share that was measured takes the place of the expectation; everything grows with it.
TEST(Cost, MeasuredShare) {
  const AttentionSpec spec = SimHash(2, 1, 64);
  const AttentionCost half = CostOfAttention(spec, 2, 64, 1000, 0.5);
  EXPECT_DOUBLE_EQ(half.share(), 0.5);
  EXPECT_DOUBLE_EQ(half.pairs, 1e6);
  EXPECT_LT(CostOfAttention(spec, 2, 64, 1000, 0.25).full_flops(), half.full_flops());
}

}  // namespace
}  // namespace lshformer
