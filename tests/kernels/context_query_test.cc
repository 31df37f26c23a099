// Attention between contexts and questions against double, values and gradients.
#include "kernels/context_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/ref/context_query.h"
#include "util/every_isa.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {
namespace {

constexpr QueryToContext kQueryToContext[] = {QueryToContext::kDoubleSoftmax, QueryToContext::kMaximum};

// Arguments: context, query, w_c, w_q, w_cq.
using ContextQueryArguments = std::array<std::vector<double>, 5>;

struct ContextQueryCase {
  ContextQueryCase(const std::vector<int32_t>& contexts, const std::vector<int32_t>& questions, int64_t d)
      : cu_context(Borders(contexts)),
        cu_query(Borders(questions)),
        d(d),
        arguments{Random(cu_context.back() * d, 1), Random(cu_query.back() * d, 2), Weight(3), Weight(4), Weight(5)},
        grad_out(Random(cu_context.back() * 4 * d, 6)) {}
  std::vector<float> Weight(uint64_t seed) const { return Random(d, seed, 1 / std::sqrt(static_cast<double>(d))); }
  ContextQuery Call(QueryToContext kind) const {
    return {d,
            cu_context,
            cu_query,
            arguments[0].data(),
            arguments[1].data(),
            arguments[2].data(),
            arguments[3].data(),
            arguments[4].data(),
            kind};
  }
  ref::ContextQueryInputs Oracle(const ContextQueryArguments& wide, QueryToContext kind) const {
    return {d, cu_context, cu_query, wide[0], wide[1], wide[2], wide[3], wide[4], kind};
  }
  ContextQueryArguments WideArguments() const {
    ContextQueryArguments wide;
    for (size_t i = 0; i < wide.size(); ++i) wide[i] = Wide(arguments[i]);
    return wide;
  }
  std::vector<int32_t> cu_context, cu_query;
  int64_t d;
  std::array<std::vector<float>, 5> arguments;
  std::vector<float> grad_out;
};

struct ContextQueryRun {
  ContextQueryRun(const ContextQueryCase& c, QueryToContext kind)
      : out(c.grad_out.size()),
        grad_context(c.arguments[0].size()),
        grad_query(c.arguments[1].size()),
        grad_weights(static_cast<size_t>(3 * c.d), NAN) {
    RunContextQuery(c.Call(kind), out.data());
    RunContextQueryGradient(
        {c.Call(kind), c.grad_out.data(), grad_context.data(), grad_query.data(), grad_weights.data()});
  }
  bool operator==(const ContextQueryRun&) const = default;
  std::vector<float> out, grad_context, grad_query, grad_weights;
};

// Lengths around the lanes of a vector and the rows of a product's tile.
const std::vector<int32_t> kContextLengths{5, 1, 17, 33, 9, 1}, kQuestionLengths{3, 1, 16, 7, 17, 4};

class ContextQueryKernelTest : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, ContextQueryKernelTest, AllIsas(), NameOfIsa);

// A score is a sum of d products and its softmax takes its absolute error as a relative one; gradients are sums of
// products of such over up to all of the 66 rows: 2 ε · (d + 66), of the largest number.
TEST_P(ContextQueryKernelTest, ValuesAndGradients) {
  for (const QueryToContext kind : kQueryToContext)
    for (const int64_t d : {1, 19, 32, 70}) {
      SCOPED_TRACE(::testing::Message() << "d " << d << ", kind " << static_cast<int>(kind));
      const ContextQueryCase c(kContextLengths, kQuestionLengths, d);
      const ContextQueryRun got(c, kind);
      const ContextQueryArguments wide = c.WideArguments();
      const std::vector<double> out = ref::RunContextQuery(c.Oracle(wide, kind));
      const ref::ContextQueryGradients grads = ref::RunContextQueryGradient(c.Oracle(wide, kind), Wide(c.grad_out));
      const double rounding = 2 * kFloatEps * static_cast<double>(d + 66);
      EXPECT_THAT(got.out, WithinRounding(out, OfLargest(out, rounding)));
      EXPECT_THAT(got.grad_context, WithinRounding(grads.context, OfLargest(grads.context, rounding)));
      EXPECT_THAT(got.grad_query, WithinRounding(grads.query, OfLargest(grads.query, rounding)));
      std::vector<double> weights = grads.context_weight;
      weights.insert(weights.end(), grads.query_weight.begin(), grads.query_weight.end());
      weights.insert(weights.end(), grads.product_weight.begin(), grads.product_weight.end());
      EXPECT_THAT(got.grad_weights, WithinRounding(weights, OfLargest(weights, 2 * rounding)));
    }
}

TEST(ContextQueryKernel, ThreadsChangeNothingNorDoBatchMates) {
  const ContextQueryCase c(kContextLengths, kQuestionLengths, 50);
  for (const QueryToContext kind : kQueryToContext) {
    SetThreads(1);
    const ContextQueryRun want(c, kind);
    SetThreads(5);
    EXPECT_EQ(ContextQueryRun(c, kind), want);
    SetThreads(HardwareThreads());
    for (size_t b = 0; b < kContextLengths.size(); ++b) {
      ContextQueryCase alone({kContextLengths[b]}, {kQuestionLengths[b]}, 50);
      const auto own = [&](const std::vector<float>& rows, const std::vector<int32_t>& borders, int64_t columns) {
        return std::vector<float>(rows.begin() + borders[b] * columns, rows.begin() + borders[b + 1] * columns);
      };
      for (size_t i = 2; i < 5; ++i) alone.arguments[i] = c.arguments[i];
      alone.arguments[0] = own(c.arguments[0], c.cu_context, 50);
      alone.arguments[1] = own(c.arguments[1], c.cu_query, 50);
      alone.grad_out = own(c.grad_out, c.cu_context, 200);
      const ContextQueryRun got(alone, kind);
      EXPECT_EQ(got.out, own(want.out, c.cu_context, 200)) << b;
      EXPECT_EQ(got.grad_context, own(want.grad_context, c.cu_context, 50)) << b;
      EXPECT_EQ(got.grad_query, own(want.grad_query, c.cu_query, 50)) << b;
    }
  }
}

// Words of the question that are alike: the gradient of their maximum goes to the first. Only B has a gradient: through
// A equal words share theirs.
TEST(ContextQueryKernel, TheFirstOfEqualMaximaHasTheGradient) {
  ContextQueryCase c({4}, {3}, 8);
  for (size_t i = 0; i < c.arguments[1].size(); ++i) c.arguments[1][i] = c.arguments[1][i % 8];
  for (size_t i = 0; i < c.grad_out.size(); ++i) c.grad_out[i] = i % 32 < 24 ? 0.0f : 1.0f;
  const ContextQueryRun got(c, QueryToContext::kMaximum);
  EXPECT_GT(std::abs(got.grad_query[0]), 1e-4);
  EXPECT_EQ(std::count(got.grad_query.begin() + 8, got.grad_query.end(), 0.0f), 16);
}

// One row of the result, number by number.
TEST(ContextQueryOracle, IsItsDefinition) {
  const ContextQueryCase c({3}, {2}, 4);
  const ContextQueryArguments in = c.WideArguments();
  const double *context = in[0].data(), *query = in[1].data();
  double s[3][2] = {};
  for (int t = 0; t < 3; ++t)
    for (int j = 0; j < 2; ++j)
      for (int k = 0; k < 4; ++k)
        s[t][j] += in[2][k] * context[4 * t + k] + in[3][k] * query[4 * j + k] +
                   in[4][k] * context[4 * t + k] * query[4 * j + k];
  constexpr int kRow = 1;
  const double left = std::exp(s[kRow][0]), right = std::exp(s[kRow][1]);
  const double p[] = {left / (left + right), right / (left + right)};
  double largest_total = 0;
  for (auto& row : s) largest_total += std::exp(std::max(row[0], row[1]));
  for (const QueryToContext kind : kQueryToContext) {
    const std::vector<double> out = ref::RunContextQuery(c.Oracle(in, kind));
    for (int k = 0; k < 4; ++k) {
      double b = 0;
      for (int t = 0; t < 3; ++t) {
        double weight = std::exp(std::max(s[t][0], s[t][1])) / largest_total;
        if (kind == QueryToContext::kDoubleSoftmax) {  // (S̄·S̿ᵀ)_{row, t}
          weight = 0;
          for (int j = 0; j < 2; ++j)
            weight += p[j] * std::exp(s[t][j]) / (std::exp(s[0][j]) + std::exp(s[1][j]) + std::exp(s[2][j]));
        }
        b += weight * context[4 * t + k];
      }
      const double own = context[4 * kRow + k], a = p[0] * query[k] + p[1] * query[4 + k];
      const double want[] = {own, a, own * a, own * b};
      for (int part = 0; part < 4; ++part) EXPECT_NEAR(out[16 * kRow + 4 * part + k], want[part], 1e-13);
    }
  }
}

TEST(ContextQueryOracle, HasTheGradientsOfFiniteDifferences) {
  const ContextQueryCase c({3, 5}, {2, 4}, 3);
  const ContextQueryArguments in = c.WideArguments();
  const std::vector<double> g = Wide(c.grad_out);
  for (const QueryToContext kind : kQueryToContext) {
    const ref::ContextQueryGradients grads = ref::RunContextQueryGradient(c.Oracle(in, kind), g);
    const std::vector<double>* gradients[] = {&grads.context, &grads.query, &grads.context_weight, &grads.query_weight,
                                              &grads.product_weight};
    for (size_t argument = 0; argument < in.size(); ++argument) {
      const auto loss = [&](const std::vector<double>& moved) {
        ContextQueryArguments at = in;
        at[argument] = moved;
        const std::vector<double> out = ref::RunContextQuery(c.Oracle(at, kind));
        double sum = 0;
        for (size_t i = 0; i < out.size(); ++i) sum += out[i] * g[i];
        return sum;
      };
      ExpectGradient(loss, in[argument], *gradients[argument], "argument " + std::to_string(argument));
    }
  }
}

}  // namespace
}  // namespace lshformer::testing
