// Rows in bfloat16 in place of float32: inputs give what the numbers give that they were rounded from, and an output,
// which is in AMX tiles alone, is the one in float32, rounded. Bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/attention_case.h"
#include "kernels/every_isa.h"
#include "util/errors.h"
#include "util/sanitized.h"

namespace lshformer::testing {
namespace {

BFloat16 Rounded(float x) {
  return {std::isnan(x) ? uint16_t{0x7FC0}
                        : static_cast<uint16_t>(std::bit_cast<uint32_t>(RoundedToBFloat16(x)) >> 16)};
}

// Tokens lie a few numbers further apart than their rows are long.
constexpr int64_t kGap = 3;
constexpr uint16_t kUntouched = 0xABCD;

struct Rows {
  Rows(const AttentionCase& c, const std::vector<float>& from)
      : row(int64_t{c.heads} * c.head_dim), numbers(c.tokens() * (row + kGap), BFloat16{kUntouched}) {
    for (size_t i = 0; i < from.size(); ++i) numbers[i / row * (row + kGap) + i % row] = Rounded(from[i]);
  }
  std::vector<uint16_t> Bits() const {
    std::vector<uint16_t> bits;
    for (const BFloat16 number : numbers) bits.push_back(number.bits);
    return bits;
  }
  int64_t row;
  std::vector<BFloat16> numbers;
};

enum class Inputs { kFloat32, kBFloat16 };

bool OutputMayBeRounded() { return ActiveAmxTiles() != AmxTiles::kNone; }

// Returns the output, rounded by the call itself or behind it, and lse, which is float32 either way.
std::pair<std::vector<uint16_t>, std::vector<float>> RunRounded(const AttentionCase& c, Inputs inputs,
                                                                bool rounds_output = OutputMayBeRounded()) {
  const Rows query(c, c.query), key(c, c.key), value(c, c.value);
  Rows out(c, {});
  std::vector<float> lse(c.tokens() * c.heads, NAN);
  const PlannedAttention planned = PlanOf(c);
  AttentionForward call;
  call.shape = c.shape();
  const auto exact = [&](const std::vector<float>& x) {
    return HeadTensor<const float>{x.data(), out.row, c.head_dim};
  };
  const auto rounded = [&](const Rows& x) {
    return HeadTensor<const BFloat16>{x.numbers.data(), x.row + kGap, c.head_dim};
  };
  if (inputs == Inputs::kFloat32) {
    call.query = exact(c.query);
    if (!c.SharedKeys()) call.key = exact(c.key);
    call.value = exact(c.value);
  } else {
    call.rounded_query = rounded(query);
    call.rounded_key = rounded(key);
    call.rounded_value = rounded(value);
  }
  std::vector<float> unrounded(c.tokens() * out.row);
  if (rounds_output) {
    call.rounded_out = {out.numbers.data(), out.row + kGap, c.head_dim};
  } else {
    call.out = {unrounded.data(), out.row, c.head_dim};
  }
  call.lse = lse.data();
  call.scale = c.Scale();
  call.plan = planned.plan.get();
  call.centroids = planned.centroids.get();
  call.dropout = c.Dropout();
  call.operands = c.operands;
  RunAttentionForward(call);
  return {(rounds_output ? out : Rows(c, unrounded)).Bits(), lse};
}

void ExpectSame(const AttentionCase& c, Inputs inputs) {
  const AttentionResult want = RunKernels(c, /*backward=*/false);
  const auto [out, lse] = RunRounded(c, inputs);
  EXPECT_EQ(out, Rows(c, want.out).Bits());
  ASSERT_EQ(lse.size(), want.lse.size());
  for (size_t i = 0; i < lse.size(); ++i)
    EXPECT_TRUE(lse[i] == want.lse[i] || (std::isnan(lse[i]) && std::isnan(want.lse[i]))) << i;
}

std::vector<AttentionSpec> Specs() {
  std::vector<AttentionSpec> specs = AllSpecs();
  const std::vector<AttentionSpec> clustered = ClusteredSpecs();
  specs.insert(specs.end(), clustered.begin(), clustered.end());
  return specs;
}

class RoundedRows : public IsaFixture {
 protected:
  void TearDown() override {
    SetThreads(HardwareThreads());
    IsaFixture::TearDown();
  }
};
std::vector<std::string> EveryAmx() {
  std::vector<std::string> names{kAmxName, kAmxModelName};
  if (!kSanitized) names.push_back(kLeastAmxModelName);
  return names;
}
INSTANTIATE_TEST_SUITE_P(EveryMode, RoundedRows,
                         ::testing::Combine(::testing::ValuesIn(FewerIfSanitized(Specs(), 3)),
                                            ::testing::ValuesIn(EveryAmx())),
                         NameOfSpecAndIsa);

// Numbers that have to be rounded: not as WithOperands has them.
AttentionCase Unrounded(const AttentionSpec& spec, const std::vector<int>& lengths, int head_dim) {
  AttentionCase c = RandomCase(spec, lengths, 2, head_dim, 21);
  c.operands = Operands::kBFloat16;
  return c;
}

TEST_P(RoundedRows, OutputIsThatInFloat32Rounded) {
  for (const int head_dim : kSanitized ? std::vector{20} : std::vector{1, 20, 64}) {
    SCOPED_TRACE(head_dim);
    AttentionCase c = Unrounded(spec(), {3, 0, 70, 1, 130}, head_dim);
    ExpectSame(c, Inputs::kFloat32);
    c.dropout = 0.2f;
    ExpectSame(c, Inputs::kFloat32);
  }
}

TEST_P(RoundedRows, NumbersThatAreNotFiniteAreRoundedToo) {
  AttentionCase c = Unrounded(spec(), {90}, 20);
  c.value[17 * 40 + 3] = NAN;
  c.value[40 * 40 + 5] = -std::numeric_limits<float>::max();  // infinite once rounded
  c.value[60 * 40 + 30] = INFINITY;
  ExpectSame(c, Inputs::kFloat32);
}

// Exact attention, by itself and of sequences too short to be hashed.
class RoundedInputs : public RoundedRows {};
INSTANTIATE_TEST_SUITE_P(Exact, RoundedInputs,
                         ::testing::Combine(::testing::Values(AttentionSpec{}),
                                            ::testing::Values(kBFloat16Name, kAmxName, kAmxModelName,
                                                              kLeastAmxModelName)),
                         NameOfSpecAndIsa);

TEST_P(RoundedInputs, GiveWhatUnroundedOnesGive) {
  for (const int head_dim : {1, 2, 20, 33, 64, 256}) {
    SCOPED_TRACE(head_dim);
    AttentionCase c = Unrounded(spec(), {3, 0, 70, 1, 130}, head_dim);
    ExpectSame(c, Inputs::kBFloat16);
    c.dropout = 0.2f;
    ExpectSame(c, Inputs::kBFloat16);
  }
}

TEST_P(RoundedInputs, MayBeInfiniteOrNoNumbers) {
  // All bits of a NaN are ones: rounded as a number it would be −0. One bit: infinity.
  const auto ones = std::bit_cast<float>(0x7FFFFFFF), one = std::bit_cast<float>(0x7F800001);
  for (const float odd : {NAN, ones, one, INFINITY, -INFINITY, std::numeric_limits<float>::max(), 1e-40f}) {
    for (const int tensor : {0, 1, 2}) {
      SCOPED_TRACE(std::to_string(odd) + " in tensor " + std::to_string(tensor));
      AttentionCase c = Unrounded(spec(), {90, 12}, 20);
      std::vector<float>* tensors[] = {&c.query, &c.key, &c.value};
      (*tensors[tensor])[17 * 40 + 19] = odd;
      ExpectSame(c, Inputs::kBFloat16);
    }
  }
}

// One sequence that all threads share.
TEST_P(RoundedInputs, ThreadsChangeNothing) {
  AttentionCase c = Unrounded(spec(), {30, 1250}, 8);
  SetThreads(1);
  const auto one = RunRounded(c, Inputs::kBFloat16);
  SetThreads(3);
  EXPECT_EQ(RunRounded(c, Inputs::kBFloat16), one);
}

TEST(RoundedRowsOfKinds, ThreadsChangeNothing) {
  UseAmxModel(true);
  for (AttentionSpec spec : {SimHash(Pairs::kFull, Fill::kNone, 3), Reformer(2)}) {
    SetChunk(spec, 500);
    AttentionCase c = Unrounded(spec, {30, 1250}, 8);
    for (std::vector<int32_t>* buckets : {&c.buckets.query, &c.buckets.key})
      for (int32_t& bucket : *buckets) bucket %= 2;
    SetThreads(1);
    const auto one = RunRounded(c, Inputs::kFloat32);
    SetThreads(3);
    EXPECT_EQ(RunRounded(c, Inputs::kFloat32), one) << NameOf(spec);
    SetThreads(HardwareThreads());
  }
  UseAmxModel(false);
}

TEST(RoundedRowsOfFloat32Products, AreRefused) {
  const AttentionCase c = RandomCase(AttentionSpec{}, {5}, 1, 8);
  EXPECT_THROW(RunRounded(c, Inputs::kBFloat16, /*rounds_output=*/false), Error);
  EXPECT_THROW(RunRounded(c, Inputs::kFloat32, /*rounds_output=*/true), Error);
}

TEST(RoundedRowsWithoutAmx, AreNoOutput) {
  if (OutputMayBeRounded()) GTEST_SKIP() << "this machine has tiles";
  if (!Supports(Operands::kBFloat16)) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  const AttentionCase c = Unrounded(AttentionSpec{}, {5}, 8);
  EXPECT_THAT(ErrorOf([&] { RunRounded(c, Inputs::kBFloat16, /*rounds_output=*/true); }),
              ::testing::HasSubstr("results in bfloat16 are for products in AMX tiles"));
}

// Whatever reads numbers before they are rounded keeps them in float32.
TEST(OnlyMultiplies, WhereNothingIsHashedAndNoKeyNormalised) {
  const AttentionCase c = RandomCase(AttentionSpec{}, {49, 20}, 1, 8);
  EXPECT_TRUE(OnlyMultiplies(AttentionSpec{}, c.shape()));
  for (AttentionSpec spec : {SimHash(Pairs::kFull, Fill::kMean, 2), Clustered(8, 2, 4)}) {
    spec.min_length = 49;
    EXPECT_FALSE(OnlyMultiplies(spec, c.shape())) << NameOf(spec);
    spec.min_length = 50;
    EXPECT_TRUE(OnlyMultiplies(spec, c.shape())) << NameOf(spec);
  }
  AttentionSpec reformer = Reformer(2);
  reformer.min_length = 50;
  EXPECT_FALSE(OnlyMultiplies(reformer, c.shape()));
}

}  // namespace
}  // namespace lshformer::testing
