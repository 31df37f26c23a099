// Rows picked by number and the sums that are their gradients.
#include "kernels/gather.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/parallel.h"
#include "kernels/ref/gather.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {
namespace {

constexpr int32_t kTableRows = 150;

// Some rows often, some never.
std::vector<int32_t> DrawnRows(int64_t count) {
  std::vector<int32_t> rows;
  PhiloxStream stream(StreamKey(3, 0, 0, 0, Purpose::kSynthetic));
  for (int64_t i = 0; i < count; ++i)
    rows.push_back(static_cast<int32_t>(stream.Below(2) == 0 ? stream.Below(5) : stream.Below(kTableRows)));
  return rows;
}

// What AddRowsAt and SumPickedRows must give bit for bit: additions one after another, from `table` on.
std::vector<float> AddedInOrder(const std::vector<float>& x, int64_t columns, const std::vector<int32_t>& targets,
                                std::vector<float> table) {
  for (size_t i = 0; i < targets.size(); ++i)
    for (int64_t c = 0; c < columns; ++c)
      if (targets[i] >= 0) table[targets[i] * columns + c] += x[i * columns + c];
  return table;
}

TEST(Gather, PicksRowsAndSumsTheirGradients) {
  for (const int64_t columns : {1, 37, 130})
    for (const int64_t count : {0, 1, 63, 700}) {
      SCOPED_TRACE(::testing::Message() << count << " rows of " << columns);
      const std::vector<int32_t> rows = DrawnRows(count);
      const std::vector<float> x = Random(kTableRows * columns, 1), grad_y = Random(count * columns, 2);
      for (const int threads : {1, 3}) {
        SetThreads(threads);
        std::vector<float> y(grad_y.size()), grad_x(x.size(), NAN);
        PickRows(x.data(), columns, rows, y.data());
        EXPECT_EQ(Wide(y), ref::PickRows(Wide(x), columns, rows));
        SumPickedRows(grad_y.data(), columns, rows, kTableRows, grad_x.data());
        EXPECT_EQ(grad_x, AddedInOrder(grad_y, columns, rows, std::vector<float>(x.size())));
        // A sum of n numbers of which none is above 5: n roundings of what has been added up.
        const std::vector<double> exact = ref::AddRowsAt(Wide(grad_y), columns, rows, std::vector<double>(x.size()));
        EXPECT_THAT(grad_x, WithinRounding(exact, 140 * kFloatEps * 5 * 12));
      }
      SetThreads(HardwareThreads());
    }
}

TEST(Gather, AddsRowsToWhatIsThere) {
  constexpr int64_t kColumns = 200;  // of several threads
  std::vector<int32_t> targets = DrawnRows(300);
  for (size_t i = 0; i < targets.size(); i += 7) targets[i] = -1;  // no row
  const std::vector<float> x = Random(300 * kColumns, 3), table = Random(kTableRows * kColumns, 4);
  for (const int threads : {1, 2, 5}) {
    SetThreads(threads);
    std::vector<float> got = table;
    AddRowsAt(x.data(), kColumns, targets, got.data());
    EXPECT_EQ(got, AddedInOrder(x, kColumns, targets, table)) << threads << " threads";
  }
  SetThreads(HardwareThreads());
}

TEST(Gather, UsedRowsAreAscendingAndEachOnce) {
  const std::vector<int32_t> ids{4, 0, 2, 4, 5, 0, 1};
  const UsedRows used = FindUsedRows(ids, /*padding=*/0);
  EXPECT_THAT(used.rows, ::testing::ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(used.places, ::testing::ElementsAre(2, -1, 1, 2, 3, -1, 0));
  EXPECT_THAT(FindUsedRows(ids, /*padding=*/-1).rows, ::testing::ElementsAre(0, 1, 2, 4, 5));
  EXPECT_TRUE(FindUsedRows(std::vector<int32_t>{3, 3}, /*padding=*/3).rows.empty());
  EXPECT_TRUE(FindUsedRows({}, 0).places.empty());
}

TEST(Gather, SumsOfThreeTables) {
  for (const int64_t columns : {1, 70}) {
    const std::vector<float> words = Random(6 * columns, 1), positions = Random(5 * columns, 2),
                             types = Random(2 * columns, 3);
    const std::vector<int32_t> w{4, 0, 2, 4, 4, 0, 1}, p{0, 1, 2, 0, 1, 4, 3}, t{0, 0, 1, 0, 1, 1, 1};
    std::vector<float> sum(w.size() * columns), want;
    SumEmbeddings({columns, words.data(), types.data(), positions.data()}, {w, t, p}, sum.data());
    for (size_t i = 0; i < w.size(); ++i)
      for (int64_t c = 0; c < columns; ++c)
        want.push_back(words[w[i] * columns + c] + types[t[i] * columns + c] + positions[p[i] * columns + c]);
    EXPECT_EQ(sum, want);
    // Without a table of positions, and of types: the indices that are left out are not looked at.
    std::vector<float> of_words, of_two;
    for (size_t i = 0; i < w.size(); ++i)
      for (int64_t c = 0; c < columns; ++c) {
        of_words.push_back(words[w[i] * columns + c]);
        of_two.push_back(words[w[i] * columns + c] + types[t[i] * columns + c]);
      }
    SumEmbeddings({columns, words.data(), nullptr, nullptr}, {w, {}, {}}, sum.data());
    EXPECT_EQ(sum, of_words);
    SumEmbeddings({columns, words.data(), types.data(), nullptr}, {w, t, {}}, sum.data());
    EXPECT_EQ(sum, of_two);
  }
}

}  // namespace
}  // namespace lshformer::testing
