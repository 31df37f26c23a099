// Attention in AMX tiles with each factor in two parts (Operands::kTwoParts), in the tiles' model; and the model
// beside the instructions, where there are some.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "kernels/attention_case.h"
#include "kernels/attention_specs.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/execution.h"
#include "kernels/isa.h"
#include "util/sanitized.h"

namespace lshformer::testing {
namespace {

class InModel : public ::testing::Test {
 protected:
  void SetUp() override { UseAmxModel(true); }
  void TearDown() override {
    UseAmxModel(false);
    ForceIsa("auto");
    SetThreads(HardwareThreads());
  }
  static AttentionResult Run(AttentionCase c, Operands operands) {
    c.operands = operands;
    return RunKernels(c);
  }
};

class TwoParts : public InModel, public ::testing::WithParamInterface<AttentionSpec> {};
INSTANTIATE_TEST_SUITE_P(Kinds, TwoParts, ::testing::ValuesIn(FewerIfSanitized(AllSpecs(), 5)),
                         [](const auto& info) { return NameOf(info.param); });
INSTANTIATE_TEST_SUITE_P(Clustered, TwoParts, ::testing::ValuesIn(FewerIfSanitized(ClusteredSpecs(), 5)),
                         [](const auto& info) { return NameOf(info.param); });

double Largest(const std::vector<float>& x) {
  double largest = 0;
  for (const float number : x) largest = std::max(largest, std::abs(double{number}));
  return largest;
}
double Difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  return largest;
}

TEST_P(TwoParts, IsNearFloat32) {
  for (const std::string& isa : {SupportedIsas().front(), SupportedIsas().back()}) {
    for (const int head_dim : kSanitized ? std::vector{33} : std::vector{1, 33, 64}) {
      SCOPED_TRACE(::testing::Message() << isa << ", head_dim " << head_dim);
      ForceIsa(isa);
      UseAmxModel(true);
      AttentionCase c = RandomCase(GetParam(), {1, 31, 64, 65, 197}, 2, head_dim);
      c.dropout = isa == SupportedIsas().front() ? 0 : 0.3f;
      const AttentionResult parts = Run(c, Operands::kTwoParts), whole = Run(c, Operands::kFloat32),
                            rounded = Run(c, Operands::kBFloat16);
      EXPECT_LT(Difference(parts.out, whole.out), 1e-4 * Largest(whole.out));
      EXPECT_LT(Difference(parts.lse, whole.lse), 1e-4 * Largest(whole.lse));
      EXPECT_GT(Difference(parts.out, whole.out), 0) << "not in tiles";
      EXPECT_LT(20 * Difference(parts.out, whole.out), Difference(rounded.out, whole.out));
      EXPECT_LT(Difference(parts.grad_query, whole.grad_query), 5e-4 * (Largest(whole.grad_query) + 1));
      EXPECT_LT(Difference(parts.grad_key, whole.grad_key), 5e-4 * (Largest(whole.grad_key) + 1));
      EXPECT_LT(Difference(parts.grad_value, whole.grad_value), 5e-4 * Largest(whole.grad_value));
    }
  }
}

// A sequence under a head that holds a number without parts is what float32 gives, bit for bit; the others are as
// without it.
TEST_P(TwoParts, SequencesWithoutPartsAreFloat32s) {
  const AttentionCase plain = RandomCase(GetParam(), {70, 40, 130}, 2, 40);
  const AttentionResult before = Run(plain, Operands::kTwoParts);
  for (const float number :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 0x1p56f}) {
    if (kSanitized && std::isfinite(number)) continue;
    for (const bool in_value : {false, true}) {
      AttentionCase c = plain;
      const int64_t row = 80, head = 1;  // of the second sequence
      (in_value ? c.value : c.query)[(row * 2 + head) * 40 + 39] = number;
      const AttentionResult got = Run(c, Operands::kTwoParts), whole = Run(c, Operands::kFloat32);
      for (int64_t i = 0; i < std::ssize(got.out); ++i) {
        const int64_t token = i / 80;
        const bool odd = token >= 70 && token < 110 && i / 40 % 2 == head;
        const float want = odd ? whole.out[i] : before.out[i];
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(got.out[i])) << number << " " << i;
        } else {
          ASSERT_EQ(got.out[i], want) << number << " " << i;
        }
      }
    }
  }
}

TEST_P(TwoParts, AloneOrInABatchOnAnyNumberOfThreads) {
  const AttentionCase c = RandomCase(GetParam(), {70, 40, 130}, 2, 40);
  SetThreads(1);
  const AttentionResult one = Run(c, Operands::kTwoParts);
  SetThreads(3);
  EXPECT_EQ(Run(c, Operands::kTwoParts).out, one.out);
  for (size_t b = 0; b < 3; ++b) {
    const AttentionResult alone = Run(Alone(c, b), Operands::kTwoParts);
    EXPECT_EQ(alone.out,
              std::vector<float>(one.out.begin() + c.cu_seqlens[b] * 80, one.out.begin() + c.cu_seqlens[b + 1] * 80));
  }
}

TEST_F(InModel, TwoPartsOfASequenceThatAllThreadsShare) {
  const AttentionCase c = RandomCase(AttentionSpec{}, {300, 40, 1100}, 2, 64);  // the last
  SetThreads(1);
  const AttentionResult one = Run(c, Operands::kTwoParts);
  SetThreads(3);
  EXPECT_EQ(Run(c, Operands::kTwoParts), one);
  const auto begin = one.out.begin() + int64_t{c.cu_seqlens[2]} * 128;
  EXPECT_EQ(Run(Alone(c, 2), Operands::kTwoParts).out, std::vector<float>(begin, one.out.end()));
}

// The instructions give what the model gives, forward and backward.
TEST_P(TwoParts, IsTheSameInTheModelAndTheInstructions) {
  if (!WhyNoAmx().empty()) GTEST_SKIP() << WhyNoAmx();
  for (const Operands operands : {Operands::kBFloat16, Operands::kTwoParts}) {
    for (const float dropout : {0.0f, 0.3f}) {
      AttentionCase c = RandomCase(GetParam(), {1, 31, 64, 65, 197}, 2, 40);
      c.dropout = dropout;
      UseAmxModel(true);
      const AttentionResult model = Run(c, operands);
      UseAmxModel(false);
      ASSERT_EQ(ActiveAmxTiles(), AmxTiles::kInstructions);
      const AttentionResult instructions = Run(c, operands);
      EXPECT_EQ(instructions.out, model.out) << Name(operands);
      EXPECT_EQ(instructions.lse, model.lse) << Name(operands);
      EXPECT_EQ(instructions.grad_query, model.grad_query) << Name(operands);
      EXPECT_EQ(instructions.grad_key, model.grad_key) << Name(operands);
      EXPECT_EQ(instructions.grad_value, model.grad_value) << Name(operands);
    }
  }
}

TEST(AttentionInParts, NeedsTiles) {
  ForceIsa(SupportedIsas().back());
  EXPECT_FALSE(Supports(Operands::kTwoParts));
  UseAmxModel(true);
  EXPECT_TRUE(Supports(Operands::kTwoParts));
  UseAmxModel(false);
  ForceIsa("auto");
}

}  // namespace
}  // namespace lshformer::testing
