// Plans: every pair that counts is visited once, work stays near what was asked for, memory near what is stated.
#include "kernels/plan.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <malloc.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <ostream>
#include <thread>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/attention_case.h"
#include "kernels/attention_specs.h"
#include "kernels/counts.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/execution.h"
#include "kernels/isa.h"
#include "kernels/packed_heads.h"
#include "kernels/planning/plan_arrays.h"
#include "util/sanitized.h"

namespace lshformer::testing {
namespace {

bool Counts(const AttentionPlan& plan, const Unit& unit, const TilePass& pass, int32_t row, int32_t column) {
  const auto share_bucket = [&](int h) {
    return plan.RowBuckets(unit, pass, h)[row] == plan.ColumnBuckets(unit, pass, h)[column];
  };
  for (int h = 0; h < pass.hash && (pass.rule & kFirstMeeting); ++h) {
    if (share_bucket(h)) return false;
  }
  if ((pass.rule & kSameBucket) && !share_bucket(pass.hash)) return false;
  for (int h = 0; h < pass.hash && (pass.rule & kFirstView); ++h) {
    const int32_t ahead = plan.ColumnChunks(unit, h)[column] - plan.RowChunks(unit, h)[row];
    if (ahead >= -unit.view.back && ahead <= unit.view.ahead) return false;
  }
  if ((pass.rule & kAlwaysSeen) && !unit.always.Holds(row, column)) return false;
  if ((pass.rule & kColumnNotBefore) && column < row) return false;
  return !((pass.rule & kColumnBefore) && column >= row);
}

class EveryPlan : public ::testing::TestWithParam<AttentionSpec> {};
INSTANTIATE_TEST_SUITE_P(Plan, EveryPlan, ::testing::ValuesIn(DenseAndSimHashSpecs()),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(EveryPlan, VisitsEveryPairThatCountsOnce) {
  for (const int table_size : {1, 4, 40, 1'000'000'000}) {
    AttentionSpec spec = GetParam();
    if (Is<SimHashAttention>(spec)) As<SimHashAttention>(spec).table_size = table_size;
    const AttentionCase c = RandomCase(spec, {1, 150, 0, 64}, 2, 8, 41);
    const AttentionPlanPtr plan = PlanOf(c).plan;
    for (const Unit& unit : plan->units) {
      std::map<std::pair<int32_t, int32_t>, int> visits;
      std::vector<int> rows(unit.length);
      for (int p = unit.pass_begin; p < unit.pass_end; ++p) {
        const TilePass& pass = plan->passes[p];
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
      if (unit.fill != Fill::kNone) {
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
    EXPECT_LE(PlanOf(c).plan->units[0].visited_pairs, 1.02 * kLength * kLength);
    c = RandomCase(SimHash(pairs, Fill::kZero, 1, 4), {kLength}, 1, 8, 43);
    EXPECT_LE(PlanOf(c).plan->units[0].visited_pairs, 0.26 * 1.06 * kLength * kLength);
    c = RandomCase(SimHash(pairs, Fill::kZero, 1, 1'000'000'000), {kLength}, 1, 8, 44);
    EXPECT_LE(PlanOf(c).plan->units[0].visited_pairs, int64_t{kTileRows} * kLength);
    for (int i = 0; i < kLength; ++i) c.buckets.query[i] = c.buckets.key[i] = 7 * i;
    EXPECT_LE(PlanOf(c).plan->units[0].visited_pairs, int64_t{kTileRows} * kLength);
  }
}

// Whatever falls together: the same chunks see the same chunks.
TEST(PlanWork, OfSortedPairsDoesNotDependOnTheBuckets) {
  constexpr int kLength = 10'000;
  for (const int hashes : {1, 3}) {
    AttentionSpec spec = Sorted(Fill::kZero, hashes);
    As<SimHashAttention>(spec).chunk = 64;
    AttentionCase c = RandomCase(spec, {kLength}, 1, 8, 44);
    const int64_t visited = PlanOf(c).plan->units[0].visited_pairs;
    EXPECT_LE(visited, int64_t{3} * 64 * kLength * hashes);
    EXPECT_GE(visited, int64_t{3} * 64 * (kLength - 128) * hashes);
    c.buckets.query.assign(c.buckets.query.size(), 3);  // all in one
    EXPECT_EQ(PlanOf(c).plan->units[0].visited_pairs, visited);
    c.buckets.key.assign(c.buckets.key.size(), 3);
    EXPECT_EQ(PlanOf(c).plan->units[0].visited_pairs, visited);
  }
}

// A band costs its width and a tile's rows, a global token a row and a column: nothing is a square of the length.
TEST(PlanWork, OfPairsAlwaysSeenIsLinear) {
  constexpr int kLength = 8192;
  AttentionCase c = RandomCase(Sorted(Fill::kNone, 1), {kLength}, 1, 8, 47);
  const int64_t without = PlanOf(c).plan->units[0].visited_pairs;
  c.spec = WithAlways(c.spec, 10, true, true);
  EXPECT_LE(PlanOf(c).plan->units[0].visited_pairs - without, int64_t{kLength} * (2 * 10 + kTileRows + 2 + 2));
}

int64_t AddressSpace() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages;
  return pages * 4096;
}

// Runs forward and, where asked, backward with no more memory than WorkBytes or ForwardWorkBytes states (and a margin
// for stacks and small vectors).
void RunWithinWorkBytes(const AttentionCase& c, int threads, bool backward) {
  SetThreads(threads);
  // All that is large is mapped and given back by itself, so that address space is what is in use; no heap of 64 MiB
  // for each thread. Their stacks are there before the limit is.
  mallopt(M_MMAP_THRESHOLD, 1 << 16);
  mallopt(M_ARENA_MAX, 1);
  ParallelFor(64, 1, [](int64_t begin, int64_t) {
    const std::vector<int64_t> touched(1000, begin);
    std::this_thread::sleep_for(std::chrono::milliseconds(touched.back() % 2));  // so that no thread takes all pieces
  });
  constexpr int64_t kMargin = int64_t{16} << 20;
  std::array<std::vector<float>, 4> outputs;
  for (std::vector<float>& output : outputs) output.resize(c.query.size());
  std::vector<float> lse(c.tokens() * c.heads);
  const int64_t stated = backward ? WorkBytes(PlanOf(c), c.operands) : ForwardWorkBytes(PlanOf(c), c.operands);
  const int64_t before = AddressSpace();
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = before + stated + kMargin;
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::exit(2);
  const int64_t stride = int64_t{c.heads} * c.head_dim;
  const auto in = [&](const std::vector<float>& x) { return HeadTensor<const float>{x.data(), stride, c.head_dim}; };
  const auto out = [&](int i) { return HeadTensor<float>{outputs[i].data(), stride, c.head_dim}; };
  const PlannedAttention planned = PlanOf(c);
  const AttentionForward forward{c.shape(),
                                 in(c.query),
                                 in(c.key),
                                 in(c.value),
                                 out(0),
                                 lse.data(),
                                 c.Scale(),
                                 planned.plan.get(),
                                 planned.centroids.get(),
                                 {},
                                 c.operands};
  RunAttentionForward(forward);
  if (backward) RunAttentionBackward({forward, in(c.grad_out), out(1), out(2), out(3)});
  std::exit(0);
}

struct MemoryCase {
  const char* name;
  AttentionSpec spec;
  int length, heads, head_dim;
};

void PrintTo(const MemoryCase& m, std::ostream* stream) { *stream << m.name; }

// As RandomCase, but quick for many numbers: they repeat. Queries and keys of a token share their bucket, so that each
// has something to see in a large table too.
AttentionCase LongCase(const MemoryCase& m) {
  AttentionCase c = RandomCase(m.spec, {m.length}, m.heads, 1, 45);
  c.buckets.key = c.buckets.query;
  c.head_dim = m.head_dim;
  const std::vector<float> numbers = NormalVector(9973, 46);
  for (std::vector<float>* x : {&c.query, &c.key, &c.value, &c.grad_out}) {
    x->resize(c.tokens() * c.heads * c.head_dim);
    const size_t shift = 13 * (x - &c.query);
    for (size_t i = 0; i < x->size(); ++i) (*x)[i] = numbers[(i + shift) % numbers.size()];
  }
  return c;
}

// What takes most memory beside the columns: chunks of every round for pairs that count once.
AttentionSpec LongReformer(int rounds) {
  AttentionSpec spec = Reformer(rounds);
  As<ReformerAttention>(spec).chunk = 64;
  As<ReformerAttention>(spec).buckets = {32, 64};
  As<ReformerAttention>(spec).count_pairs_once = rounds > 1;
  return spec;
}

AttentionSpec LongSorted(Fill fill, int hashes) {
  AttentionSpec spec = Sorted(fill, hashes);
  As<SimHashAttention>(spec).chunk = 64;
  return spec;
}

class WorkMemory : public ::testing::TestWithParam<std::tuple<MemoryCase, int>> {
 protected:
  void TearDown() override { SetThreads(HardwareThreads()); }
};

TEST_P(WorkMemory, IsWhatWorkBytesStates) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer reserves address space of its own";
  const auto& [memory, threads] = GetParam();
  AttentionCase c = LongCase(memory);
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a child of its own: other tests may have left threads
  EXPECT_EXIT(RunWithinWorkBytes(c, threads, /*backward=*/true), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(RunWithinWorkBytes(c, threads, /*backward=*/false), ::testing::ExitedWithCode(0), "");
  EXPECT_LT(ForwardWorkBytes(PlanOf(c)), WorkBytes(PlanOf(c)));
  if (Is<SimHashAttention>(memory.spec) || !Supports(Operands::kBFloat16)) return;
  c.operands = Operands::kBFloat16;
  EXPECT_EXIT(RunWithinWorkBytes(c, threads, /*backward=*/true), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(RunWithinWorkBytes(c, threads, /*backward=*/false), ::testing::ExitedWithCode(0), "");
}

TEST(WorkMemoryInAmxTiles, IsWhatWorkBytesStates) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer reserves address space of its own";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  AttentionCase c = LongCase({"", AttentionSpec{}, 1500, 2, 256});
  UseAmxModel(true);
  for (const Operands operands : {Operands::kBFloat16, Operands::kTwoParts}) {
    c.operands = operands;
    for (const bool backward : {true, false})
      EXPECT_EXIT(RunWithinWorkBytes(c, /*threads=*/2, backward), ::testing::ExitedWithCode(0), "") << Name(operands);
  }
  EXPECT_GT(ForwardWorkBytes(PlanOf(c), Operands::kTwoParts), ForwardWorkBytes(PlanOf(c), Operands::kBFloat16));
  UseAmxModel(false);
}

TEST_P(WorkMemory, OfLongSequencesIsLinear) {
  auto [memory, threads] = GetParam();
  memory.length = 65536, memory.heads = 2, memory.head_dim = 64;
  SetThreads(threads);
  const AttentionCase c = LongCase(memory);
  EXPECT_LE(WorkBytes(PlanOf(c)), int64_t{256} << 20);
}

// Dense attention over 65,536 tokens would take minutes; 4,096 × 4,096 scores would be 64 MiB, four times the margin.
INSTANTIATE_TEST_SUITE_P(
    Plan, WorkMemory,
    ::testing::Combine(
        ::testing::Values(
            MemoryCase{"dense", AttentionSpec{}, 4096, 1, 256}, MemoryCase{"local", Local(64), 65536, 2, 64},
            MemoryCase{"full_mean_512", SimHash(Pairs::kFull, Fill::kMean, 1, 512), 65536, 2, 64},
            MemoryCase{"full_zero_16m", SimHash(Pairs::kFull, Fill::kZero, 1, 16'000'000), 65536, 2, 64},
            MemoryCase{"full_mean_16m", SimHash(Pairs::kFull, Fill::kMean, 1, 16'000'000), 65536, 2, 64},
            MemoryCase{"sorted_mean", LongSorted(Fill::kMean, 1), 65536, 2, 64},
            MemoryCase{"sorted_none_3", LongSorted(Fill::kNone, 3), 65536, 2, 64},
            MemoryCase{"reformer", LongReformer(1), 65536, 2, 64},
            MemoryCase{"reformer_4_once", LongReformer(4), 65536, 2, 64},
            MemoryCase{"reference_zero_16m", SimHash(Pairs::kReference, Fill::kZero, 2, 16'000'000), 65536, 2, 64}),
        ::testing::Values(1, 2)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param).name) + "_" + std::to_string(std::get<1>(info.param)) + "_threads";
    });

TEST(WorkMemoryOfTinyCalls, IsTiny) {
  const std::vector<int32_t> lengths{0, 10};
  EXPECT_LE(WorkBytes({BuildDensePlan({lengths, 2, 64})}), int64_t{1} << 20);
}

TEST(Isa, IsForcedByName) {
  const std::vector<std::string> isas = SupportedIsas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(ActiveIsa(), isas.front());
  for (const std::string& isa : isas) {
    ForceIsa(isa);
    EXPECT_EQ(ActiveIsa(), isa);
  }
  EXPECT_EQ(IsaName(HWY_AVX3), "avx512");
  EXPECT_EQ(IsaName(HWY_AVX2), "avx2");
  ForceIsa("auto");
  EXPECT_EQ(ActiveIsa(), isas.front());
  EXPECT_THROW(ForceIsa("avx1024"), UsageError);
}

}  // namespace
}  // namespace lshformer::testing
