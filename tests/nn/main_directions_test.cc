// Directions that queries and keys give.
#include "nn/main_directions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "ops/threads.h"

namespace lshformer {
namespace {

constexpr int kHeads = 2, kHeadDim = 6;

// Queries and keys of sequences of these lengths, spread unevenly, and far from 0.
torch::Tensor Rows(const std::vector<int>& lengths, int64_t seed) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  torch::manual_seed(seed);
  const torch::Tensor mix = torch::randn({3 * kHeads * kHeadDim, 3 * kHeads * kHeadDim});
  return torch::matmul(torch::randn({tokens, 3 * kHeads * kHeadDim}), mix) + 5;
}

AttentionOptions Options(const std::vector<int>& lengths) {
  AttentionOptions options;
  options.heads = kHeads;
  PackedSequences sequences;
  for (const int length : lengths) sequences.cu_seqlens.push_back(sequences.cu_seqlens.back() + length);
  options.sequences = std::make_shared<const PackedSequences>(std::move(sequences));
  return options;
}

LayerDirections Found(const std::vector<int>& lengths, const torch::Tensor& rows, uint32_t visit = 0,
                      const MainDirections::Counts& counts = MainDirections::All, const LayerDirections& before = {}) {
  const AttentionOptions options = Options(lengths);
  const torch::Tensor none;
  MainDirections found;
  found.Add({visit, 0, rows, options, none}, counts);
  return found.Directions(before);
}

// Σ xᵀx of a head's queries (part 0) or keys (1), each sequence less its mean; by the formula.
torch::Tensor Covariance(const std::vector<int>& lengths, const torch::Tensor& rows, int part, int head) {
  torch::Tensor sum = torch::zeros({kHeadDim, kHeadDim}, torch::kFloat64);
  int64_t begin = 0;
  for (const int length : lengths) {
    const torch::Tensor own = rows.slice(0, begin, begin + length)
                                  .slice(1, (part * kHeads + head) * kHeadDim, (part * kHeads + head + 1) * kHeadDim)
                                  .to(torch::kFloat64);
    for (int64_t i = 0; i < length; ++i) sum += torch::outer(own[i] - own.mean(0), own[i] - own.mean(0));
    begin += length;
  }
  return sum;
}

bool Same(const LayerDirections& a, const LayerDirections& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!torch::equal(a[i].key, b[i].key) || !torch::equal(a[i].query, b[i].query)) return false;
  return true;
}

// With u = Σq^½ e and Σq^½ Σk Σq^½ e = λ e it holds that Σq Σk u = λ u, and the greatest λ comes first.
TEST(MainDirections, AreWhatSpreadsScores) {
  const std::vector<int> lengths{40, 1, 25};
  const torch::Tensor rows = Rows(lengths, 3);
  const LayerDirections found = Found(lengths, rows);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key.sizes(), (std::vector<int64_t>{kHeads, kHeadDim, kHeadDim}));  // not more than head_dim
  EXPECT_EQ(found[0].query.sizes(), (std::vector<int64_t>{kHeads, kHeadDim, kHeadDim}));
  for (int head = 0; head < kHeads; ++head) {
    const torch::Tensor query = Covariance(lengths, rows, 0, head), key = Covariance(lengths, rows, 1, head);
    for (const bool keys : {true, false}) {
      const torch::Tensor product = keys ? torch::matmul(query, key) : torch::matmul(key, query);
      const torch::Tensor directions = (keys ? found[0].key : found[0].query)[head].to(torch::kFloat64);
      double before = std::numeric_limits<double>::infinity();
      for (int64_t l = 0; l < kHeadDim; ++l) {
        const torch::Tensor u = directions.select(1, l), moved = torch::mv(product, u);
        const double lambda = torch::dot(u, moved).item<double>(), largest = product.norm().item<double>();
        EXPECT_NEAR(u.norm().item<double>(), 1, 1e-6);
        EXPECT_GT(u[u.abs().argmax().item<int64_t>()].item<double>(), 0);
        // float32 directions: each is off by 2⁻²⁴ of its length.
        EXPECT_LE((moved - lambda * u).norm().item<double>(), 1e-6 * largest) << "head " << head << ", " << l;
        EXPECT_LE(lambda, before * (1 + 1e-5));
        before = lambda;
      }
    }
  }
}

TEST(MainDirections, DoNotDependOnThreadsOrBatches) {
  const std::vector<int> lengths{30, 12, 50};
  const torch::Tensor rows = Rows(lengths, 4);
  SetAllThreads(1);
  const LayerDirections one = Found(lengths, rows);
  SetAllThreads(2);
  EXPECT_TRUE(Same(one, Found(lengths, rows)));
  SetAllThreads(HardwareThreads());
  MainDirections alone;
  const torch::Tensor none;
  int64_t begin = 0;
  for (const int length : lengths) {
    const torch::Tensor own = rows.slice(0, begin, begin + length);
    const AttentionOptions options = Options({length});
    alone.Add({0, 0, own, options, none});
    begin += length;
  }
  EXPECT_EQ(alone.sequences(), 3);
  EXPECT_TRUE(Same(one, alone.Directions()));
}

// Head 0 counts long sequences alone, head 1 none.
TEST(MainDirections, KnowWhatCounts) {
  const std::vector<int> lengths{8, 30, 9};
  const torch::Tensor rows = Rows(lengths, 5);
  const LayerDirections before = Found({50}, Rows({50}, 6)), longest = Found({30}, rows.slice(0, 8, 38));
  const auto counts = [](int head, int length) { return head == 0 && length >= 10; };
  const LayerDirections found = Found(lengths, rows, 0, counts, before);
  EXPECT_TRUE(torch::equal(found[0].key[0], longest[0].key[0]));
  EXPECT_TRUE(torch::equal(found[0].query[0], longest[0].query[0]));
  EXPECT_TRUE(torch::equal(found[0].key[1], before[0].key[1]));
  EXPECT_FALSE(torch::equal(found[0].key[0], before[0].key[0]));
  // Nothing before: no direction at all, under which the order is that of positions.
  EXPECT_EQ(Found(lengths, rows, 0, counts)[0].key[1].abs().max().item<double>(), 0);
}

TEST(MainDirections, StayWhereNumbersAreNotFiniteOrNothingWasVisited) {
  const LayerDirections before = Found({50}, Rows({50}, 6));
  torch::Tensor rows = Rows({20}, 7);
  rows[3][1] = std::numeric_limits<float>::infinity();  // a query of head 0
  const LayerDirections found = Found({20}, rows, 0, MainDirections::All, before);
  EXPECT_TRUE(torch::equal(found[0].key[0], before[0].key[0]));
  EXPECT_FALSE(torch::equal(found[0].key[1], before[0].key[1]));
  const LayerDirections second = Found({20}, Rows({20}, 7), /*visit=*/1, MainDirections::All, before);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_TRUE(torch::equal(second[0].key, before[0].key));
  // All alike: finite, whatever they are.
  const LayerDirections flat = Found({20}, torch::ones({20, 3 * kHeads * kHeadDim}));
  EXPECT_TRUE(torch::isfinite(flat[0].key).all().item<bool>());
}

}  // namespace
}  // namespace lshformer
