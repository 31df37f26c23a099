// The oracle itself: its gradients by finite differences in double, its law against hand-made cases.
#include <gtest/gtest.h>

#include "kernels/attention_case.h"
#include "kernels/attention_specs.h"

namespace lshformer::testing {
namespace {

class OracleGradients : public ::testing::TestWithParam<std::tuple<AttentionSpec, float>> {};

// loss = Σ dO · out. Central differences of step h err by h² f'''/6 + eps·|loss|/h; with h = 1e-5 both are below 1e-9
// here.
TEST_P(OracleGradients, AgreeWithFiniteDifferences) {
  auto [spec, dropout] = GetParam();
  SetChunk(spec, 3);  // several
  AttentionCase c = RandomCase(spec, {1, 7, 0, 4}, 2, 3, 5, 0.8);
  c.dropout = dropout;
  std::array<std::vector<double>, 3> inputs{Wide(c.query), Wide(c.key), Wide(c.value)};
  const std::vector<double> grad_out = Wide(c.grad_out);
  const auto call = [&] {
    return ref::Inputs{c.shape(),       spec,          inputs[0],  inputs[1], inputs[2], c.Scale(),
                       c.buckets.query, c.buckets.key, c.Dropout()};
  };
  const auto loss = [&] {
    const ref::Outputs outputs = ref::Forward(call());
    double sum = 0;
    for (size_t i = 0; i < grad_out.size(); ++i) sum += grad_out[i] * outputs.out[i];
    return sum;
  };
  const ref::Gradients grads = ref::Backward(call(), grad_out);
  const std::array<const std::vector<double>*, 3> want{&grads.query, &grads.key, &grads.value};
  constexpr double kStep = 1e-5;
  for (size_t t = 0; t < 3; ++t) {
    for (size_t i = 0; i < inputs[t].size(); ++i) {
      const double kept = inputs[t][i];
      inputs[t][i] = kept + kStep;
      const double above = loss();
      inputs[t][i] = kept - kStep;
      const double below = loss();
      inputs[t][i] = kept;
      const double gradient = want[t]->empty() ? 0 : (*want[t])[i];  // Reformer asks for no key
      ASSERT_NEAR((above - below) / (2 * kStep), gradient, 2e-8) << "input " << t << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryMode, OracleGradients,
                         ::testing::Combine(::testing::ValuesIn(AllSpecs()), ::testing::Values(0.0f, 0.4f)),
                         [](const auto& info) {
                           return NameOf(std::get<0>(info.param)) + (std::get<1>(info.param) > 0 ? "_dropout" : "");
                         });

// Two queries and keys, by hand: only (0, 0) collides.
TEST(Oracle, FillsAreWhatTheyAreCalled) {
  AttentionCase c;
  c.cu_seqlens = {0, 2};
  c.heads = 1;
  c.head_dim = 1;
  c.scale = 1;
  c.query = {1, 2};
  c.key = {3, 5};
  c.value = {10, 20};
  c.grad_out = {0, 0};
  c.buckets = {{0, 1}, {0, 2}};
  c.spec = SimHash(Pairs::kFull, Fill::kZero, 1);
  // Row 0 sees key 0 with score 3, key 1 with the fill; row 1 sees nothing.
  const ref::Outputs zero = RunOracle(c).outputs;
  EXPECT_NEAR(zero.out[0], (std::exp(3.0) * 10 + 20) / (std::exp(3.0) + 1), 1e-12);
  EXPECT_NEAR(zero.out[1], 15, 1e-12);
  EXPECT_NEAR(zero.lse[1], std::log(2.0), 1e-12);
  As<SimHashAttention>(c.spec).fill = Fill::kMean;  // mean key 4: scores 4 and 8
  const ref::Outputs mean = RunOracle(c).outputs;
  EXPECT_NEAR(mean.out[0], (std::exp(3.0) * 10 + std::exp(4.0) * 20) / (std::exp(3.0) + std::exp(4.0)), 1e-12);
  EXPECT_NEAR(mean.lse[1], 8 + std::log(2.0), 1e-12);
  As<SimHashAttention>(c.spec).fill = Fill::kNone;
  const ref::Outputs none = RunOracle(c).outputs;
  EXPECT_EQ(none.out[0], 10);
  EXPECT_EQ(none.out[1], 0);
  EXPECT_EQ(none.lse[1], -std::numeric_limits<double>::infinity());
}

// The authors' code: i ≤ j is looked up, both (i, j) and (j, i) get q_i·k_j, q_j·k_i is never computed.
TEST(Oracle, ReferencePairsMirrorTheUpperTriangle) {
  AttentionCase c;
  c.cu_seqlens = {0, 2};
  c.heads = 1;
  c.head_dim = 1;
  c.scale = 1;
  c.query = {1, 2};
  c.key = {3, 5};
  c.value = {10, 20};
  c.grad_out = {0, 0};
  c.spec = SimHash(Pairs::kReference, Fill::kZero, 1);
  c.buckets = {{1, 2}, {0, 1}};  // (0, 1) collides: s_01 = s_10 = 1·5
  const ref::Outputs upper = RunOracle(c).outputs;
  EXPECT_NEAR(upper.out[0], (10 + std::exp(5.0) * 20) / (1 + std::exp(5.0)), 1e-12);
  EXPECT_NEAR(upper.out[1], (std::exp(5.0) * 10 + 20) / (1 + std::exp(5.0)), 1e-12);
  EXPECT_EQ(upper.pairs_computed, 1);
  c.buckets = {{2, 0}, {0, 1}};  // (1, 0) collides: below the diagonal, ignored
  const ref::Outputs lower = RunOracle(c).outputs;
  EXPECT_EQ(lower.out[0], 15);
  EXPECT_EQ(lower.out[1], 15);
  EXPECT_EQ(lower.pairs_computed, 0);
}

// No bucket is shared: a query sees its neighbours, the last token, and the last token sees all.
TEST(Oracle, NeighboursAndGlobalTokensAreAlwaysSeen) {
  AttentionCase c;
  c.cu_seqlens = {0, 5};
  c.heads = 1;
  c.head_dim = 1;
  c.scale = 1;
  c.query = c.key = c.grad_out = std::vector<float>(5, 0.0f);
  c.value = {1, 10, 100, 1000, 10000};
  c.spec = WithAlways(SimHash(Pairs::kFull, Fill::kNone, 1), 1, false, true);
  c.buckets = {{0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}};
  const ref::Outputs outputs = RunOracle(c).outputs;
  EXPECT_NEAR(outputs.out[0], (1 + 10 + 10000) / 3.0, 1e-9);
  EXPECT_NEAR(outputs.out[2], (10 + 100 + 1000 + 10000) / 4.0, 1e-9);
  EXPECT_NEAR(outputs.out[4], 11111 / 5.0, 1e-9);
  EXPECT_EQ(outputs.pairs_computed, 3 + 4 + 4 + 3 + 5);
}

// Six tokens in chunks of two. Queries come in the order 5 4 3 2 1 0, keys in 0 2 4 1 3 5.
TEST(Oracle, SortedPairsAreThoseOfTheChunksAround) {
  AttentionCase c;
  c.cu_seqlens = {0, 6};
  c.heads = 1;
  c.head_dim = 1;
  c.scale = 1;
  c.query = c.key = std::vector<float>(6, 0.0f);
  c.value = {1, 10, 100, 1000, 10000, 100000};
  c.grad_out = std::vector<float>(6, 0.0f);
  c.spec = Sorted(Fill::kNone, 1, 1, 0);
  As<SimHashAttention>(c.spec).chunk = 2;
  c.buckets = {{9, 8, 7, 6, 5, 4}, {0, 1, 0, 1, 0, 1}};
  const ref::Outputs none = RunOracle(c).outputs;  // all scores are 0: the mean of what is seen
  EXPECT_NEAR(none.out[5], (1 + 100) / 2.0, 1e-9);
  EXPECT_NEAR(none.out[4], (1 + 100) / 2.0, 1e-9);
  EXPECT_NEAR(none.out[3], (1 + 100 + 10000 + 10) / 4.0, 1e-9);
  EXPECT_NEAR(none.out[0], (10000 + 10 + 1000 + 100000) / 4.0, 1e-9);
  EXPECT_EQ(none.pairs_computed, 4 + 8 + 8);
  // The second function sorts as the positions are; what both show counts once.
  As<SimHashAttention>(c.spec).hashes = 2;
  c.buckets.query.insert(c.buckets.query.end(), {0, 0, 0, 0, 0, 0});
  c.buckets.key.insert(c.buckets.key.end(), {0, 0, 0, 0, 0, 0});
  const ref::Outputs twice = RunOracle(c).outputs;
  EXPECT_NEAR(twice.out[3], (1 + 100 + 10000 + 10 + 1000) / 5.0, 1e-9);
  EXPECT_NEAR(twice.out[4], (1 + 100 + 1000 + 10000 + 100000) / 5.0, 1e-9);
}

}  // namespace
}  // namespace lshformer::testing
