// Exact search against sums in double and a full sort.
#include "kernels/nearest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "util/every_isa.h"
#include "util/numbers.h"

namespace lshformer::testing {
namespace {

class NearestTest : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, NearestTest, AllIsas(), NameOfIsa);

VectorRows SearchRows(const std::vector<float>& data, int64_t columns, int64_t stride) {
  return {data.data(), static_cast<int64_t>(data.size()) / stride, columns, stride};
}

std::vector<float> AllProducts(const VectorRows& rows, std::span<const float> queries) {
  const auto count = static_cast<int64_t>(queries.size()) / rows.columns;
  std::vector<float> products(static_cast<size_t>(count * rows.rows));
  QueryProducts(rows, queries.data(), count, products.data());
  return products;
}

// eps · Σ|products| is what rounding allows, times the terms.
TEST_P(NearestTest, ProductsAreDotProducts) {
  for (const int64_t columns : {1, 5, 16, 33, 384})
    for (int64_t count = 0; count <= 9; ++count) {
      const int64_t stride = columns + 3;
      const std::vector<float> data = Random(count * stride, 1), queries = Random(3 * columns, 2);
      const VectorRows rows = SearchRows(data, columns, stride);
      const std::vector<float> products = AllProducts(rows, queries);
      for (int64_t query = 0; query < 3; ++query)
        for (int64_t row = 0; row < count; ++row) {
          double want = 0, size = 0;
          for (int64_t i = 0; i < columns; ++i) {
            const double term = double{queries[query * columns + i]} * data[row * stride + i];
            want += term, size += std::abs(term);
          }
          EXPECT_NEAR(products[query * count + row], want, static_cast<double>(columns) * kFloatEps * size);
        }
    }
}

TEST_P(NearestTest, BitsDoNotDependOnTheNeighbours) {
  constexpr int64_t kColumns = 77, kCount = 11;
  const std::vector<float> data = Random(kCount * kColumns, 3), queries = Random(5 * kColumns, 4);
  const std::vector<float> together = AllProducts(SearchRows(data, kColumns, kColumns), queries);
  for (int64_t query = 0; query < 5; ++query)
    for (int64_t row = 0; row < kCount; ++row) {
      const VectorRows one{data.data() + row * kColumns, 1, kColumns, kColumns};
      EXPECT_EQ(AllProducts(one, {queries.data() + query * kColumns, kColumns})[0], together[query * kCount + row]);
    }
}

// All groups by their best rows in the order that the header promises.
std::vector<NearRow> SortedGroups(const std::vector<float>& products, const std::vector<int64_t>& begins) {
  std::vector<NearRow> best;
  for (size_t group = 0; group + 1 < begins.size(); ++group) {
    NearRow found{-1, 0};
    for (int64_t row = begins[group]; row < begins[group + 1]; ++row) {
      const float score = products[static_cast<size_t>(row)];
      if (!std::isnan(score) && (found.row < 0 || score > found.score)) found = {row, score};
    }
    if (found.row >= 0) best.push_back(found);
  }
  std::stable_sort(best.begin(), best.end(), [](const NearRow& a, const NearRow& b) { return a.score > b.score; });
  return best;
}

TEST_P(NearestTest, FindsTheBestGroupsOnAnyNumberOfThreads) {
  constexpr int64_t kColumns = 24, kCount = 2000;
  std::vector<float> data = Random(kCount * kColumns, 5);
  const std::vector<float> queries = Random(70 * kColumns, 6);  // more than are kept at once
  for (int64_t row = 100; row < kCount; row += 100)             // equals
    std::copy_n(data.begin() + (row - 100) * kColumns, kColumns, data.begin() + row * kColumns);
  data[7 * kColumns] = std::numeric_limits<float>::quiet_NaN();
  std::vector<int64_t> rows_alone(kCount + 1), groups{0};
  std::iota(rows_alone.begin(), rows_alone.end(), 0);
  for (int64_t size = 0; groups.back() < kCount; size = (size + 7) % 300)  // some empty, one of many rows
    groups.push_back(std::min<int64_t>(kCount, groups.back() + size));
  const VectorRows rows = SearchRows(data, kColumns, kColumns);
  const std::vector<float> products = AllProducts(rows, queries);
  const int before = Threads();
  for (const int threads : {1, 2, 5})
    for (const std::vector<int64_t>* begins : {&rows_alone, &groups}) {
      SetThreads(threads);
      const auto found = NearestGroups(
          rows, begins == &groups ? std::span<const int64_t>(groups) : std::span<const int64_t>(), queries, 20);
      ASSERT_EQ(found.size(), 70U);
      for (size_t query = 0; query < found.size(); ++query) {
        const auto from = products.begin() + static_cast<int64_t>(query) * kCount;
        std::vector<NearRow> want = SortedGroups({from, from + kCount}, *begins);
        want.resize(std::min<size_t>(want.size(), 20));
        ASSERT_EQ(found[query].size(), want.size());
        for (size_t i = 0; i < want.size(); ++i) {
          EXPECT_EQ(found[query][i].row, want[i].row) << "query " << query << ", place " << i;
          EXPECT_EQ(found[query][i].score, want[i].score);
        }
      }
    }
  SetThreads(before);
}

TEST(Nearest, NothingAmongNothing) {
  const std::vector<float> query{1, 2};
  const auto found = NearestGroups({nullptr, 0, 2, 2}, {}, query, 3);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].empty());
}

}  // namespace
}  // namespace lshformer::testing
