// Rotary positions against double.
#include "kernels/rotary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "kernels/low_precision.h"
#include "kernels/ref/rotary.h"
#include "util/every_isa.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {
namespace {

constexpr Rotary kPlain{.theta = 10000};
constexpr Rotary kLinear{.theta = 500, .scaling = RotaryScaling::kLinear, .factor = 3};
constexpr Rotary kDynamic{.theta = 1000, .scaling = RotaryScaling::kDynamic, .factor = 4, .original = 50};

struct Angles {
  Angles(const Rotary& rotary, int head_dim, int64_t length) {
    const std::vector<float> frequencies = RotaryFrequencies(rotary, head_dim, length);
    cos.resize(static_cast<size_t>(length) * frequencies.size());
    sin.resize(cos.size());
    WriteRotaryAngles(frequencies, 0, length, cos.data(), sin.data());
  }
  std::vector<float> cos, sin;
};

// Positions to 9,000: the angle of the first pair is the position itself, and its cosine is right to the last bit of
// float32.
TEST(RotaryAngles, AreTheFormulasRounded) {
  for (const Rotary& rotary : {kPlain, kLinear, kDynamic})
    for (const int head_dim : {2, 6, 8, 64})
      for (const int64_t length : {1, 50, 51, 9000}) {
        if (head_dim == 2 && rotary.scaling == RotaryScaling::kDynamic) continue;  // d / (d − 2)
        const Angles got(rotary, head_dim, length);
        const int half = head_dim / 2;
        for (int64_t position = 0; position < length; position += 1 + length / 40) {
          for (int i = 0; i < half; ++i) {
            const double angle = ref::RotaryAngle(rotary, head_dim, length, position, i);
            ASSERT_NEAR(got.cos[position * half + i], std::cos(angle), kFloatEps) << position << ", " << i;
            ASSERT_NEAR(got.sin[position * half + i], std::sin(angle), kFloatEps) << position << ", " << i;
          }
        }
      }
}

// A sequence that θ is for turns as without scaling, a longer one more slowly.
TEST(RotaryAngles, GrowBeyondTheOriginalLengthAlone) {
  Rotary unscaled = kDynamic;
  unscaled.scaling = RotaryScaling::kNone;
  EXPECT_EQ(RotaryFrequencies(kDynamic, 64, 50), RotaryFrequencies(unscaled, 64, 50));
  const std::vector<float> grown = RotaryFrequencies(kDynamic, 64, 51), plain = RotaryFrequencies(unscaled, 64, 51);
  EXPECT_EQ(grown[0], 1);
  for (size_t i = 1; i < grown.size(); ++i) EXPECT_LT(grown[i], plain[i]);
}

TEST(RotaryAngles, AreWrittenInPiecesOnAnyThreads) {
  const std::vector<float> frequencies = RotaryFrequencies(kPlain, 16, 200);
  std::vector<float> cos(200 * 8), sin(cos), cos_again(cos), sin_again(cos);
  SetThreads(1);
  WriteRotaryAngles(frequencies, 0, 200, cos.data(), sin.data());
  SetThreads(3);
  WriteRotaryAngles(frequencies, 0, 70, cos_again.data(), sin_again.data());
  WriteRotaryAngles(frequencies, 70, 200, cos_again.data() + 70 * 8, sin_again.data() + 70 * 8);
  SetThreads(HardwareThreads());
  EXPECT_EQ(cos, cos_again);
  EXPECT_EQ(sin, sin_again);
}

class RotaryTest : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, RotaryTest, AllIsas(), NameOfIsa);

// Halves around the lanes of a vector, tokens around a piece of work; heads with room between them, which stays as it
// is. Turning back gives the numbers again.
TEST_P(RotaryTest, TurnsEveryHeadByItsPosition) {
  constexpr int kHeads = 3;
  for (const int head_dim : {2, 8, 32, 34, 66, 128})
    for (const int64_t tokens : {0, 1, 64, 70}) {
      SCOPED_TRACE(::testing::Message() << tokens << " tokens, heads of " << head_dim);
      const int half = head_dim / 2;
      const int64_t head_stride = head_dim + 3, token_stride = kHeads * head_stride + 5;
      std::vector<int32_t> positions(static_cast<size_t>(tokens));
      for (int64_t t = 0; t < tokens; ++t) positions[t] = static_cast<int32_t>(7 * t % 90);
      const Angles angles(kPlain, head_dim, 90);
      const std::vector<float> before = Random(tokens * token_stride, 1);
      std::vector<float> x = before;
      RotaryCall call{.tokens = tokens,
                      .heads = kHeads,
                      .head_dim = head_dim,
                      .x = {x.data(), token_stride, head_stride},
                      .positions = positions,
                      .cos = angles.cos.data(),
                      .sin = angles.sin.data()};
      Rotate(call);
      std::vector<double> heads, of_tokens;
      for (int64_t t = 0; t < tokens; ++t) {
        for (int h = 0; h < kHeads; ++h)
          for (int i = 0; i < head_dim; ++i) heads.push_back(before[t * token_stride + h * head_stride + i]);
        for (int i = 0; i < half; ++i) of_tokens.push_back(ref::RotaryAngle(kPlain, head_dim, 90, positions[t], i));
      }
      const std::vector<double> want = ref::Rotate(heads, of_tokens, kHeads, head_dim);
      std::vector<float> expected = before, turned;
      for (int64_t t = 0; t < tokens; ++t)
        for (int h = 0; h < kHeads; ++h)
          for (int i = 0; i < head_dim; ++i) {
            const int64_t at = t * token_stride + h * head_stride + i;
            turned.push_back(x[at]);
            expected[at] = x[at];
          }
      EXPECT_THAT(turned, WithinRounding(want, OfLargest(want, 4 * kFloatEps)));
      EXPECT_EQ(x, expected) << "what lies between heads is touched";
      call.back = true;
      Rotate(call);
      EXPECT_THAT(x, WithinRounding(Wide(before), OfLargest(Wide(before), 8 * kFloatEps)));
    }
}

// Into bfloat16: what turning in place gives, rounded, and the heads behind those as they are, rounded. The source
// stays.
TEST_P(RotaryTest, TurnsIntoRoundedRows) {
  constexpr int kHeads = 2, kBehind = 1, kAll = kHeads + kBehind;
  for (const int head_dim : {2, 8, 34, 64}) {
    constexpr int64_t kTokens = 70;
    SCOPED_TRACE(head_dim);
    std::vector<int32_t> positions(kTokens);
    std::iota(positions.begin(), positions.end(), 3);
    const Angles angles(kPlain, head_dim, kTokens + 3);
    const std::vector<float> before = Random(kTokens * kAll * head_dim, 1);
    std::vector<float> x = before, turned = before;
    RotaryCall call{.tokens = kTokens,
                    .heads = kHeads,
                    .head_dim = head_dim,
                    .x = {turned.data(), int64_t{kAll} * head_dim, head_dim},
                    .positions = positions,
                    .cos = angles.cos.data(),
                    .sin = angles.sin.data()};
    Rotate(call);
    std::vector<BFloat16> want(before.size()), got(before.size());
    RoundRows(turned.data(), kAll * head_dim, kTokens, kAll * head_dim, want.data());
    call.x.data = x.data();
    call.rounded = {got.data(), int64_t{kAll} * head_dim, head_dim};
    call.plain = kBehind;
    Rotate(call);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i].bits, want[i].bits) << i;
    EXPECT_EQ(x, before);
  }
}

// Turning back is the gradient: ⟨turn(x), g⟩ = ⟨x, turn back(g)⟩.
TEST(RotaryGradient, IsTurningBack) {
  constexpr int kHeadDim = 10;
  const Angles angles(kPlain, kHeadDim, 20);
  std::vector<int32_t> positions(20);
  std::iota(positions.begin(), positions.end(), 0);
  const std::vector<float> x = Random(20 * kHeadDim, 1), g = Random(20 * kHeadDim, 2);
  const auto turned = [&](std::vector<float> rows, bool back) {
    Rotate({20, 1, kHeadDim, {rows.data(), kHeadDim, kHeadDim}, positions, angles.cos.data(), angles.sin.data(), back});
    return rows;
  };
  const std::vector<float> y = turned(x, false), grad = turned(g, true);
  double left = 0, right = 0;
  for (size_t i = 0; i < x.size(); ++i) left += double{y[i]} * g[i], right += double{x[i]} * grad[i];
  EXPECT_NEAR(left, right, 1e-4);
}

}  // namespace
}  // namespace lshformer::testing
