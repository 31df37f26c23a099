// The products of a linear map in training and the masked-LM loss against double.
#include "kernels/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/decoder_cross_entropy.h"
#include "kernels/low_precision.h"
#include "kernels/matmul.h"
#include "kernels/precision.h"
#include "kernels/ref/cross_entropy.h"
#include "kernels/ref/matmul.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {
namespace {

std::vector<BFloat16> RoundedNumbers(const std::vector<float>& x) {
  std::vector<BFloat16> rounded(x.size());
  RoundRows(x.data(), std::ssize(x), 1, std::ssize(x), rounded.data());
  return rounded;
}
std::vector<float> Unrounded(const std::vector<BFloat16>& x) {
  std::vector<float> numbers(x.size());
  std::transform(x.begin(), x.end(), numbers.begin(), ToFloat);
  return numbers;
}

// c = a·b (+ bias) of factors [rows, inner] and [inner, columns] that are seen through functions.
template <class A, class B>
void ExpectIsProduct(const std::vector<float>& c, int64_t rows, int64_t columns, int64_t inner, const A& a, const B& b,
                     const std::vector<float>& bias, const char* what) {
  ref::ProductSums want = ref::Multiply(rows, columns, inner, a, b);
  for (int64_t i = 0; i < rows * columns; ++i) {
    const double added = bias.empty() ? 0 : bias[i % columns];
    want.sums[i] += added;
    want.sizes[i] = static_cast<double>(inner + 2) * kFloatEps * (want.sizes[i] + std::abs(added));
  }
  EXPECT_THAT(c, WithinRounding(want.sums, want.sizes)) << what;
}

// T: of the factors; x, w and g are what they hold.
template <class T>
void ExpectIsLinearMap(const LinearShape& s, const std::vector<T>& x, const std::vector<T>& w, const std::vector<T>& g,
                       const std::vector<float>& wide_x, const std::vector<float>& wide_w,
                       const std::vector<float>& wide_g) {
  const std::vector<float> bias = Random(s.out, 4);
  std::vector<float> y(static_cast<size_t>(s.rows * s.out)), grad_x(x.size()), grad_w(w.size(), 9.0f);
  LinearForward(s, x.data(), w.data(), bias.data(), y.data());
  LinearInputGradient(s, g.data(), w.data(), grad_x.data());
  LinearWeightGradient(s, g.data(), x.data(), grad_w.data());
  const auto of_x = [&](int64_t row, int64_t k) { return double{wide_x[row * s.in + k]}; };
  const auto of_w = [&](int64_t j, int64_t k) { return double{wide_w[j * s.in + k]}; };
  const auto of_g = [&](int64_t row, int64_t j) { return double{wide_g[row * s.out + j]}; };
  ExpectIsProduct(
      y, s.rows, s.out, s.in, of_x, [&](int64_t k, int64_t j) { return of_w(j, k); }, bias, "y");
  ExpectIsProduct(grad_x, s.rows, s.in, s.out, of_g, of_w, {}, "grad_x");
  ExpectIsProduct(
      grad_w, s.out, s.in, s.rows, [&](int64_t j, int64_t row) { return of_g(row, j); }, of_x, {}, "grad_w");
}

TEST(LinearProducts, AgreeWithDouble) {
  for (const LinearShape& s : {LinearShape{1, 1, 1}, {5, 40, 23}, {130, 17, 70}, {0, 7, 5}}) {
    SCOPED_TRACE(::testing::Message() << s.rows << " rows, " << s.out << " from " << s.in);
    const std::vector<float> x = Random(s.rows * s.in, 1), w = Random(s.out * s.in, 2), g = Random(s.rows * s.out, 3);
    ExpectIsLinearMap(s, x, w, g, x, w, g);
    if (!SupportsProducts(Precision::kBFloat16)) continue;
    const auto low_x = RoundedNumbers(x), low_w = RoundedNumbers(w), low_g = RoundedNumbers(g);
    ExpectIsLinearMap(s, low_x, low_w, low_g, Unrounded(low_x), Unrounded(low_w), Unrounded(low_g));
  }
}

struct DecoderCase {
  DecoderCase(int64_t rows, int64_t columns, int64_t words)
      : columns(columns),
        words(words),
        hidden(Random(rows * columns, 1)),
        weight(Random(words * columns, 2)),
        bias(Random(words, 3)) {
    for (int64_t i = 0; i < rows; ++i) labels.push_back(static_cast<int32_t>(i * 911 % words));
  }
  DecoderLoss<float> Call() const { return {hidden.data(), weight.data(), bias.data(), columns, words, labels}; }
  ref::DecoderResult Oracle() const {
    const std::vector<double> h = Wide(hidden), w = Wide(weight), b = Wide(bias);
    return ref::DecoderCrossEntropy({columns, words, h, w, b, labels});
  }
  int64_t columns, words;
  std::vector<float> hidden, weight, bias;
  std::vector<int32_t> labels;
};

// Around a block of words, and more rows than one block of logits holds.
TEST(DecoderLossKernel, ValueAndGradients) {
  for (const auto& [rows, words] :
       {std::pair<int64_t, int64_t>{1, 3}, {7, 2048}, {9, 2051}, {0, 5}, {kCrossEntropyRows + 5, 9}}) {
    SCOPED_TRACE(::testing::Message() << rows << " rows, " << words << " words");
    const DecoderCase c(rows, 12, words);
    const ref::DecoderResult want = c.Oracle();
    for (const int threads : {1, 3}) {
      SetThreads(threads);
      std::vector<float> hidden(c.hidden.size(), 9.0f), weight(c.weight.size(), 9.0f), bias(c.bias.size(), 9.0f);
      const DecoderGradients gradients{hidden.data(), weight.data(), bias.data()};
      EXPECT_NEAR(RunDecoderLoss(c.Call(), &gradients), want.loss, 2e-6 * want.loss);
      EXPECT_THAT(hidden, WithinRounding(want.hidden, OfLargest(want.hidden, 1e-5)));
      EXPECT_THAT(weight, WithinRounding(want.weight, OfLargest(want.weight, 1e-5)));
      EXPECT_THAT(bias, WithinRounding(want.bias, OfLargest(want.bias, 1e-5)));
      EXPECT_EQ(RunDecoderLoss(c.Call(), nullptr), RunDecoderLoss(c.Call(), &gradients));
    }
    SetThreads(HardwareThreads());
  }
}

TEST(DecoderLossKernel, OracleHasTheGradientsOfFiniteDifferences) {
  const DecoderCase c(3, 4, 5);
  const ref::DecoderResult want = c.Oracle();
  const std::vector<double> h = Wide(c.hidden), w = Wide(c.weight), b = Wide(c.bias);
  const auto loss = [&](std::span<const double> hidden, std::span<const double> weight, std::span<const double> bias) {
    return ref::DecoderCrossEntropy({4, 5, hidden, weight, bias, c.labels}).loss;
  };
  ExpectGradient([&](const auto& moved) { return loss(moved, w, b); }, h, want.hidden, "hidden");
  ExpectGradient([&](const auto& moved) { return loss(h, moved, b); }, w, want.weight, "weight");
  ExpectGradient([&](const auto& moved) { return loss(h, w, moved); }, b, want.bias, "bias");
}

}  // namespace
}  // namespace lshformer::testing
