// SimHash apart from attention: the exact law of collisions, the same bits everywhere, what is counted.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>

#include "base/parallel.h"
#include "kernels/attention_case.h"
#include "kernels/attention_specs.h"
#include "kernels/counts.h"
#include "kernels/hashing.h"
#include "kernels/isa.h"

namespace lshformer::testing {
namespace {

AttentionSpec Hashing(int bands, int hashes, int table_size, uint64_t seed = 0) {
  AttentionSpec spec = SimHash(Pairs::kFull, Fill::kZero, hashes, table_size);
  As<SimHashAttention>(spec).bands = bands;
  spec.seed = seed;
  return spec;
}

Buckets HashCase(const AttentionCase& c, const SimHashPlanes& planes) {
  const int64_t stride = int64_t{c.heads} * c.head_dim;
  return HashQueriesAndKeys(c.spec, c.shape(), {c.query.data(), stride, c.head_dim}, {c.key.data(), stride, c.head_dim},
                            planes);
}

struct Law {
  double angle;
  int bands, table_size, hashes;
  double probability, paper;  // exact, and the paper's formula where it differs measurably
  int trials;
};

// P = 1 − (1 − p − (1 − p)/m)^n with p = (1 − θ/π)^r; the paper over-counts by p/m.
TEST(SimHashLaw, CollisionsFollowTheExactLaw) {
  constexpr double kPi = std::numbers::pi;
  for (const Law& law :
       {Law{kPi / 2, 2, 64, 1, 0.261719, 0.265625, 400'000}, Law{kPi / 3, 2, 64, 1, 0.453125, 0.460069, 400'000},
        Law{kPi / 2, 4, 16, 2, 0.227524, 0.234375, 200'000}, Law{1.0, 8, 64, 4, 0.224321, 0, 30'000}}) {
    AttentionCase c;  // one token; every head is a trial with planes of its own
    c.spec = Hashing(law.bands, law.hashes, law.table_size);
    c.cu_seqlens = {0, 1};
    c.heads = law.trials;
    c.head_dim = 3;
    for (int trial = 0; trial < law.trials; ++trial) {
      c.query.insert(c.query.end(), {1, 0, 0});
      c.key.insert(c.key.end(), {static_cast<float>(std::cos(law.angle)), 0, static_cast<float>(std::sin(law.angle))});
    }
    const Buckets buckets = HashCase(c, DrawSimHashPlanes(c.spec, c.heads, c.head_dim, 0, 0));
    int collisions = 0;
    for (int trial = 0; trial < law.trials; ++trial) {
      bool any = false;
      for (int h = 0; h < law.hashes; ++h)
        any |= buckets.query[trial * law.hashes + h] == buckets.key[trial * law.hashes + h];
      collisions += any;
    }
    const double measured = static_cast<double>(collisions) / law.trials;
    const double deviation = std::sqrt(law.probability * (1 - law.probability) / law.trials);
    EXPECT_NEAR(measured, law.probability, 4 * deviation) << "bands " << law.bands;
    if (law.paper > 0) {
      EXPECT_GT(std::abs(measured - law.paper), deviation) << "bands " << law.bands;
    }
  }
}

// The hash, written out: sixteen partial sums, no fused multiply-add.
int32_t BucketByHand(const AttentionSpec& spec, const SimHashPlanes& planes, const float* x, int head_dim, int head,
                     int hash) {
  int64_t sum = 0;
  for (int band = 0; band < As<SimHashAttention>(spec).bands; ++band) {
    const int64_t plane =
        (int64_t{head} * As<SimHashAttention>(spec).hashes + hash) * As<SimHashAttention>(spec).bands + band;
    std::array<volatile float, 16> sums{};
    for (int d = 0; d < head_dim; ++d) {
      const volatile float product = x[d] * planes.planes[plane * head_dim + d];
      sums[d % 16] = sums[d % 16] + product;
    }
    for (int width = 8; width > 0; width /= 2) {
      for (int lane = 0; lane < width; ++lane) sums[lane] = sums[lane] + sums[lane + width];
    }
    if (sums[0] > 0) sum += planes.coefficients[plane];
  }
  return static_cast<int32_t>(sum % As<SimHashAttention>(spec).table_size);
}

TEST(SimHashBits, AreTheSameOnEveryInstructionSetAndThreadCount) {
  for (const int head_dim : {1, 16, 37, 64, 256}) {
    AttentionCase c = RandomCase(Hashing(5, 3, 1000), {100, 0, 33}, 2, head_dim, 21);
    // Near ties, where the order of additions decides: keys almost orthogonal to a plane.
    const SimHashPlanes planes = DrawSimHashPlanes(c.spec, c.heads, head_dim, 3, 5);
    for (int d = 0; d + 1 < head_dim; d += 2) {
      c.key[d] = planes.planes[d + 1];
      c.key[d + 1] = -planes.planes[d];
    }
    for (const std::string& isa : SupportedIsas()) {
      ForceIsa(isa);
      for (const int threads : {1, 3}) {
        SetThreads(threads);
        const Buckets buckets = HashCase(c, planes);
        for (int head = 0; head < c.heads; ++head) {
          for (int hash = 0; hash < As<SimHashAttention>(c.spec).hashes; ++hash) {
            for (int64_t t = 0; t < c.tokens(); ++t) {
              const int64_t at = (head * As<SimHashAttention>(c.spec).hashes + hash) * c.tokens() + t,
                            row = (t * c.heads + head) * head_dim;
              ASSERT_EQ(buckets.query[at], BucketByHand(c.spec, planes, c.query.data() + row, head_dim, head, hash))
                  << isa;
              ASSERT_EQ(buckets.key[at], BucketByHand(c.spec, planes, c.key.data() + row, head_dim, head, hash)) << isa;
            }
          }
        }
      }
    }
    ForceIsa("auto");
    SetThreads(HardwareThreads());
  }
}

TEST(SimHashBits, AgreeWithTheOracleAwayFromThePlanes) {
  AttentionCase c = RandomCase(Hashing(4, 2, 64), {60, 5}, 2, 24, 22);
  for (const bool center : {false, true}) {
    As<SimHashAttention>(c.spec).center_keys = center;
    const SimHashPlanes planes = DrawSimHashPlanes(c.spec, c.heads, c.head_dim, 0, 0);
    const std::vector<double> query = Wide(c.query), key = Wide(c.key), value = Wide(c.value);
    const ref::Inputs in{c.shape(), c.spec, query, key, value, 1, {}, {}, {}};
    const Buckets want = ref::Hash(in, planes), got = HashCase(c, planes);
    EXPECT_EQ(got.query, want.query);
    EXPECT_EQ(got.key, want.key);
  }
}

TEST(SimHashBits, CentredKeysAreHashedLessTheirMean) {
  AttentionCase c = RandomCase(Hashing(6, 1, 1 << 20), {50}, 1, 16, 23);
  for (size_t i = 0; i < c.key.size(); ++i)
    c.key[i] += i % 16 < 8 ? 100.0f : -50.0f;  // a mean that drowns all differences
  const SimHashPlanes planes = DrawSimHashPlanes(c.spec, 1, 16, 0, 0);
  const std::vector<int32_t> plain = HashCase(c, planes).key;
  EXPECT_EQ(std::count(plain.begin(), plain.end(), plain[0]), 50);
  As<SimHashAttention>(c.spec).center_keys = true;
  const std::vector<int32_t> centred = HashCase(c, planes).key;
  EXPECT_LT(std::count(centred.begin(), centred.end(), centred[0]), 25);
}

TEST(SimHashBits, AZeroVectorHasNoBit) {
  AttentionCase c = RandomCase(Hashing(8, 2, 64), {3}, 1, 5, 24);
  std::fill(c.query.begin(), c.query.end(), 0.0f);
  for (const int32_t bucket : HashCase(c, DrawSimHashPlanes(c.spec, 1, 5, 0, 0)).query) EXPECT_EQ(bucket, 0);
}

TEST(SimHashPlanes, AreAFunctionOfSeedLayerHeadAndStep) {
  AttentionSpec spec = Hashing(2, 2, 64, 9);
  const auto draw = [&](uint32_t layer, uint64_t step) { return DrawSimHashPlanes(spec, 2, 6, layer, step).planes; };
  const std::vector<float> first = draw(1, 7);
  EXPECT_EQ(first, draw(1, 7));
  EXPECT_NE(first, draw(2, 7));
  EXPECT_NE(first, draw(1, 8));
  EXPECT_NE(std::vector<float>(first.begin(), first.begin() + 24),
            std::vector<float>(first.begin() + 24, first.end()));  // heads
  // More heads do not change the first ones.
  const std::vector<float> more = DrawSimHashPlanes(spec, 3, 6, 1, 7).planes;
  EXPECT_EQ(first, std::vector<float>(more.begin(), more.begin() + 48));
  spec.resample = Resample::kNever;
  EXPECT_EQ(draw(1, 7), draw(1, 8));
  spec.seed = 10;
  EXPECT_NE(draw(1, 0), first);
  for (const int32_t coefficient : DrawSimHashPlanes(spec, 2, 6, 0, 0).coefficients) {
    EXPECT_GE(coefficient, 0);
    EXPECT_LT(coefficient, 64);
  }
}

AttentionSpec SortedHash(int bands, int hashes) {
  AttentionSpec spec = Hashing(bands, hashes, 64);
  As<SimHashAttention>(spec).pairs = Pairs::kSorted;
  As<SimHashAttention>(spec).chunk = 16;
  As<SimHashAttention>(spec).look_ahead = 1;
  return spec;
}

SimHashPlanes PlanesOf(const AttentionCase& c) {
  return DrawSimHashPlanes(c.spec, c.heads, c.head_dim, 0, 0, c.shape().longest());
}

// Each sequence has as many bands as its own length asks for; away from the planes both sides find the same pattern.
void ExpectPatternsOfTheLengthsOwnBands(const AttentionCase& c) {
  const SimHashPlanes planes = PlanesOf(c);
  EXPECT_EQ(planes.bands, BandsOf(As<SimHashAttention>(c.spec), 700));
  const std::vector<double> query = Wide(c.query), key = Wide(c.key), value = Wide(c.value);
  const ref::Inputs in{c.shape(), c.spec, query, key, value, 1, {}, {}, {}};
  const Buckets want = ref::Hash(in, planes), got = HashCase(c, planes);
  EXPECT_EQ(got.query, want.query);
  EXPECT_EQ(got.key, want.key);
  for (size_t b = 0; b + 1 < c.cu_seqlens.size(); ++b) {
    const AttentionCase alone = Alone(c, b);
    const Buckets own = HashCase(alone, PlanesOf(alone));  // fewer planes are drawn
    for (int64_t row = 0; row < int64_t{c.heads} * As<SimHashAttention>(c.spec).hashes; ++row) {
      for (int64_t i = 0; i < alone.tokens(); ++i) {
        const int32_t bucket = own.query[row * alone.tokens() + i];
        ASSERT_EQ(got.query[row * c.tokens() + c.cu_seqlens[b] + i], bucket);
        ASSERT_EQ(got.key[row * c.tokens() + c.cu_seqlens[b] + i], own.key[row * alone.tokens() + i]);
        ASSERT_LT(bucket, TableSizeOf(As<SimHashAttention>(c.spec), alone.tokens()));
      }
    }
  }
}

TEST(SignPatterns, AreBucketsOfTheLengthsOwnBands) {
  for (const AttentionSpec& spec : {Hashing(0, 2, 64), SortedHash(0, 3), SortedHash(20, 1)}) {
    AttentionCase c = RandomCase(spec, {60, 5, 0, 700, 300}, 2, 24, 27);
    for (const std::string& isa : SupportedIsas()) {
      SCOPED_TRACE(isa);
      ForceIsa(isa);
      for (const bool center : {false, true}) {
        As<SimHashAttention>(c.spec).center_keys = center;
        ExpectPatternsOfTheLengthsOwnBands(c);
      }
    }
    ForceIsa("auto");
  }
}

// Vectors that differ in the sign of one plane's side alone are neighbours of the order somewhere; here the patterns of
// three planes along the axes, one by one: 000 001 011 010 110 111 101 100.
TEST(SignPatterns, ComeInGrayOrder) {
  AttentionCase c = RandomCase(SortedHash(3, 1), {8}, 1, 3, 28);
  SimHashPlanes planes;
  planes.bands = 3;
  planes.planes = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  planes.coefficients = {1, 2, 4};
  const std::vector<int> patterns{0b000, 0b001, 0b011, 0b010, 0b110, 0b111, 0b101, 0b100};
  for (size_t t = 0; t < patterns.size(); ++t) {
    for (int d = 0; d < 3; ++d) c.query[t * 3 + d] = (patterns[t] >> d & 1) != 0 ? 1.0f : -1.0f;
  }
  EXPECT_EQ(HashCase(c, planes).query, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(SignPatterns, DoNotDependOnThreads) {
  const AttentionCase c = RandomCase(SortedHash(0, 2), {5000, 3, 900}, 3, 40, 29);
  SetThreads(1);
  const Buckets one = HashCase(c, PlanesOf(c));
  SetThreads(3);
  const Buckets three = HashCase(c, PlanesOf(c));
  SetThreads(HardwareThreads());
  EXPECT_EQ(one.query, three.query);
  EXPECT_EQ(one.key, three.key);
}

// 2 · bands · d · 2N · hashes · heads, in thousands: the grid of the BERT-LSH paper for N = 10, d = 64, 2 heads.
TEST(SelectionFlops, FollowTheGridOfThePaper) {
  const std::array<double, 4> one_hash{10.24, 20.48, 30.72, 40.96};
  for (int bands = 2; bands <= 8; bands += 2) {
    for (int hashes = 1; hashes <= 4; ++hashes) {
      const AttentionCase c = RandomCase(Hashing(bands, hashes, 64), {10}, 2, 64, 25);
      EXPECT_DOUBLE_EQ(static_cast<double>(Counts(*PlanOf(c).plan).selection_flops) / 1000,
                       one_hash[bands / 2 - 1] * hashes);
    }
  }
}

// For orthogonal queries and keys 110 · (1/4 + 3/4/64) = 28.79 of the 110 upper-triangle pairs collide (N = 10, 2
// heads).
TEST(ExpectedPairs, OfTheReferenceModeAreThePapers) {
  AttentionCase c = RandomCase(Hashing(2, 1, 64), {10}, 2, 20, 26);
  As<SimHashAttention>(c.spec).pairs = Pairs::kReference;
  for (int t = 0; t < 10; ++t) {
    for (int head = 0; head < 2; ++head) {
      for (int d = 0; d < 20; ++d) {
        c.query[(t * 2 + head) * 20 + d] = d == t;
        c.key[(t * 2 + head) * 20 + d] = d == 10 + t;
      }
    }
  }
  constexpr int kDraws = 4000;
  double sum = 0, squares = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    c.spec.seed = draw;
    c.buckets = HashCase(c, DrawSimHashPlanes(c.spec, 2, 20, 0, 0));
    const auto pairs = static_cast<double>(Counts(*PlanOf(c).plan).pairs_computed);
    sum += pairs;
    squares += pairs * pairs;
  }
  const double mean = sum / kDraws, error = std::sqrt((squares / kDraws - mean * mean) / kDraws);
  EXPECT_NEAR(mean, 28.79, 4 * error);
  EXPECT_LT(error, 0.2);
}

}  // namespace
}  // namespace lshformer::testing
