#include "ops/context_query_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/op_checks.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::Borders;
using testing::ErrorOf;
using testing::ExpectGradientsOf;
using testing::ExpectSameAsReference;
using testing::ExpectSameForAllThreads;
using ::testing::HasSubstr;
using testing::Normal;
using torch::Tensor;

// Lengths around the lanes of a vector and the rows of a product's tile.
const std::vector<int32_t> kContexts{5, 1, 17, 33, 9, 1, 64}, kQuestions{3, 1, 16, 7, 17, 4, 1};

// Context, question, the weights, the bias.
std::vector<Tensor> Inputs(const std::vector<int32_t>& contexts, const std::vector<int32_t>& questions, int64_t d,
                           uint64_t seed) {
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  return {Normal({Borders(contexts).back(), d}, seed),
          Normal({Borders(questions).back(), d}, seed + 1),
          Normal({d}, seed + 2, scale),
          Normal({d}, seed + 3, scale),
          Normal({d}, seed + 4, scale),
          Normal({1}, seed + 5)};
}

template <class Op>
auto Bound(const Op& op, QueryToContext kind, const std::vector<int32_t>& contexts,
           const std::vector<int32_t>& questions) {
  return [&op, kind, &contexts, &questions](const std::vector<Tensor>& in) {
    return op(in[0], Borders(contexts), in[1], Borders(questions), ContextQueryWeights{in[2], in[3], in[4], in[5]},
              kind);
  };
}

constexpr QueryToContext kKinds[] = {QueryToContext::kDoubleSoftmax, QueryToContext::kMaximum};

// A score is a sum of d products and its softmax takes its absolute error as a relative one; gradients are sums of
// products of such over up to all of the 130 rows: ε·(d + 130), of the largest number.
TEST(ContextQuery, AgreesWithItsTwinInDouble) {
  for (const QueryToContext kind : kKinds)
    for (const int64_t d : {1, 19}) {
      SCOPED_TRACE(::testing::Message() << "d " << d << ", kind " << static_cast<int>(kind));
      std::vector<Tensor> inputs = Inputs(kContexts, kQuestions, d, 3);
      inputs.pop_back();  // the gradient by the bias is 0, of the twin what rounding leaves of it
      const auto with_bias = [](const auto& op) {
        return [op](std::vector<Tensor> in) {
          in.push_back(torch::full({1}, 0.7, in[0].options()));
          return op(in);
        };
      };
      ExpectSameAsReference(with_bias(Bound(ContextQueryAttention, kind, kContexts, kQuestions)),
                            with_bias(Bound(ContextQueryAttentionReference, kind, kContexts, kQuestions)), inputs,
                            1.2e-7 * static_cast<double>(d + 130));
    }
}

// One row of the result, number by number.
TEST(ContextQuery, IsItsDefinition) {
  const std::vector<int32_t> contexts{3}, questions{2};
  const std::vector<Tensor> in = Inputs(contexts, questions, 4, 5);
  const Tensor &c = in[0], &q = in[1];
  double s[3][2];
  for (int t = 0; t < 3; ++t)
    for (int j = 0; j < 2; ++j)
      s[t][j] = (in[2].dot(c[t]) + in[3].dot(q[j]) + in[4].dot(c[t] * q[j]) + in[5][0]).item<double>();
  constexpr int kRow = 1;
  const double left = std::exp(s[kRow][0]), right = std::exp(s[kRow][1]);
  const double p[] = {left / (left + right), right / (left + right)};
  const Tensor a = p[0] * q[0] + p[1] * q[1];
  Tensor b_double = torch::zeros({4}, torch::kFloat64), b_maximum = torch::zeros({4}, torch::kFloat64);
  double largest_total = 0;
  for (auto& row : s) largest_total += std::exp(std::max(row[0], row[1]));
  for (int t = 0; t < 3; ++t) {
    double weight = 0;  // (S̄·S̿ᵀ)_{row, t}
    for (int j = 0; j < 2; ++j)
      weight += p[j] * std::exp(s[t][j]) / (std::exp(s[0][j]) + std::exp(s[1][j]) + std::exp(s[2][j]));
    b_double += weight * c[t];
    b_maximum += std::exp(std::max(s[t][0], s[t][1])) / largest_total * c[t];
  }
  for (const QueryToContext kind : kKinds) {
    const Tensor b = kind == QueryToContext::kMaximum ? b_maximum : b_double;
    const Tensor want = torch::cat({c[kRow], a, c[kRow] * a, c[kRow] * b});
    const Tensor got = Bound(ContextQueryAttentionReference, kind, contexts, questions)(in)[kRow];
    EXPECT_LT((got - want).abs().max().item<double>(), 1e-13) << static_cast<int>(kind);
  }
}

TEST(ContextQuery, ReferenceHasTheGradientsOfFiniteDifferences) {
  const std::vector<int32_t> contexts{3, 5}, questions{2, 4};
  for (const QueryToContext kind : kKinds)
    ExpectGradientsOf(Bound(ContextQueryAttentionReference, kind, contexts, questions),
                      Inputs(contexts, questions, 3, 7));
}

TEST(ContextQuery, ASequenceAloneHasTheBitsThatItHasInABatch) {
  const std::vector<Tensor> in = Inputs(kContexts, kQuestions, 100, 9);
  const std::vector<int32_t> contexts = Borders(kContexts), questions = Borders(kQuestions);
  for (const QueryToContext kind : kKinds) {
    const auto all = testing::ResultAndGradients(Bound(ContextQueryAttention, kind, kContexts, kQuestions), in);
    const Tensor g = Normal(all[0].sizes().vec(), 97).to(torch::kFloat32);
    for (size_t b = 0; b < kContexts.size(); ++b) {
      const auto own_context = [&](const Tensor& rows) { return rows.narrow(0, contexts[b], kContexts[b]); };
      const auto own_question = [&](const Tensor& rows) { return rows.narrow(0, questions[b], kQuestions[b]); };
      std::vector<Tensor> alone;
      for (const Tensor& input : in) alone.push_back(input.to(torch::kFloat32));
      alone[0] = own_context(alone[0]).clone().requires_grad_(true);
      alone[1] = own_question(alone[1]).clone().requires_grad_(true);
      const std::vector<int32_t> context{kContexts[b]}, question{kQuestions[b]};
      const Tensor y = Bound(ContextQueryAttention, kind, context, question)(alone);
      y.backward(own_context(g).contiguous());
      EXPECT_TRUE(y.equal(own_context(all[0]))) << b;
      EXPECT_TRUE(alone[0].grad().equal(own_context(all[1]))) << b;
      EXPECT_TRUE(alone[1].grad().equal(own_question(all[2]))) << b;
    }
  }
}

TEST(ContextQuery, ThreadsChangeNothing) {
  for (const QueryToContext kind : kKinds)
    ExpectSameForAllThreads(Bound(ContextQueryAttention, kind, kContexts, kQuestions),
                            Inputs(kContexts, kQuestions, 50, 11), 7);
}

TEST(ContextQuery, TheBiasChangesNothing) {
  std::vector<Tensor> in = Inputs(kContexts, kQuestions, 12, 15);
  for (const QueryToContext kind : kKinds) {
    const auto reference = Bound(ContextQueryAttentionReference, kind, kContexts, kQuestions);
    std::vector<Tensor> without = in;
    without[5] = Tensor();
    EXPECT_LT((reference(in) - reference(without)).abs().max().item<double>(), 1e-13);
    const auto all = testing::ResultAndGradients(Bound(ContextQueryAttention, kind, kContexts, kQuestions), in);
    EXPECT_EQ(all[6].abs().sum().item<float>(), 0);
    for (Tensor& tensor : without)
      if (tensor.defined()) tensor = tensor.to(torch::kFloat32);
    EXPECT_TRUE(Bound(ContextQueryAttention, kind, kContexts, kQuestions)(without).equal(all[0]));
  }
}

TEST(ContextQuery, LargeScoresDoNotOverflow) {
  std::vector<Tensor> in = Inputs(kContexts, kQuestions, 12, 17);
  in[2] = in[2] * 1e5, in[3] = in[3] * 1e5, in[4] = in[4] * 1e5;
  for (const QueryToContext kind : kKinds)
    for (const Tensor& tensor :
         testing::ResultAndGradients(Bound(ContextQueryAttention, kind, kContexts, kQuestions), in))
      EXPECT_TRUE(torch::isfinite(tensor).all().item<bool>());
}

TEST(ContextQuery, RefusesWhatDoesNotFit) {
  const Tensor c = torch::zeros({5, 4}), q = torch::zeros({3, 4}), w = torch::zeros({4});
  const auto run = [&](const std::vector<int32_t>& contexts, const std::vector<int32_t>& questions, Tensor product) {
    ContextQueryAttention(c, contexts, q, questions, {w, w, product, {}}, QueryToContext::kMaximum);
  };
  EXPECT_THAT(ErrorOf([&] { run({0, 5}, {0, 3}, torch::zeros({3})); }), HasSubstr("context [5, 4], weights [3]"));
  EXPECT_THAT(ErrorOf([&] { run({0, 2, 5}, {0, 3}, w); }), HasSubstr("2 contexts, 1 queries"));
  EXPECT_THAT(ErrorOf([&] { run({0, 2, 5}, {0, 3, 3}, w); }), HasSubstr("query of sequence 1 is empty"));
  EXPECT_THAT(ErrorOf([&] { run({0, 4}, {0, 3}, w); }), HasSubstr("context has 5 rows"));
}

}  // namespace
}  // namespace lshformer
