// Losses of logits against double, values and gradients.
#include "kernels/cross_entropy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/ref/cross_entropy.h"
#include "util/every_isa.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {
namespace {

class CrossEntropyRowsTest : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, CrossEntropyRowsTest, AllIsas(), NameOfIsa);

// lse is a sum of exponentials and a logarithm: a few roundings of |z| + log n. A probability has exp's error, which is
// the rounding of z − lse. Every other row is ignored; the gradient by columns in two pieces, in rows that lie apart.
TEST_P(CrossEntropyRowsTest, ValuesAndGradients) {
  for (const int64_t columns : {1, 3, 16, 17, 150})
    for (const int64_t rows : {0, 1, 9}) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << columns);
      const std::vector<float> logits = Random(rows * columns, 1, 4);
      std::vector<int32_t> labels;
      for (int64_t i = 0; i < rows; ++i) labels.push_back(i % 2 == 1 ? -1 : static_cast<int32_t>(i * 911 % columns));
      std::vector<float> loss(static_cast<size_t>(rows)), lse(loss);
      CrossEntropy(logits.data(), rows, columns, labels.data(), loss.data(), lse.data());
      const int64_t stride = columns + 3, first_part = columns / 2;
      std::vector<float> gradient(static_cast<size_t>(rows * stride), 9.0f);
      for (int64_t i = 0; i < rows; ++i)
        std::copy_n(logits.begin() + i * columns, columns, gradient.begin() + i * stride);
      constexpr float kScale = 0.25f;
      CrossEntropyGradient(gradient.data(), stride, rows, 0, first_part, labels.data(), lse.data(), kScale);
      CrossEntropyGradient(gradient.data(), stride, rows, first_part, columns - first_part, labels.data(), lse.data(),
                           kScale);
      double total = 0;
      for (int64_t i = 0; i < rows; ++i) {
        const std::vector<double> row(logits.begin() + i * columns, logits.begin() + (i + 1) * columns);
        const double bound = 8 * kFloatEps * (20 + std::log(static_cast<double>(columns)));
        EXPECT_NEAR(lse[i], ref::LogSumExp(row), bound);
        EXPECT_NEAR(loss[i], ref::CrossEntropy(row, labels[i]), 2 * bound);
        total += loss[i];
        std::vector<double> want = ref::CrossEntropyGradient(row, labels[i]);
        for (double& g : want) g *= kScale;
        want.resize(static_cast<size_t>(stride), 9.0);  // what lies between rows stays
        const std::vector<float> got(gradient.begin() + i * stride, gradient.begin() + (i + 1) * stride);
        EXPECT_THAT(got, WithinRounding(want, kScale * 2 * bound)) << "row " << i;
      }
      EXPECT_EQ(MeanCrossEntropy(logits.data(), rows, columns, labels.data()),
                rows == 0 ? 0 : total / static_cast<double>((rows + 1) / 2));
    }
}

TEST_P(CrossEntropyRowsTest, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits{3e38f, -3e38f, 1e30f, 1e30f};
  const std::vector<int32_t> labels{0, 1};
  std::vector<float> loss(2), lse(2);
  CrossEntropy(logits.data(), 2, 2, labels.data(), loss.data(), lse.data());
  EXPECT_EQ(loss[0], 0);
  EXPECT_EQ(lse[0], 3e38f);
  EXPECT_EQ(lse[1], 1e30f);
}

TEST(CrossEntropyThreads, ChangeNothing) {
  constexpr int64_t kRows = 70, kColumns = 33;
  const std::vector<float> logits = Random(kRows * kColumns, 2);
  const std::vector<int32_t> labels(kRows, 5);
  const auto run = [&](int threads) {
    SetThreads(threads);
    std::vector<float> loss(kRows), lse(kRows), gradient = logits;
    CrossEntropy(logits.data(), kRows, kColumns, labels.data(), loss.data(), lse.data());
    CrossEntropyGradient(gradient.data(), kColumns, kRows, 0, kColumns, labels.data(), lse.data(), 1);
    SetThreads(HardwareThreads());
    return std::vector{loss, lse, gradient};
  };
  EXPECT_EQ(run(3), run(1));
}

const std::vector<int32_t> kSpanBorders{0, 5, 6, 18, 20};
// At the end, past it, before the beginning, within; of the sequence of one token all but 0 are past it.
const std::vector<int32_t> kSpanStarts{4, 0, -3, 2}, kSpanEnds{5, 1, 11, 0};

TEST(SpanCrossEntropyKernel, ValueAndGradient) {
  for (uint64_t seed = 1; seed < 4; ++seed) {
    const std::vector<float> logits = Random(2 * kSpanBorders.back(), seed, 3);
    const ref::SpanLabels labels{kSpanBorders, kSpanStarts, kSpanEnds};
    const std::vector<double> wide = Wide(logits), want = ref::SpanCrossEntropyGradient(wide, labels);
    const double loss = ref::SpanCrossEntropy(wide, labels);
    std::vector<float> gradient(logits.size());
    const SpanCrossEntropyCall call{logits.data(), kSpanBorders, kSpanStarts, kSpanEnds};
    EXPECT_NEAR(RunSpanCrossEntropy(call, gradient.data()), loss, 1e-13 * loss);  // sums in double
    EXPECT_THAT(gradient, WithinRounding(want, kFloatEps));
    EXPECT_EQ(RunSpanCrossEntropy(call, nullptr), RunSpanCrossEntropy(call, gradient.data()));
    ExpectGradient([&](const std::vector<double>& z) { return ref::SpanCrossEntropy(z, labels); }, wide, want,
                   "of the oracle");
  }
}

TEST(SpanCrossEntropyKernel, OracleIsItsDefinition) {
  const std::vector<double> logits = Wide(Random(2 * kSpanBorders.back(), 1, 3));
  const auto term = [&](int column, int sequence, int position) {
    double sum = 0;
    for (int32_t t = kSpanBorders[sequence]; t < kSpanBorders[sequence + 1]; ++t)
      sum += std::exp(logits[2 * t + column]);
    return std::log(sum) - logits[2 * (kSpanBorders[sequence] + position) + column];
  };
  // The fourth start is at its sequence's end and the first two ends at or past theirs: ignored.
  const double starts = (term(0, 0, 4) + term(0, 1, 0) + term(0, 2, 0)) / 3;
  const double ends = (term(1, 2, 11) + term(1, 3, 0)) / 2;
  EXPECT_NEAR(ref::SpanCrossEntropy(logits, {kSpanBorders, kSpanStarts, kSpanEnds}), (starts + ends) / 2, 1e-12);
}

TEST(SpanCrossEntropyKernel, LargeLogitsAndNothingToAverage) {
  const std::vector<float> logits(6, 1e30f);
  const std::vector<int32_t> borders{0, 3}, start{1}, end{2}, past{3};
  std::vector<float> gradient(6);
  EXPECT_NEAR(RunSpanCrossEntropy({logits.data(), borders, start, end}, gradient.data()), std::log(3.0), 1e-12);
  EXPECT_NEAR(gradient[2], 0.5 * (1.0 / 3 - 1), 1e-7);
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  EXPECT_EQ(RunSpanCrossEntropy({logits.data(), borders, past, past}, gradient.data()), 0);
  EXPECT_THAT(gradient, ::testing::Each(0.0f));
}

}  // namespace
}  // namespace lshformer::testing
