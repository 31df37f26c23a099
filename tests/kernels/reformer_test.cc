// Reformer's plans and its oracle: who meets whom, by hand and by the oracle's own bookkeeping; what must stay linear.
#include "kernels/ref/reformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/attention_case.h"
#include "kernels/counts.h"
#include "kernels/every_isa.h"
#include "kernels/plan.h"
#include "kernels/planning/plan_arrays.h"
#include "util/sanitized.h"

namespace lshformer::testing {
namespace {

// Six tokens, chunks of two, one round. Sorted by bucket: 1 3 | 5 0 | 2 4. Chunk 0 sees the last one.
TEST(Meetings, OfOneRoundByHand) {
  AttentionSpec spec = Reformer(1);
  As<ReformerAttention>(spec).chunk = 2;
  const std::vector<int32_t> buckets{2, 0, 3, 0, 3, 1};
  const std::vector<int32_t> want{1, 1, 0, 1, 0, 1,   // 0: 1 3 5 0
                                  0, 1, 1, 1, 1, 0,   // 1: 2 4 1 3
                                  1, 0, 1, 0, 1, 1,   // 2: 5 0 2 4
                                  0, 1, 1, 1, 1, 0,   // 3
                                  1, 0, 1, 0, 1, 1,   // 4
                                  1, 1, 0, 1, 0, 1};  // 5
  EXPECT_EQ(ref::MeetingCounts(spec, 6, buckets.data(), 6), want);
  As<ReformerAttention>(spec).wrap = false;  // chunk 0 sees itself alone
  const std::vector<int32_t> alone = ref::MeetingCounts(spec, 6, buckets.data(), 6);
  EXPECT_EQ(std::vector<int32_t>(alone.begin() + 6, alone.begin() + 12), (std::vector<int32_t>{0, 1, 0, 1, 0, 0}));
}

// Two chunks, one back and one ahead: the other chunk is in the window twice.
TEST(Meetings, AChunkThatIsInTheWindowTwiceCountsTwice) {
  AttentionSpec spec = Reformer(1, 1, 1);
  As<ReformerAttention>(spec).chunk = 2;
  const std::vector<int32_t> buckets{0, 0, 1};  // 0 1 | 2
  EXPECT_EQ(ref::MeetingCounts(spec, 3, buckets.data(), 3), (std::vector<int32_t>{1, 1, 2, 1, 1, 2, 2, 2, 1}));
  As<ReformerAttention>(spec).count_pairs_once = true;
  EXPECT_EQ(ref::MeetingCounts(spec, 3, buckets.data(), 3), std::vector<int32_t>(9, 1));
}

// Round 0: 0 1 | 2, round 1: 2 1 | 0. The last chunk is short. Chunk 0 of round 1 sees the last of round 0.
TEST(Meetings, RoundsLieInACircle) {
  AttentionSpec spec = Reformer(2);
  As<ReformerAttention>(spec).chunk = 2;
  const std::vector<int32_t> buckets{0, 0, 1, 2, 1, 0};
  EXPECT_EQ(ref::MeetingCounts(spec, 3, buckets.data(), 3), (std::vector<int32_t>{3, 2, 1, 2, 2, 2, 1, 2, 3}));
}

// Chunks of one show a query itself alone; beside that it sees its neighbours and the first token, which sees all.
TEST(Meetings, NeighboursAndGlobalTokensAreAlwaysMet) {
  AttentionSpec spec = WithAlways(Reformer(2, 0, 0), 1, true, false);
  As<ReformerAttention>(spec).chunk = 1;
  const std::vector<int32_t> buckets{0, 1, 2, 3, 0, 1, 2, 3};
  EXPECT_EQ(ref::MeetingCounts(spec, 4, buckets.data(), 4), (std::vector<int32_t>{2, 1, 1, 1,  // met twice stays twice
                                                                                  1, 2, 1, 0,  //
                                                                                  1, 1, 2, 1,  //
                                                                                  1, 0, 1, 2}));
  As<ReformerAttention>(spec).causal = true;
  EXPECT_EQ(ref::MeetingCounts(spec, 4, buckets.data(), 4), (std::vector<int32_t>{2, 0, 0, 0,  //
                                                                                  1, 2, 0, 0,  //
                                                                                  1, 1, 2, 0,  //
                                                                                  1, 0, 1, 2}));
}

// Visited pairs are the pairs met, as often as they are met.
TEST(ReformerPlan, VisitsWhatTheOracleMeets) {
  for (AttentionSpec spec : ReformerSpecs()) {
    if (As<ReformerAttention>(spec).count_pairs_once)
      continue;  // the executor's own test; against the oracle in attention_test
    SCOPED_TRACE(NameOf(spec));
    for (const int chunk : {1, 5, 16, 64, 70}) {
      As<ReformerAttention>(spec).chunk = chunk;
      const AttentionCase c = RandomCase(spec, {1, 150, 0, chunk + 1, 64}, 2, 8, 61);
      const AttentionPlanPtr plan = PlanOf(c).plan;
      int64_t pairs = 0;
      for (const Unit& unit : plan->units) {
        std::vector<int32_t> visits(int64_t{unit.length} * unit.length);
        for (int p = unit.pass_begin; p < unit.pass_end; ++p) {
          const TilePass& pass = plan->passes[p];
          const int32_t *rows = plan->Order(pass.row_order), *columns = plan->Order(pass.column_order);
          for (int64_t t = pass.tile_begin; t < pass.tile_end; ++t) {
            const Tile& tile = plan->tiles[t];
            ASSERT_LE(tile.row_end - tile.row_begin, kTileRows);
            for (int32_t r = tile.row_begin; r < tile.row_end; ++r) {
              const int32_t row = rows ? rows[r] : r;
              ASSERT_EQ(columns ? columns[pass.own_columns + r] : r, row);
              for (int32_t s = tile.segment_begin; s < tile.segment_end; ++s) {
                const Segment& segment = plan->segments[s];
                ASSERT_GE(segment.column_begin, 0);
                ASSERT_LE(segment.column_end, pass.columns);
                for (int32_t k = segment.column_begin; k < segment.column_end; ++k) {
                  const int32_t column = columns ? columns[k] : k;
                  const bool later = As<ReformerAttention>(spec).causal && column > row;
                  if ((pass.rule & kAlwaysSeen) &&
                      (!unit.always.Holds(row, column) || visits[int64_t{row} * unit.length + column] > 0))
                    continue;  // the rounds come first; the executor's own test, against the oracle in attention_test
                  const bool other = (pass.rule & kSameBucket) && plan->RowBuckets(unit, pass, pass.hash)[row] !=
                                                                      plan->RowBuckets(unit, pass, pass.hash)[column];
                  if (segment.every_pair) {
                    ASSERT_FALSE(later || other);
                  }
                  visits[int64_t{row} * unit.length + column] += !later && !other;
                }
              }
            }
          }
        }
        const int32_t* buckets = c.buckets.query.data() +
                                 int64_t{unit.head} * As<ReformerAttention>(spec).rounds * c.tokens() +
                                 unit.token_begin;
        ASSERT_EQ(visits, ref::MeetingCounts(spec, unit.length, buckets, c.tokens())) << "length " << unit.length;
        const auto met = std::count_if(visits.begin(), visits.end(), [](int32_t n) { return n > 0; });
        EXPECT_EQ(PairsMet(*plan, unit), met);
        pairs += met;
      }
      EXPECT_EQ(lshformer::Counts(*plan).pairs_computed, pairs);
    }
  }
}

TEST(ReformerPlan, RefusesAWindowThatComesRoundToItself) {
  AttentionSpec spec = Reformer(1, 3);
  EXPECT_THROW(PlanOf(RandomCase(spec, {100, 40}, 1, 8, 62)), Error);  // 40 tokens: three chunks
  EXPECT_NO_THROW(PlanOf(RandomCase(spec, {100, 16}, 1, 8, 62)));
}

// Work does not depend on what the buckets are: all in one is like any other.
TEST(ReformerPlan, WorkIsLinearWhateverTheBuckets) {
  for (const int length : {4096, 16384}) {
    AttentionSpec spec = Reformer(2);
    As<ReformerAttention>(spec).chunk = 64;
    AttentionCase c = RandomCase(spec, {length}, 1, 8, 63);
    const int64_t random = PlanOf(c).plan->units[0].visited_pairs;
    std::fill(c.buckets.query.begin(), c.buckets.query.end(), 3);
    EXPECT_EQ(PlanOf(c).plan->units[0].visited_pairs, random);
    EXPECT_EQ(random, int64_t{2} * length * 128);
  }
}

class EveryReformer : public IsaFixture {};
INSTANTIATE_TEST_SUITE_P(Reformer, EveryReformer,
                         ::testing::Combine(::testing::ValuesIn(ReformerSpecs()),
                                            ::testing::ValuesIn(IsasAndBFloat16())),
                         NameOfSpecAndIsa);

// Every chunk size against the tile's, tails of one token, a round's last chunk of one token.
TEST_P(EveryReformer, AgreesAtEveryChunk) {
  for (const int chunk : kSanitized ? std::vector{1, 65} : std::vector{1, 7, 63, 64, 65, 128, 150}) {
    SCOPED_TRACE(chunk);
    AttentionSpec spec = this->spec();
    As<ReformerAttention>(spec).chunk = chunk;
    const AttentionCase c = WithOperands(RandomCase(spec, {chunk, chunk + 1, 3 * chunk, 3 * chunk + 1}, 1, 20, 64));
    ExpectAgrees(c, RunKernels(c));
  }
}

// The windows of a small circle reach all around it, where that is allowed.
TEST_P(EveryReformer, AgreesWithWideWindows) {
  AttentionSpec spec = this->spec();
  auto& reformer = As<ReformerAttention>(spec);
  reformer.look_back = 3;
  reformer.look_ahead = 2;
  const int least = reformer.wrap && reformer.cross_bucket && !reformer.count_pairs_once ? 3 * 16 + 1 : 17;
  const AttentionCase c = WithOperands(RandomCase(spec, {least, 150}, 2, 16, 65));
  ExpectAgrees(c, RunKernels(c));
}

TEST_P(EveryReformer, AZeroVectorStaysZeroAsAKey) {
  AttentionCase c = WithOperands(RandomCase(spec(), {90, 5}, 1, 12, 66));
  std::fill(c.query.begin() + 120, c.query.begin() + 360, 0.0f);
  const AttentionResult result = RunKernels(c);
  ExpectAgrees(c, result);
  for (const float x : result.grad_query) ASSERT_TRUE(std::isfinite(x));
}

TEST_P(EveryReformer, ATokenAloneReturnsItsValue) {
  const AttentionCase c = WithOperands(RandomCase(spec(), {1}, 2, 12, 67));
  const AttentionResult result = RunKernels(c);
  EXPECT_EQ(result.out, c.value);
  EXPECT_EQ(result.lse, std::vector<float>(2, -1e5f));
  EXPECT_EQ(result.grad_value, c.grad_out);
  EXPECT_EQ(result.grad_query, std::vector<float>(c.query.size(), 0.0f));
}

// The first token of a causal sequence sees itself alone, in every round and where windows reach into the next one:
// float would lose the logarithm of how often beside 1e5.
TEST(CausalReformer, TheFirstTokenReturnsItsValueToo) {
  for (const int rounds : {1, 3, 7, 100}) {
    AttentionSpec spec = Reformer(rounds);
    As<ReformerAttention>(spec).causal = true;
    const AttentionCase c = RandomCase(spec, {40}, 1, 12, 68);
    const AttentionResult result = RunKernels(c);
    const double lse = RunOracle(c).outputs.lse[0];
    EXPECT_GE(lse, std::log(rounds) - 1e5 - 1e-9);
    EXPECT_NEAR(result.lse[0], lse, 0x1p-7);  // the step of floats there
    for (int k = 0; k < 12; ++k) EXPECT_NEAR(result.out[k], c.value[k], 1e-6);
    ExpectAgrees(c, result);
  }
}

// Neither key nor grad_key is touched.
TEST(SharedKeys, NeedNoKey) {
  AttentionCase c = RandomCase(Reformer(2), {70}, 2, 12, 69);
  const AttentionResult want = RunKernels(c);
  std::fill(c.key.begin(), c.key.end(), NAN);
  EXPECT_TRUE(RunKernels(c) == want);
}

// A pair's score does not depend on the size of the key's vector, and all of them on the query's.
TEST(SharedKeys, AreOfLengthOne) {
  AttentionCase c = RandomCase(Reformer(1), {16}, 1, 12, 70);
  const AttentionResult before = RunKernels(c, false);
  for (int k = 0; k < 12; ++k) c.query[5 * 12 + k] *= 8;  // exact in float
  const AttentionResult after = RunKernels(c, false);
  for (int i = 0; i < 16; ++i) {
    if (i != 5) {
      EXPECT_NEAR(after.lse[i], before.lse[i], 1e-4) << i;
    }
  }
  EXPECT_GT(std::abs(after.lse[5] - before.lse[5]), 0.5);
}

}  // namespace
}  // namespace lshformer::testing
