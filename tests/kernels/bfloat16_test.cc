// Operands in bfloat16: what is rounded and how, what is refused. Agreement with the oracle, independence and
// adversarial input are those of every instruction set (every_isa.h).
#include "kernels/cpu/attention/bfloat16.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/aligned_allocator.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/attention_case.h"
#include "kernels/attention_specs.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/isa.h"

namespace lshformer::testing {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

class BFloat16 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Supports(Operands::kBFloat16)) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  }
  void TearDown() override { ForceIsa("auto"); }
};

// Aligned copies, as the products want their memory.
template <class T>
hwy::AlignedFreeUniquePtr<T[]> Aligned(const std::vector<T>& from) {
  auto copy = hwy::AllocateAligned<T>(from.size());
  std::copy(from.begin(), from.end(), copy.get());
  return copy;
}
float Low(BFloat16Pair pair) { return std::bit_cast<float>(pair << 16); }
float High(BFloat16Pair pair) { return std::bit_cast<float>(pair & 0xFFFF0000); }

TEST_F(BFloat16, RoundsToNearestEven) {
  std::vector<float> numbers = NormalVector(1000, 1, 50);
  for (const float x : {0.0f, -0.0f, 1.0f, 1.00390625f, 1.01171875f, -1.00390625f, 3.3895314e38f, -INFINITY, 1e-37f})
    numbers.push_back(x);
  numbers.resize(1008);
  auto in_place = Aligned(numbers);
  EXPECT_FALSE(RoundInPlace(in_place.get(), 1008));
  std::vector<BFloat16Pair> pairs(504);
  EXPECT_FALSE(RoundToPairs(numbers.data(), 1008, pairs.data()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float want = RoundedToBFloat16(numbers[i]);
    EXPECT_EQ(in_place[i], want) << numbers[i];
    EXPECT_EQ(i % 2 ? High(pairs[i / 2]) : Low(pairs[i / 2]), want) << numbers[i];
  }
  EXPECT_TRUE(RoundInPlace(in_place.get(), 992));  // the finite ones
  std::vector<float> large(16, kLargest);          // finite, but rounds to infinity
  EXPECT_FALSE(RoundInPlace(large.data(), 16));
  EXPECT_EQ(large[0], INFINITY);
  std::vector<float> tiny(16, 1e-39f), none(16, NAN);  // subnormal numbers are taken for 0
  EXPECT_TRUE(RoundInPlace(tiny.data(), 16));
  EXPECT_EQ(tiny[0], 0);
  EXPECT_FALSE(RoundInPlace(none.data(), 16));
  EXPECT_TRUE(std::isnan(none[0]));
}

// Every number of rows around the kernel's eight, both layouts of the left factor, odd depths.
TEST_F(BFloat16, ProductsAreSumsOfRoundedFactors) {
  constexpr int kStride = 48;
  for (int rows = 1; rows <= 19; ++rows) {
    for (const int depth : {1, 2, 7, 33}) {
      const auto a = Aligned(NormalVector(rows * kStride, 2)), a_down = Aligned(NormalVector(depth * kStride, 3));
      const auto b = Aligned(NormalVector(depth * kStride, 4));
      const std::vector<float> before = NormalVector(rows * kStride, 5), scale = NormalVector(rows, 6);
      auto along = hwy::AllocateAligned<BFloat16Pair>(rows * kStride / 2),
           down = hwy::AllocateAligned<BFloat16Pair>((depth + 1) / 2 * kStride),
           right = hwy::AllocateAligned<BFloat16Pair>((depth + 1) / 2 * kStride);
      PairAlongRows(a.get(), rows, kStride, depth, along.get());
      PairDownColumns(a_down.get(), depth, kStride, down.get());
      PairDownColumns(b.get(), depth, kStride, right.get());
      auto set = Aligned(before), add = Aligned(before), scaled = Aligned(before);
      const int pairs = (depth + 1) / 2;
      PairedProduct product{along.get(), kStride / 2, 1,    right.get(), kStride,
                            set.get(),   kStride,     rows, kStride,     pairs};
      SetProduct(product, 2.0f);
      product.c = add.get();
      AddProduct(product);
      product.a = down.get(), product.a_row = 1, product.a_pair = kStride, product.c = scaled.get();
      ScaleAndAddProduct(product, scale.data());
      for (int m = 0; m < rows; ++m) {
        for (int n = 0; n < kStride; ++n) {
          double sum = 0, sum_down = 0;
          for (int k = 0; k < depth; ++k) {
            const double factor = RoundedToBFloat16(b[k * kStride + n]);
            sum += RoundedToBFloat16(a[m * kStride + k]) * factor;
            sum_down += RoundedToBFloat16(a_down[k * kStride + m]) * factor;
          }
          const int at = m * kStride + n;
          const double bound = 0x1p-24 * (depth + 2) * 40;  // of |a||b| ≤ 16, and what was there
          ASSERT_NEAR(set[at], 2 * sum, 2 * bound) << rows << " " << depth;
          ASSERT_NEAR(add[at], before[at] + sum, bound) << rows << " " << depth;
          ASSERT_NEAR(scaled[at], static_cast<double>(scale[m]) * before[at] + sum_down, bound) << rows << " " << depth;
        }
      }
    }
  }
}

TEST_F(BFloat16, PairsOfATransposedTile) {
  constexpr int kStride = 32, kPadded = 16;
  const auto rows = Aligned(NormalVector(7 * kStride, 7));
  auto to = hwy::AllocateAligned<BFloat16Pair>(kStride / 2 * kPadded);
  TransposePairs(rows.get(), 7, kStride, kPadded, to.get());
  for (int c = 0; c < kStride; c += 2) {
    for (int r = 0; r < kPadded; ++r) {
      const BFloat16Pair pair = to[c / 2 * kPadded + r];
      EXPECT_EQ(Low(pair), r < 7 ? RoundedToBFloat16(rows[r * kStride + c]) : 0);
      EXPECT_EQ(High(pair), r < 7 ? RoundedToBFloat16(rows[r * kStride + c + 1]) : 0);
    }
  }
}

// Attention: in vectors, and in the model of AMX tiles.
class BFloat16Attention : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    UseAmxModel(GetParam());
    if (!Supports(Operands::kBFloat16)) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  }
  void TearDown() override { UseAmxModel(false); }
};
INSTANTIATE_TEST_SUITE_P(Products, BFloat16Attention, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "tile_model" : "vectors"; });

// The kernels round their operands, no more: numbers that are rounded already give the same bits.
TEST_P(BFloat16Attention, OperandsAreRoundedWhereTheyAreGathered) {
  for (const AttentionSpec& spec :
       {AttentionSpec{}, SimHash(Pairs::kFull, Fill::kNone, 2), SimHash(Pairs::kReference, Fill::kNone, 1)}) {
    AttentionCase c = RandomCase(spec, {70, 33}, 2, 20, 8);
    c.operands = Operands::kBFloat16;
    const AttentionResult plain = RunKernels(c);
    RoundToBFloat16(c);
    EXPECT_TRUE(plain == RunKernels(c)) << NameOf(spec);
    c.operands = Operands::kFloat32;
    EXPECT_FALSE(plain == RunKernels(c)) << NameOf(spec);
  }
}

// Infinity, and what becomes infinite by rounding, reaches what the formulas carry it to.
TEST_P(BFloat16Attention, InfinityStaysInItsRow) {
  for (const AttentionSpec& spec : {SimHash(Pairs::kFull, Fill::kNone, 2), Reformer(2), Sorted(Fill::kNone, 2)}) {
    for (const float large : {INFINITY, kLargest}) {
      AttentionCase c = RandomCase(spec, {90}, 1, 8, 9);
      c.operands = Operands::kBFloat16;
      c.value[17 * c.head_dim + 3] = large;
      const AttentionResult got = RunKernels(c, /*backward=*/false);
      RoundToBFloat16(c);
      const OracleResult want = RunOracle(c);
      for (size_t i = 0; i < got.out.size(); ++i)
        ASSERT_EQ(std::isfinite(got.out[i]), std::isfinite(want.outputs.out[i])) << NameOf(spec) << " " << i;
    }
  }
}

TEST_F(BFloat16, AnotherInstructionSetIsRefused) {
  for (const std::string& isa : SupportedIsas()) {
    ForceIsa(isa);
    AttentionCase c = RandomCase({}, {5}, 1, 8, 10);
    c.operands = Operands::kBFloat16;
    if (isa == "amx" || isa.starts_with("avx512")) {
      EXPECT_NO_THROW(RunKernels(c));
    } else {
      EXPECT_FALSE(Supports(Operands::kBFloat16));
      EXPECT_THROW(RunKernels(c), Error) << isa;
    }
  }
}

TEST_P(BFloat16Attention, TakesLessWorkMemory) {
  const std::vector<int32_t> borders{0, 4096};
  const PlannedAttention planned{BuildDensePlan({borders, 2, 64})};
  EXPECT_LT(ForwardWorkBytes(planned, Operands::kBFloat16), 0.7 * ForwardWorkBytes(planned));
  EXPECT_LT(WorkBytes(planned, Operands::kBFloat16), WorkBytes(planned));
}

}  // namespace
}  // namespace lshformer::testing
