#include "ops/span_cross_entropy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;

const std::vector<int32_t> kBorders{0, 5, 6, 18, 20};
// At the end, past it, before the beginning, within; of the sequence of one token all but 0 are past it.
const std::vector<int32_t> kStarts{4, 0, -3, 2}, kEnds{5, 1, 11, 0};

torch::Tensor Logits(uint64_t seed) {
  torch::manual_seed(seed);
  return 3 * torch::randn({kBorders.back(), 2}, torch::kFloat64);
}

TEST(SpanCrossEntropy, IsItsDefinition) {
  const torch::Tensor logits = Logits(1);
  const auto term = [&](int column, int sequence, int position) {
    double sum = 0;
    for (int32_t t = kBorders[sequence]; t < kBorders[sequence + 1]; ++t)
      sum += std::exp(logits[t][column].item<double>());
    return std::log(sum) - logits[kBorders[sequence] + position][column].item<double>();
  };
  // The fourth start is at its sequence's end and the first two ends at or past theirs: ignored.
  const double starts = (term(0, 0, 4) + term(0, 1, 0) + term(0, 2, 0)) / 3;
  const double ends = (term(1, 2, 11) + term(1, 3, 0)) / 2;
  const torch::Tensor loss = SpanCrossEntropyReference(logits, kBorders, kStarts, kEnds);
  EXPECT_NEAR(loss.item<double>(), (starts + ends) / 2, 1e-12);
}

TEST(SpanCrossEntropy, AgreesWithItsTwinInValueAndGradient) {
  for (uint64_t seed = 1; seed < 5; ++seed) {
    const torch::Tensor exact = Logits(seed).to(torch::kFloat32).to(torch::kFloat64).requires_grad_(true);
    const torch::Tensor single = exact.detach().to(torch::kFloat32).requires_grad_(true);
    const torch::Tensor want = SpanCrossEntropyReference(exact, kBorders, kStarts, kEnds);
    const torch::Tensor got = SpanCrossEntropy(single, kBorders, kStarts, kEnds);
    EXPECT_NEAR(got.item<double>(), want.item<double>(), 1e-6 * want.item<double>());
    (got * 0.7).backward();
    (want * 0.7).backward();
    EXPECT_LT((single.grad().to(torch::kFloat64) - exact.grad()).abs().max().item<double>(), 1e-7);
    EXPECT_GT(exact.grad().abs().max().item<double>(), 1e-2);
  }
}

TEST(SpanCrossEntropy, WithoutGradientsTheSameValue) {
  const torch::Tensor logits = Logits(2).to(torch::kFloat32);
  const torch::NoGradGuard no_grad;
  EXPECT_NEAR(SpanCrossEntropy(logits, kBorders, kStarts, kEnds).item<double>(),
              SpanCrossEntropyReference(logits.to(torch::kFloat64), kBorders, kStarts, kEnds).item<double>(), 1e-6);
}

TEST(SpanCrossEntropy, LargeLogitsDoNotOverflow) {
  const torch::Tensor logits = torch::full({3, 2}, 1e30, torch::kFloat32).requires_grad_(true);
  const torch::Tensor loss = SpanCrossEntropy(logits, {0, 3}, {1}, {2});
  EXPECT_NEAR(loss.item<double>(), std::log(3.0), 1e-6);
  loss.backward();
  EXPECT_TRUE(torch::isfinite(logits.grad()).all().item<bool>());
}

TEST(SpanCrossEntropy, NothingToAverageIsZero) {
  const torch::Tensor logits = Logits(3).to(torch::kFloat32).requires_grad_(true);
  const std::vector<int32_t> past(4, 99);
  const torch::Tensor loss = SpanCrossEntropy(logits, kBorders, past, past);
  EXPECT_EQ(loss.item<double>(), 0);
  loss.backward();
  EXPECT_EQ(logits.grad().abs().max().item<double>(), 0);
}

TEST(SpanCrossEntropy, RefusesWhatDoesNotFit) {
  const torch::Tensor logits = Logits(1).to(torch::kFloat32);
  EXPECT_THAT(ErrorOf([&] { SpanCrossEntropy(logits, kBorders, {0}, kEnds); }), HasSubstr("1 starts and 4 ends"));
  EXPECT_THAT(ErrorOf([&] { SpanCrossEntropy(logits, {0, 4}, {0}, {0}); }), HasSubstr("logits [20, 2]"));
}

}  // namespace
}  // namespace lshformer
