// Attention in matrix tiles with each factor in two or three parts (Operands), in the tiles' model; and the model
// beside the instructions, where there are some.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "kernels/attention.h"
#include "kernels/attention_case.h"
#include "kernels/attention_specs.h"
#include "kernels/cpu/matrix_tiles.h"
#include "util/sanitized.h"

namespace lshformer::testing {
namespace {

class InModel : public ::testing::Test {
 protected:
  void SetUp() override { UseTileModel(true); }
  void TearDown() override {
    UseTileModel(false);
    ForceIsa("auto");
    SetThreads(HardwareThreads());
  }
  static AttentionResult Run(AttentionCase c, Operands operands) {
    c.operands = operands;
    return RunKernels(c);
  }
};

// Under a sanitizer one of four: tests of bfloat16 take all of them through the same code.
std::vector<AttentionSpec> Some(std::vector<AttentionSpec> specs) {
  if (!kSanitized) return specs;
  std::vector<AttentionSpec> some;
  for (size_t i = 0; i < specs.size(); i += 4) some.push_back(specs[i]);
  return some;
}

class TwoParts : public InModel, public ::testing::WithParamInterface<AttentionSpec> {};
INSTANTIATE_TEST_SUITE_P(Kinds, TwoParts, ::testing::ValuesIn(Some(AllSpecs())),
                         [](const auto& info) { return NameOf(info.param); });
INSTANTIATE_TEST_SUITE_P(Clustered, TwoParts, ::testing::ValuesIn(Some(ClusteredSpecs())),
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
      UseTileModel(true);
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

// Three parts are no less accurate than multiply-add, where they are taken.
struct Errors {
  double largest = 0, root_mean_square = 0;
};
Errors ErrorsOf(const std::vector<float>& x, const std::vector<double>& exact) {
  Errors errors;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = std::abs(x[i] - exact[i]);
    errors.largest = std::max(errors.largest, error);
    errors.root_mean_square += error * error / static_cast<double>(x.size());
  }
  errors.root_mean_square = std::sqrt(errors.root_mean_square);
  return errors;
}

// Of each kind some in which a key meets so many queries that they pay.
std::vector<AttentionSpec> SpecsThatPay() {
  std::vector<AttentionSpec> specs{AttentionSpec{},
                                   SimHash(Pairs::kFull, Fill::kMean, 1, 2),
                                   SimHash(Pairs::kReference, Fill::kZero, 1, 1),
                                   Sorted(Fill::kMean, 1),
                                   Reformer(2),
                                   WithAlways(Reformer(3), 3, true, true),
                                   Clustered(64, 14, 1),
                                   WithAlways(Clustered(32, 28, 1), 2, true, true)};
  As<ReformerAttention>(specs[5]).count_pairs_once = true;
  for (AttentionSpec& spec : specs) SetChunk(spec, 256);
  return specs;
}

class ThreeParts : public InModel, public ::testing::WithParamInterface<AttentionSpec> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ThreeParts, ::testing::ValuesIn(SpecsThatPay()),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(ThreeParts, AreAsAccurateAsFloat32) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer: ThreePartsOfSomeSequencesOfABatch runs the same, on less";
  for (const float dropout : {0.0f, 0.3f}) {
    AttentionCase c = RandomCase(GetParam(), {Is<DenseAttention>(GetParam()) ? 520 : 1216}, 1, 64);
    c.dropout = dropout;
    const AttentionResult parts = Run(c, Operands::kThreeParts), whole = Run(c, Operands::kFloat32);
    EXPECT_NE(parts.out, whole.out) << "not in tiles";
    EXPECT_NE(parts.grad_value, whole.grad_value) << "not in tiles";
    const auto& [exact, gradients] = ExpectedOf(c).oracle;
    const Errors of_parts = ErrorsOf(parts.out, exact.out), of_whole = ErrorsOf(whole.out, exact.out);
    EXPECT_LE(of_parts.root_mean_square, 1.05 * of_whole.root_mean_square);
    EXPECT_LE(of_parts.largest, 1.05 * of_whole.largest);
    EXPECT_LE(ErrorsOf(parts.lse, exact.lse).largest, 1.2 * ErrorsOf(whole.lse, exact.lse).largest);
    EXPECT_LE(ErrorsOf(parts.grad_query, gradients.query).root_mean_square,
              1.05 * ErrorsOf(whole.grad_query, gradients.query).root_mean_square);
    EXPECT_LE(ErrorsOf(parts.grad_value, gradients.value).root_mean_square,
              1.05 * ErrorsOf(whole.grad_value, gradients.value).root_mean_square);
    if (!c.SharedKeys()) {
      EXPECT_LE(ErrorsOf(parts.grad_key, gradients.key).root_mean_square,
                1.05 * ErrorsOf(whole.grad_key, gradients.key).root_mean_square);
    }
    RecordProperty(
        dropout > 0 ? "dropout" : "plain",
        fmt::format("largest and rms error: three parts {:.2e} {:.2e}, multiply-add {:.2e} {:.2e}", of_parts.largest,
                    of_parts.root_mean_square, of_whole.largest, of_whole.root_mean_square));
  }
}

TEST_P(TwoParts, ThreeOfShortSequencesAreFloat32) {
  const AttentionCase c = RandomCase(GetParam(), {1, 31, 100}, 2, 64);
  EXPECT_EQ(Run(c, Operands::kThreeParts), Run(c, Operands::kFloat32));
}

TEST_F(InModel, ThreePartsOfSomeSequencesOfABatch) {
  const AttentionCase plain = RandomCase(AttentionSpec{}, {300, 100, 310}, 2, 64);
  const AttentionResult before = Run(plain, Operands::kThreeParts), float32 = Run(plain, Operands::kFloat32);
  const auto of = [](const std::vector<float>& out, int64_t token, int64_t head) {
    const auto at = out.begin() + (token * 2 + head) * 64;
    return std::vector<float>(at, at + 64);
  };
  EXPECT_NE(of(before.out, 10, 0), of(float32.out, 10, 0));
  EXPECT_EQ(of(before.out, 350, 0), of(float32.out, 350, 0)) << "100 tokens do not pay";
  for (const float number : {std::numeric_limits<float>::quiet_NaN(), 0x1p56f, -0x1p-101f}) {
    AttentionCase c = plain;
    c.value[(410 * 2 + 1) * 64 + 63] = number;  // of the third sequence's second head
    const AttentionResult got = Run(c, Operands::kThreeParts), whole = Run(c, Operands::kFloat32);
    EXPECT_EQ(of(got.out, 10, 1), of(before.out, 10, 1)) << number;
    EXPECT_EQ(of(got.out, 500, 0), of(before.out, 500, 0)) << number;
    EXPECT_EQ(std::isnan(number), std::isnan(got.out[(500 * 2 + 1) * 64 + 63])) << number;
    if (!std::isnan(number)) {
      EXPECT_EQ(of(got.out, 500, 1), of(whole.out, 500, 1)) << number;
    }
  }
  AttentionCase held = plain;
  held.value[(410 * 2 + 1) * 64 + 63] = 0x1p-100f;
  EXPECT_NE(of(Run(held, Operands::kThreeParts).out, 500, 1), of(Run(held, Operands::kFloat32).out, 500, 1));
}

TEST_F(InModel, ThreePartsAloneOrInABatchOnAnyNumberOfThreads) {
  const AttentionCase c = RandomCase(AttentionSpec{}, {300, 40, 1100}, 2, 64);  // the last is all threads' together
  SetThreads(1);
  const AttentionResult one = Run(c, Operands::kThreeParts);
  SetThreads(3);
  EXPECT_EQ(Run(c, Operands::kThreeParts), one);
  const auto begin = one.out.begin() + int64_t{c.cu_seqlens[2]} * 128;
  EXPECT_EQ(Run(Alone(c, 2), Operands::kThreeParts).out, std::vector<float>(begin, one.out.end()));
}

// The instructions give what the model gives, forward and backward.
TEST_P(TwoParts, IsTheSameInTheModelAndTheInstructions) {
  if (!WhyNoTiles().empty()) GTEST_SKIP() << WhyNoTiles();
  for (const Operands operands : {Operands::kBFloat16, Operands::kTwoParts, Operands::kThreeParts}) {
    for (const float dropout : {0.0f, 0.3f}) {
      AttentionCase c = RandomCase(GetParam(), {1, 31, 64, 65, 197}, 2, 40);
      if (operands == Operands::kThreeParts) c = RandomCase(GetParam(), {400}, 1, 64);
      c.dropout = dropout;
      UseTileModel(true);
      const AttentionResult model = Run(c, operands);
      UseTileModel(false);
      ASSERT_EQ(ActiveMatrixTiles(), MatrixTiles::kInstructions);
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
  EXPECT_FALSE(Supports(Operands::kThreeParts));
  UseTileModel(true);
  EXPECT_TRUE(Supports(Operands::kTwoParts));
  EXPECT_TRUE(Supports(Operands::kThreeParts));
  UseTileModel(false);
  ForceIsa("auto");
}

// From which length on exact attention is in three parts, and chunks of Reformer.
TEST(AttentionInParts, ThreePayWhereAKeyMeetsManyQueries) {
  const auto pays = [](int head_dim, int64_t length, int64_t met, int rounds = 1, double filled = 1) {
    const int64_t pairs = length * rounds * met;
    const auto in_tiles = static_cast<int64_t>(filled * static_cast<double>(pairs));
    return PaysInThreeParts({head_dim, length * rounds, pairs, in_tiles});
  };
  EXPECT_FALSE(pays(64, 128, 128));
  EXPECT_TRUE(pays(64, 256, 256));
  EXPECT_FALSE(pays(32, 256, 256));
  EXPECT_TRUE(pays(32, 512, 512));
  EXPECT_TRUE(pays(128, 256, 256));
  EXPECT_FALSE(pays(40, 16384, 16384));  // filled up to 64
  EXPECT_FALSE(pays(64, 4096, 128, 4));  // chunks of 64, one back
  EXPECT_TRUE(pays(64, 4096, 256, 4));
  EXPECT_FALSE(pays(64, 1, 1));
  EXPECT_TRUE(pays(64, 4096, 1024));
  EXPECT_FALSE(pays(64, 4096, 1024, 1, 1.5));  // half as much again fills up tiles
}

}  // namespace
}  // namespace lshformer::testing
