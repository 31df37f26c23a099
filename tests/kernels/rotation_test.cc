// Reformer's hash apart from attention: which bucket, the same bits everywhere, what is drawn.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/parallel.h"
#include "kernels/attention_case.h"
#include "kernels/attention_specs.h"
#include "kernels/isa.h"
#include "kernels/ref/reformer.h"

namespace lshformer::testing {
namespace {

AttentionSpec Hashing(int rounds, std::array<int, 2> buckets, int chunk = 16, uint64_t seed = 0) {
  AttentionSpec spec = Reformer(rounds);
  As<ReformerAttention>(spec).buckets = buckets;
  As<ReformerAttention>(spec).chunk = chunk;
  spec.seed = seed;
  return spec;
}

// RandomCase wants to draw buckets; here they are hashed.
AttentionCase HashedCase(const AttentionSpec& spec, const std::vector<int>& lengths, int heads, int head_dim,
                         uint64_t seed) {
  AttentionSpec drawn = spec;
  As<ReformerAttention>(drawn).buckets = {2, 0};
  AttentionCase c = RandomCase(drawn, lengths, heads, head_dim, seed);
  c.spec = spec;
  return c;
}

std::vector<int32_t> HashCase(const AttentionCase& c, const ReformerRotations& rotations, bool needed_only = false) {
  const int64_t stride = int64_t{c.heads} * c.head_dim;
  return HashByRotation(c.spec, c.shape(), {c.query.data(), stride, c.head_dim}, rotations, needed_only);
}

ReformerRotations Draw(const AttentionCase& c, uint32_t layer = 0, uint64_t step = 0) {
  return DrawReformerRotations(c.spec, c.shape(), layer, step);
}

// Two rotations are the axes: the bucket is the axis of the largest entry, its opposite two further.
TEST(RotationHash, IsTheLargestOfBothSignsByHand) {
  AttentionCase c = HashedCase(Hashing(1, {4, 0}), {9}, 1, 2, 71);
  const ReformerRotations axes{2, {1, 0, 0, 1}};
  c.query = {3,   1, -1, 2, -5, 4,  1, -2,  // 0 1 2 3
             2,   2, -2, 2, -2, -2, 0, 0,   // ties: the lowest index of [x, −x]: 0, 1, 2, 0
             NAN, 1};                       // some bucket: 0
  EXPECT_EQ(HashCase(c, axes), (std::vector<int32_t>{0, 1, 2, 3, 0, 1, 2, 0, 0}));
}

// Two factors: a1 + b1·a2, the second from the columns after the first's.
TEST(RotationHash, OfTwoFactorsIsTheirProductByHand) {
  AttentionCase c = HashedCase(Hashing(1, {2, 4}), {4}, 1, 3, 72);
  const ReformerRotations axes{3, {1, 0, 0, 0, 1, 0, 0, 0, 1}};
  c.query = {1, 5, 2, -1, 5, 2, 1, -1, 7, -1, -9, 2};
  EXPECT_EQ(HashCase(c, axes), (std::vector<int32_t>{0 + 2 * 0, 1 + 2 * 0, 0 + 2 * 1, 1 + 2 * 2}));
}

// What rounds otherwise than a fused multiply-add may choose another bucket where two are almost equal.
bool Fuses(const std::string& isa) { return !isa.starts_with("sse") && isa != "emu128" && isa != "scalar"; }

TEST(RotationHash, AgreesWithTheOracleAndWithItselfEverywhere) {
  for (const std::array<int, 2> buckets : {std::array<int, 2>{0, 0}, {2, 0}, {30, 0}, {66, 0}, {4, 6}, {40, 16}}) {
    for (const int head_dim : {1, 16, 37, 64, 256}) {
      const AttentionCase c = HashedCase(Hashing(3, buckets), {100, 0, 33, 260}, 2, head_dim, 73);
      const ReformerRotations rotations = Draw(c);
      const std::vector<double> query = Wide(c.query);
      const ref::Inputs in{c.shape(), c.spec, query, {}, query, 1, {}, {}, {}};
      const std::vector<int32_t> want = ref::HashByRotation(in, rotations);
      std::vector<int32_t> first;
      for (const std::string& isa : SupportedIsas()) {
        ForceIsa(isa);
        for (const int threads : {1, 3}) {
          SetThreads(threads);
          const std::vector<int32_t> got = HashCase(c, rotations);
          int different = 0;
          for (size_t i = 0; i < want.size(); ++i) different += got[i] != want[i];
          EXPECT_LE(different, 2) << isa << " head_dim " << head_dim;  // of 2358: almost equal products
          if (first.empty()) first = got;
          if (Fuses(isa)) {
            EXPECT_EQ(got, first) << isa << ", " << threads << " threads";
          }
        }
      }
      ForceIsa("auto");
      SetThreads(HardwareThreads());
    }
  }
}

// A sequence's buckets are its own: the number follows its length, the rotations are the first ones.
TEST(RotationHash, DoesNotDependOnTheBatch) {
  const AttentionCase c = HashedCase(Hashing(2, {0, 0}, 4), {20, 600, 7, 130}, 2, 12, 74);
  const std::vector<int32_t> all = HashCase(c, Draw(c));
  for (size_t b = 0; b + 1 < c.cu_seqlens.size(); ++b) {
    const AttentionCase alone = Alone(c, b);
    const std::vector<int32_t> own = HashCase(alone, Draw(alone));
    const int64_t length = alone.tokens();
    for (int64_t row = 0; row < 4; ++row) {
      for (int64_t t = 0; t < length; ++t)
        ASSERT_EQ(own[row * length + t], all[row * c.tokens() + c.cu_seqlens[b] + t]) << b;
    }
  }
}

TEST(RotationHash, HashesWhatNeedsItOnly) {
  const AttentionCase c = HashedCase(Hashing(2, {8, 0}, 16), {16, 200}, 1, 12, 75);
  const std::vector<int32_t> needed = HashCase(c, Draw(c), true), all = HashCase(c, Draw(c));
  for (int64_t i = 0; i < static_cast<int64_t>(all.size()); ++i) EXPECT_EQ(needed[i], i % c.tokens() < 16 ? 0 : all[i]);
  EXPECT_NE(needed, all);
}

// Vectors of one direction share a bucket, whatever their size; opposite ones never do.
TEST(RotationHash, IsOfDirections) {
  AttentionCase c = HashedCase(Hashing(4, {16, 0}), {3}, 1, 24, 76);
  for (int k = 0; k < 24; ++k) {
    c.query[24 + k] = 4 * c.query[k];
    c.query[48 + k] = -c.query[k];
  }
  const std::vector<int32_t> buckets = HashCase(c, Draw(c));
  for (int round = 0; round < 4; ++round) {
    EXPECT_EQ(buckets[round * 3], buckets[round * 3 + 1]);
    EXPECT_EQ((buckets[round * 3] + 8) % 16, buckets[round * 3 + 2]);
  }
}

// All buckets are used by vectors of all directions, more or less: drawn rotations are not of equal length.
TEST(RotationHash, SpreadsRandomVectors) {
  for (const std::array<int, 2> buckets : {std::array<int, 2>{16, 0}, {4, 4}}) {
    const AttentionCase c = HashedCase(Hashing(1, buckets), {16000}, 1, 32, 77);
    std::vector<int> count(16);
    for (const int32_t bucket : HashCase(c, Draw(c))) ++count.at(bucket);
    for (const int n : count) {
      EXPECT_GT(n, 250);
      EXPECT_LT(n, 2500);
    }
  }
}

TEST(Rotations, AreAFunctionOfSeedLayerHeadStepRoundAndColumn) {
  AttentionSpec spec = Hashing(2, {8, 0}, 16, 9);
  const std::vector<int32_t> lengths{0, 20};
  const auto draw = [&](uint32_t layer, uint64_t step, int heads = 2) {
    return DrawReformerRotations(spec, {lengths, heads, 6}, layer, step).rotations;
  };
  const std::vector<float> first = draw(1, 7);
  ASSERT_EQ(first.size(), 2u * 2 * 6 * 4);
  EXPECT_EQ(std::set<float>(first.begin(), first.end()).size(), first.size());  // heads, rounds, columns differ
  EXPECT_EQ(first, draw(1, 7));
  EXPECT_NE(first, draw(2, 7));
  EXPECT_NE(first, draw(1, 8));
  const std::vector<float> more_heads = draw(1, 7, 3);
  EXPECT_EQ(first, std::vector<float>(more_heads.begin(), more_heads.begin() + 96));
  SetThreads(3);
  EXPECT_EQ(first, draw(1, 7));
  SetThreads(HardwareThreads());
  As<ReformerAttention>(spec).buckets = {12, 0};  // more columns leave the first as they are
  const std::vector<float> wider = draw(1, 7);
  for (int row = 0; row < 24; ++row) {
    for (int column = 0; column < 4; ++column) EXPECT_EQ(first[row * 4 + column], wider[row * 6 + column]);
  }
  spec.resample = Resample::kNever;
  EXPECT_EQ(draw(1, 7), draw(1, 8));
  spec.seed = 10;
  EXPECT_NE(draw(1, 0), wider);
}

TEST(Rotations, SufficeForTheLongestSequence) {
  const AttentionSpec spec = Hashing(1, {0, 0}, 64);
  const std::vector<int32_t> lengths{0, 4096, 20480, 20500};
  EXPECT_EQ(DrawReformerRotations(spec, {lengths, 1, 3}, 0, 0).columns, 64);  // 128 buckets; 16 + 32 take fewer
}

// 2 · columns · head_dim operations a token, round and head, where the hash is needed.
TEST(RotationFlops, AreThoseOfTheProducts) {
  const AttentionCase c = HashedCase(Hashing(3, {4, 6}), {16, 100}, 2, 24, 78);
  AttentionCase ready = c;
  ready.buckets.query = HashCase(c, Draw(c));
  EXPECT_EQ(Counts(*PlanOf(ready).plan).selection_flops, 2 * 5 * 24 * 100 * 3 * 2);
}

}  // namespace
}  // namespace lshformer::testing
