// Clusters and groups by halving along directions: by hand, and against the oracle.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention_case.h"
#include "kernels/hashing.h"
#include "kernels/ref/clustered.h"

namespace lshformer::testing {
namespace {

// Seven keys along one direction, three clusters: cut below rank ⌈7/3⌉ = 3 first, then the upper half at ⌈14/3⌉ = 5.
TEST(Halving, ByHand) {
  AttentionSpec spec = Clustered(3, 0, 2);
  const std::vector<int32_t> cu_seqlens{0, 7};
  const AttentionShape shape{cu_seqlens, 1, 1};
  const std::vector<float> x{3, 1, 2, 7, 5, 6, 4};
  const ClusterDirections along{2, 1, {1, -1}, {1}};  // the second level sorts downwards
  const Buckets got = GroupByHalving(spec, shape, {x.data(), 1, 1}, {x.data(), 1, 1}, along);
  EXPECT_EQ(got.key, (std::vector<int32_t>{0, 0, 0, 1, 2, 1, 2}));
  EXPECT_EQ(got.query, (std::vector<int32_t>{0, 0, 0, 1, 1, 1, 0}));
}

// Three groups of two bundles: between groups first, below ranks ⌈2·7/6⌉ = 3 and ⌈4·7/6⌉ = 5, then through each, the
// first on its second cut, the others on their third.
TEST(Halving, BundlesByHand) {
  const AttentionSpec spec = Bundled(1, 0, 3, 2);
  const std::vector<int32_t> cu_seqlens{0, 7};
  const std::vector<float> x{3, 1, 2, 7, 5, 6, 4};
  const ClusterDirections along{3, 3, {1, 1, 1}, {1, -1, 1}};
  const Buckets got = GroupByHalving(spec, {cu_seqlens, 1, 1}, {x.data(), 1, 1}, {x.data(), 1, 1}, along);
  // Below 3: 3, 1, 2, cut downwards below rank 2: 3, 2 | 1. The others downwards below rank 5: 7, 6 | 5, 4, each cut
  // upwards, at 4 and ⌈35/6⌉ = 6.
  EXPECT_EQ(got.query, (std::vector<int32_t>{0, 1, 0, 3, 5, 2, 4}));
}

TEST(Halving, AgreesWithTheOracleAndKeepsTies) {
  for (const bool ties : {false, true}) {
    const AttentionSpec spec = ties ? Bundled(5, 1, 7, 2) : Bundled(5, 1, 7, 3);
    AttentionCase c = RandomCase(spec, {3, 120, 0, 333}, 2, 12, 16);
    if (ties) {
      for (auto* x : {&c.query, &c.key})
        for (float& number : *x) number = std::round(number);
    }
    ClusterDirections along = DrawClusterDirections(spec, c.shape(), 3);
    if (ties) {
      for (auto* x : {&along.query, &along.key})
        for (float& number : *x) number = std::round(number);  // whole numbers: products are exact, many are equal
    }
    const std::vector<double> query = Wide(c.query), key = Wide(c.key);
    const ref::Inputs in{c.shape(), spec, query, key, key, 1.0, {}, {}, {}};
    const Buckets want = ref::GroupByHalving(in, along);
    const int64_t row = 24;
    const Buckets got = GroupByHalving(spec, c.shape(), {c.query.data(), row, 12}, {c.key.data(), row, 12}, along);
    EXPECT_EQ(got.key, want.key);
    EXPECT_EQ(got.query, want.query);
  }
}

TEST(Halving, DirectionsDoNotHangOnHowManyAreDrawn) {
  const AttentionSpec spec = Clustered(16, 4, 4);
  const std::vector<int32_t> few{0, 100}, many{0, 5000};
  const ClusterDirections a = DrawClusterDirections(spec, {few, 2, 8}, 1),
                          b = DrawClusterDirections(spec, {many, 2, 8}, 1);
  ASSERT_EQ(a.key_depth, 3);
  ASSERT_EQ(b.key_depth, 9);
  for (int row = 0; row < 16; ++row)
    for (int l = 0; l < 3; ++l) EXPECT_EQ(a.key[row * 3 + l], b.key[row * 9 + l]);
  EXPECT_NE(a.key[0], a.query[0]);
  EXPECT_NE(DrawClusterDirections(spec, {few, 2, 8}, 2).key[0], a.key[0]);
}

}  // namespace
}  // namespace lshformer::testing
