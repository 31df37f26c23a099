// What a result must not depend on: batch-mates, threads, strides. Bit for bit. And what must stay where it is: NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernels/attention_case.h"
#include "kernels/every_isa.h"
#include "kernels/execution.h"
#include "kernels/packed_heads.h"
#include "kernels/plan.h"
#include "kernels/planning/plan_arrays.h"
#include "util/sanitized.h"

namespace lshformer::testing {
namespace {

class Independence : public IsaFixture {
 protected:
  void TearDown() override {
    SetThreads(HardwareThreads());
    IsaFixture::TearDown();
  }
};
INSTANTIATE_TEST_SUITE_P(EveryMode, Independence, EverySpecAndIsa(), NameOfSpecAndIsa);

TEST_P(Independence, AloneOrInABatchBitForBit) {
  AttentionCase c = WithOperands(RandomCase(spec(), {3, 0, 70, 1, 130}, 2, 20, 6));
  c.dropout = 0.2f;
  const AttentionResult all = RunKernels(c);
  for (size_t b = 0; b + 1 < c.cu_seqlens.size(); ++b) {
    const AttentionResult alone = RunKernels(Alone(c, b));
    const int64_t begin = c.cu_seqlens[b], row = int64_t{c.heads} * c.head_dim;
    const auto same = [&](const std::vector<float>& whole, const std::vector<float>& part, int64_t width) {
      // memcmp may not be given the null pointer of an empty sequence.
      return part.empty() || std::memcmp(whole.data() + begin * width, part.data(), part.size() * sizeof(float)) == 0;
    };
    EXPECT_TRUE(same(all.out, alone.out, row) && same(all.lse, alone.lse, c.heads)) << "sequence " << b;
    EXPECT_TRUE(same(all.grad_query, alone.grad_query, row) && same(all.grad_key, alone.grad_key, row) &&
                same(all.grad_value, alone.grad_value, row))
        << "sequence " << b;
  }
}

TEST_P(Independence, ThreadsChangeNothing) {
  if (kSanitized && std::get<1>(GetParam()) == "scalar")
    GTEST_SKIP() << "a sanitizer: AVX2 shares the same among threads, faster";
  // The long sequence is worked on by all threads where there are several, the others each by one: kernels/cpu shares a
  // unit of a million visited pairs that is more than a quarter (two threads) of all work.
  AttentionSpec busy = spec();
  SetChunk(busy, 500);
  if (Is<ReformerAttention>(busy)) As<ReformerAttention>(busy).buckets = {2, 0};
  if (Is<LocalAttention>(busy)) busy.window = 500;
  const bool one_hash = Is<SimHashAttention>(busy) && HashesOf(busy) == 1;
  const int length = one_hash ? 1550 : 1250;
  if (one_hash) As<SimHashAttention>(busy).table_size = 2;
  AttentionCase c = WithOperands(RandomCase(busy, {100, length, 37}, 1, 8, 7));
  c.dropout = 0.1f;
  const AttentionPlanPtr plan = PlanOf(c).plan;
  ASSERT_EQ(plan->units.size(), 3u);
  EXPECT_GE(plan->units[1].visited_pairs, 1'000'000);
  EXPECT_GE(plan->units[1].visited_pairs, 3 * (plan->units[0].visited_pairs + plan->units[2].visited_pairs));
  SetThreads(1);
  const AttentionResult one = RunKernels(c);
  for (const int threads : kSanitized ? std::vector{3} : std::vector{2, 3}) {
    SetThreads(threads);
    EXPECT_TRUE(one == RunKernels(c)) << threads << " threads";
  }
}

TEST_P(Independence, StridesChangeNothing) {
  AttentionCase c = WithOperands(RandomCase(spec(), {5, 66}, 2, 19, 8));
  const AttentionResult want = RunKernels(c);
  // heads-major with rows of 24 floats: another head stride, another token stride, odd alignment
  const int64_t width = 24, tokens = c.tokens();
  const auto spread = [&](const std::vector<float>& x) {
    std::vector<float> wide(1 + tokens * c.heads * width, NAN);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int h = 0; h < c.heads; ++h) {
        std::copy_n(x.data() + (t * c.heads + h) * c.head_dim, c.head_dim, wide.data() + 1 + (h * tokens + t) * width);
      }
    }
    return wide;
  };
  std::array<std::vector<float>, 4> inputs{spread(c.query), spread(c.key), spread(c.value), spread(c.grad_out)};
  std::array<std::vector<float>, 4> outputs;
  const auto in = [&](int i) { return HeadTensor<const float>{inputs[i].data() + 1, width, tokens * width}; };
  const auto out = [&](int i) {
    outputs[i].assign(inputs[i].size(), 12345.0f);
    return HeadTensor<float>{outputs[i].data() + 1, width, tokens * width};
  };
  std::vector<float> lse(tokens * c.heads);
  const PlannedAttention planned = PlanOf(c);
  const AttentionForward forward{
      c.shape(),   in(0),     in(1), in(2), out(0), lse.data(), c.Scale(), planned.plan.get(), planned.centroids.get(),
      c.Dropout(), c.operands};
  RunAttentionForward(forward);
  RunAttentionBackward({forward, in(3), out(1), out(2), out(3)});
  if (c.SharedKeys()) outputs[2].clear();
  const std::array<const std::vector<float>*, 4> results{&want.out, &want.grad_query, &want.grad_key, &want.grad_value};
  for (int i = 0; i < 4; ++i) {
    std::vector<float> expected = results[i]->empty() ? *results[i] : spread(*results[i]);
    for (float& x : expected) x = std::isnan(x) ? 12345.0f : x;  // what lies between the rows is not touched
    EXPECT_EQ(outputs[i], expected) << "tensor " << i;
  }
  EXPECT_EQ(lse, want.lse);
}

// A NaN reaches exactly the results that the formulas carry it to.
TEST_P(Independence, NanStaysWhereTheFormulasTakeIt) {
  for (const int tensor : {0, 1, 2, 3}) {
    AttentionCase c = WithOperands(RandomCase(spec(), {90}, 1, 8, 9));
    std::vector<float>* tensors[] = {&c.query, &c.key, &c.value, &c.grad_out};
    (*tensors[tensor])[17 * c.head_dim + 3] = NAN;
    const AttentionResult got = RunKernels(c);
    const OracleResult want = RunOracle(c);
    const auto compare = [&](const std::vector<float>& mine, const std::vector<double>& oracle, const char* name) {
      for (size_t i = 0; i < mine.size(); ++i) {
        ASSERT_EQ(std::isnan(mine[i]), std::isnan(oracle[i]))
            << name << " row " << i / c.head_dim << ", NaN in tensor " << tensor;
      }
    };
    compare(got.out, want.outputs.out, "out");
    compare(got.grad_query, want.grads.query, "grad_query");
    compare(got.grad_key, want.grads.key, "grad_key");
    compare(got.grad_value, want.grads.value, "grad_value");
    for (size_t i = 0; i < got.lse.size(); ++i) EXPECT_EQ(std::isnan(got.lse[i]), std::isnan(want.outputs.lse[i])) << i;
  }
}

}  // namespace
}  // namespace lshformer::testing
