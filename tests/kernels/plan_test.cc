// Plans: every pair that counts is visited once, work stays near what was asked for, memory near what is stated.
#include "kernels/plan.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/attention_case.h"
#include "kernels/attention_specs.h"

namespace lshformer::testing {
namespace {

bool Counts(const AttentionPlan& plan, const Unit& unit, const Pass& pass, int32_t row, int32_t column) {
  for (int h = 0; h <= pass.hash && (pass.rule & kSameBucket); ++h) {
    const bool same = plan.RowBuckets(unit, pass, h)[row] == plan.ColumnBuckets(unit, pass, h)[column];
    if (same != (h == pass.hash)) return false;
  }
  if ((pass.rule & kColumnNotBefore) && column < row) return false;
  return !((pass.rule & kColumnBefore) && column >= row);
}

class EveryPlan : public ::testing::TestWithParam<AttentionSpec> {};
INSTANTIATE_TEST_SUITE_P(Plan, EveryPlan, ::testing::ValuesIn(AllSpecs()),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(EveryPlan, VisitsEveryPairThatCountsOnce) {
  for (const int table_size : {1, 4, 40, 1'000'000'000}) {
    AttentionSpec spec = GetParam();
    spec.table_size = table_size;
    const AttentionCase c = RandomCase(spec, {1, 150, 0, 64}, 2, 8, 41);
    const AttentionPlanPtr plan = PlanOf(c);
    for (const Unit& unit : plan->units) {
      std::map<std::pair<int32_t, int32_t>, int> visits;
      std::vector<int> rows(unit.length);
      for (int p = unit.pass_begin; p < unit.pass_end; ++p) {
        const Pass& pass = plan->passes[p];
        const int32_t *row_order = plan->Order(pass.row_order), *column_order = plan->Order(pass.column_order);
        for (int64_t t = pass.tile_begin; t < pass.tile_end; ++t) {
          const Tile& tile = plan->tiles[t];
          ASSERT_LE(tile.row_end - tile.row_begin, kTileRows);
          for (int32_t r = tile.row_begin; r < tile.row_end; ++r) {
            const int32_t row = row_order ? row_order[r] : r;
            ++rows[row];
            for (int32_t s = tile.segment_begin; s < tile.segment_end; ++s) {
              const Segment& segment = plan->segments[s];
              for (int32_t k = segment.column_begin; k < segment.column_end; ++k) {
                const int32_t column = column_order ? column_order[k] : k;
                const bool counts = Counts(*plan, unit, pass, row, column);
                if (segment.every_pair) {
                  ASSERT_TRUE(counts);
                }
                if (counts) ++visits[{row, column}];
              }
            }
          }
        }
      }
      for (const int count : rows) ASSERT_EQ(count, unit.pass_end - unit.pass_begin);  // every pass has every row once
      for (const auto& [pair, count] : visits) ASSERT_EQ(count, 1) << pair.first << ", " << pair.second;
      int64_t seen = 0;
      for (int i = 0; i < unit.length && !plan->seen.empty(); ++i) {
        seen += plan->seen[unit.head * plan->tokens + unit.token_begin + i];
      }
      if (!plan->seen.empty()) {
        EXPECT_EQ(seen, static_cast<int64_t>(visits.size()));
      }
    }
  }
}

// Visited pairs: exact for one bucket, near the pairs asked for else, never a square of the length.
TEST(PlanWork, IsNearWhatWasAskedFor) {
  constexpr int kLength = 4096;
  for (const Pairs pairs : {Pairs::kFull, Pairs::kReference}) {
    AttentionCase c = RandomCase(SimHash(pairs, Fill::kZero, 1, 1), {kLength}, 1, 8, 42);
    EXPECT_LE(PlanOf(c)->units[0].visited_pairs, 1.02 * kLength * kLength);
    c = RandomCase(SimHash(pairs, Fill::kZero, 1, 4), {kLength}, 1, 8, 43);
    EXPECT_LE(PlanOf(c)->units[0].visited_pairs, 0.26 * 1.06 * kLength * kLength);
    c = RandomCase(SimHash(pairs, Fill::kZero, 1, 1'000'000'000), {kLength}, 1, 8, 44);
    EXPECT_LE(PlanOf(c)->units[0].visited_pairs, int64_t{kTileRows} * kLength);
    for (int i = 0; i < kLength; ++i) c.buckets.query[i] = c.buckets.key[i] = 7 * i;
    EXPECT_LE(PlanOf(c)->units[0].visited_pairs, int64_t{kTileRows} * kLength);
  }
}

int64_t AddressSpace() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages;
  return pages * 4096;
}

// Runs forward and backward with no more memory than WorkBytes states (and a margin for stacks and small vectors).
void RunWithinWorkBytes(const AttentionCase& c, int threads) {
  SetThreads(threads);
  constexpr int64_t kMargin = int64_t{48} << 20;
  std::array<std::vector<float>, 4> outputs;
  for (std::vector<float>& output : outputs) output.resize(c.query.size());
  std::vector<float> lse(c.tokens() * c.heads);
  const int64_t before = AddressSpace();
  const int64_t stated = WorkBytes(*PlanOf(c));
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = before + stated + kMargin;
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::exit(2);
  const int64_t stride = int64_t{c.heads} * c.head_dim;
  const auto in = [&](const std::vector<float>& x) { return HeadTensor<const float>{x.data(), stride, c.head_dim}; };
  const auto out = [&](int i) { return HeadTensor<float>{outputs[i].data(), stride, c.head_dim}; };
  const AttentionPlanPtr plan = PlanOf(c);
  const AttentionForward forward{c.shape(),  in(c.query), in(c.key),  in(c.value), out(0),
                                 lse.data(), c.Scale(),   plan.get(), {}};
  RunAttentionForward(forward);
  RunAttentionBackward({forward, in(c.grad_out), out(1), out(2), out(3)});
  std::exit(0);
}

TEST(WorkMemory, IsWhatWorkBytesStates) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer reserves address space of its own";
#endif
  const AttentionCase c = RandomCase(SimHash(Pairs::kFull, Fill::kMean, 1, 512), {65536}, 2, 64, 45);
  EXPECT_LE(WorkBytes(*PlanOf(c)), int64_t{256} << 20);
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a child of its own: other tests may have left threads
  EXPECT_EXIT(RunWithinWorkBytes(c, 1), ::testing::ExitedWithCode(0), "");
}

TEST(WorkMemory, OfLongSequencesIsLinear) {
  for (const int threads : {1, 2, 3}) {
    SetThreads(threads);
    const std::vector<int32_t> lengths{0, 65536};
    EXPECT_LE(WorkBytes(*BuildDensePlan({lengths, 2, 64})), int64_t{256} << 20) << threads << " threads";
  }
  SetThreads(HardwareThreads());
}

TEST(WorkMemory, TinyCallsAreTiny) {
  const std::vector<int32_t> lengths{0, 10};
  EXPECT_LE(WorkBytes(*BuildDensePlan({lengths, 2, 64})), int64_t{1} << 20);
}

TEST(Isa, IsForcedByName) {
  const std::vector<std::string> isas = SupportedIsas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(ActiveIsa(), isas.front());
  for (const std::string& isa : isas) {
    ForceIsa(isa);
    EXPECT_EQ(ActiveIsa(), isa);
  }
  if (isas.front() == "AVX3") {
    ForceIsa("avx512");
    EXPECT_EQ(ActiveIsa(), "AVX3");
  }
  ForceIsa("auto");
  EXPECT_EQ(ActiveIsa(), isas.front());
  EXPECT_THROW(ForceIsa("avx1024"), UsageError);
}

}  // namespace
}  // namespace lshformer::testing
