// Kernels along packed sequences against double, values and gradients.
#include "kernels/sequences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/ref/sequences.h"
#include "util/every_isa.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {
namespace {

class SequencesTest : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, SequencesTest, AllIsas(), NameOfIsa);

// Taps in reverse, the widest last.
std::vector<float> Reversed(const std::vector<float>& taps, int64_t channels) {
  std::vector<float> reversed;
  for (int64_t j = std::ssize(taps) / channels; j-- > 0;)
    reversed.insert(reversed.end(), taps.begin() + j * channels, taps.begin() + (j + 1) * channels);
  return reversed;
}

// Around the widths, around the 64 rows of a piece of work, and none.
const std::vector<int32_t> kConvolved = Borders({1, 2, 4, 0, 5, 3, 63, 64, 65, 0, 70, 1});

struct ConvolutionResult {
  ConvolutionResult(const std::vector<float>& x, const std::vector<float>& taps, const std::vector<float>& grad_y,
                    int64_t channels, int64_t width, const std::vector<int32_t>& borders)
      : y(x.size()), grad_x(x.size()), grad_taps(taps.size()) {
    Convolve(borders, channels, width, x.data(), taps.data(), y.data());
    Convolve(borders, channels, width, grad_y.data(), Reversed(taps, channels).data(), grad_x.data());
    ConvolveTapGradient(borders, channels, width, x.data(), grad_y.data(), grad_taps.data());
  }
  bool operator==(const ConvolutionResult&) const = default;
  std::vector<float> y, grad_x, grad_taps;
};

std::vector<double> Absolute(const std::vector<float>& x) {
  std::vector<double> sizes = Wide(x);
  for (double& size : sizes) size = std::abs(size);
  return sizes;
}

// A result is a sum of at most 9 products; a tap's gradient one over all rows, by 5 blocks of 64: it is off by as many
// roundings of Σ|x||grad_y|.
TEST_P(SequencesTest, Convolution) {
  for (const int64_t channels : {1, 16, 19, 65})
    for (const int64_t width : {1, 3, 9}) {
      SCOPED_TRACE(::testing::Message() << channels << " channels, width " << width);
      const int64_t count = kConvolved.back() * channels;
      const std::vector<float> x = Random(count, 1), taps = Random(width * channels, 2), grad_y = Random(count, 3);
      const ConvolutionResult got(x, taps, grad_y, channels, width, kConvolved);
      const std::vector<double> wide_x = Wide(x), wide_taps = Wide(taps);
      const ref::Convolution in{kConvolved, channels, width, wide_x, wide_taps};
      const std::vector<double> y = ref::Convolve(in);
      const ref::ConvolutionGradients grads = ref::ConvolveGradient(in, Wide(grad_y));
      EXPECT_THAT(got.y, WithinRounding(y, OfLargest(y, 9 * kFloatEps)));
      EXPECT_THAT(got.grad_x, WithinRounding(grads.x, OfLargest(grads.x, 9 * kFloatEps)));
      const std::vector<double> abs_x = Absolute(x);
      std::vector<double> sizes =
          ref::ConvolveGradient({kConvolved, channels, width, abs_x, wide_taps}, Absolute(grad_y)).taps;
      for (double& size : sizes) size *= 70 * kFloatEps;
      EXPECT_THAT(got.grad_taps, WithinRounding(grads.taps, sizes));
    }
}

TEST(SequencesThreads, ConvolutionIsTheSameInABatchAndOnAnyNumberOfThreads) {
  constexpr int64_t kChannels = 40, kWidth = 5;
  const int64_t count = kConvolved.back() * kChannels;
  const std::vector<float> x = Random(count, 1), taps = Random(kWidth * kChannels, 2), grad_y = Random(count, 3);
  SetThreads(1);
  const ConvolutionResult alone(x, taps, grad_y, kChannels, kWidth, kConvolved);
  SetThreads(5);
  EXPECT_EQ(ConvolutionResult(x, taps, grad_y, kChannels, kWidth, kConvolved), alone);
  SetThreads(HardwareThreads());
  for (size_t b = 0; b + 1 < kConvolved.size(); ++b) {
    const auto own = [&](const std::vector<float>& all) {
      return std::vector<float>(all.begin() + kConvolved[b] * kChannels, all.begin() + kConvolved[b + 1] * kChannels);
    };
    const ConvolutionResult got(own(x), taps, own(grad_y), kChannels, kWidth,
                                Borders({kConvolved[b + 1] - kConvolved[b]}));
    EXPECT_EQ(got.y, own(alone.y)) << b;
    EXPECT_EQ(got.grad_x, own(alone.grad_x)) << b;
  }
}

const std::vector<int32_t> kSegmentBorders = Borders({1, 2, 12, 3, 1, 70, 5});

// Nothing is rounded: the oracle's numbers. Small integers, so that many are alike.
TEST_P(SequencesTest, MaximaOfSegments) {
  for (const int64_t columns : {1, 7, 16, 35})
    for (const bool ties : {false, true}) {
      SCOPED_TRACE(::testing::Message() << columns << " columns, ties " << ties);
      std::vector<float> x = Random(kSegmentBorders.back() * columns, 3);
      if (ties)
        for (float& value : x) value = std::max(0.0f, std::round(value));
      const int64_t segments = std::ssize(kSegmentBorders) - 1;
      std::vector<float> y(static_cast<size_t>(segments * columns)), grad_x(x.size());
      std::vector<int32_t> rows(y.size());
      MaxOfSegments(kSegmentBorders, columns, x.data(), y.data(), rows.data());
      const ref::SegmentMaxima want = ref::MaxOfSegments(kSegmentBorders, columns, Wide(x));
      EXPECT_EQ(Wide(y), want.y);
      EXPECT_EQ(rows, want.rows);
      const std::vector<float> grad_y = Random(segments * columns, 4);
      MaxOfSegmentsGradient(segments, columns, grad_y.data(), rows.data(), grad_x.data());
      std::vector<float> expected(x.size());
      for (size_t i = 0; i < rows.size(); ++i) expected[rows[i] * columns + i % columns] = grad_y[i];
      EXPECT_EQ(grad_x, expected);
    }
}

// A training run that has gone wrong must show it.
TEST_P(SequencesTest, NotANumberIsTheMaximum) {
  for (size_t place = 0; place < 3; ++place) {
    std::vector<float> x{1, 2, 3}, y(1);
    x[place] = kNotANumber;
    std::vector<int32_t> rows(1), borders{0, 3};
    MaxOfSegments(borders, 1, x.data(), y.data(), rows.data());
    EXPECT_TRUE(std::isnan(y[0])) << place;
    EXPECT_EQ(rows[0], static_cast<int32_t>(place));
  }
}

// Sums in double: a result is rounded once, a probability before it is used too.
TEST(SoftmaxPoolingKernel, ValuesAndGradients) {
  const std::vector<int32_t> borders = Borders({1, 7, 32, 2});
  for (const int64_t columns : {1, 9}) {
    const std::vector<float> scores = Random(borders.back(), 5, 3), x = Random(borders.back() * columns, 6),
                             grad_y = Random(4 * columns, 7);
    const std::vector<double> wide_scores = Wide(scores), wide_x = Wide(x), wide_grad = Wide(grad_y);
    const ref::PoolingInputs in{borders, columns, wide_scores, wide_x};
    const std::vector<double> want = ref::SoftmaxPooling(in);
    const ref::PoolingGradients grads = ref::SoftmaxPoolingGradient(in, wide_grad);
    for (const int threads : {1, 3}) {
      SetThreads(threads);
      std::vector<float> p(scores.size()), y(grad_y.size()), grad_scores(scores.size()), grad_x(x.size());
      SoftmaxPooling call{borders, columns, scores.data(), x.data(), p.data()};
      RunSoftmaxPooling(call, y.data());
      EXPECT_THAT(y, WithinRounding(want, OfLargest(x, 4 * kFloatEps)));
      call.scores = nullptr;
      RunSoftmaxPoolingGradient(call, grad_y.data(), grad_scores.data(), grad_x.data());
      EXPECT_THAT(grad_x, WithinRounding(grads.x, OfLargest(grad_y, 2 * kFloatEps)));
      EXPECT_THAT(grad_scores, WithinRounding(grads.scores, OfLargest(grad_y, 4.0 * kFloatEps * columns * 5)));
    }
    SetThreads(HardwareThreads());
    const auto loss = [&](const ref::PoolingInputs& at) {
      const std::vector<double> y = ref::SoftmaxPooling(at);
      double sum = 0;
      for (size_t i = 0; i < y.size(); ++i) sum += y[i] * wide_grad[i];
      return sum;
    };
    ExpectGradient(
        [&](const auto& moved) {
          return loss({borders, columns, moved, wide_x});
        },
        wide_scores, grads.scores, "scores");
    ExpectGradient(
        [&](const auto& moved) {
          return loss({borders, columns, wide_scores, moved});
        },
        wide_x, grads.x, "x");
  }
}

TEST(SequencesOracle, ConvolutionIsItsDefinition) {
  const std::vector<int32_t> borders{0, 4, 5};
  const std::vector<double> x = Wide(Random(5, 1)), w = Wide(Random(3, 2));
  const std::vector<double> y = ref::Convolve({borders, 1, 3, x, w});
  EXPECT_NEAR(y[0], w[1] * x[0] + w[2] * x[1], 1e-15);
  EXPECT_NEAR(y[2], w[0] * x[1] + w[1] * x[2] + w[2] * x[3], 1e-15);
  EXPECT_NEAR(y[3], w[0] * x[2] + w[1] * x[3], 1e-15);
  EXPECT_NEAR(y[4], w[1] * x[4], 1e-15);
}

TEST(SequencesOracle, ConvolutionHasTheGradientsOfFiniteDifferences) {
  const std::vector<int32_t> borders = Borders({4, 1, 3});
  const std::vector<double> x = Wide(Random(24, 1)), taps = Wide(Random(15, 2)), grad_y = Wide(Random(24, 3));
  const auto loss = [&](const ref::Convolution& in) {
    const std::vector<double> y = ref::Convolve(in);
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += y[i] * grad_y[i];
    return sum;
  };
  const ref::ConvolutionGradients grads = ref::ConvolveGradient({borders, 3, 5, x, taps}, grad_y);
  ExpectGradient([&](const auto& moved) { return loss({borders, 3, 5, moved, taps}); }, x, grads.x, "x");
  ExpectGradient([&](const auto& moved) { return loss({borders, 3, 5, x, moved}); }, taps, grads.taps, "taps");
}

}  // namespace
}  // namespace lshformer::testing
