// Inputs that break careless kernels: all alike, one bucket, every bucket its own, scores far apart, no key in sight.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/attention_case.h"
#include "kernels/every_isa.h"

namespace lshformer::testing {
namespace {

class Adversarial : public IsaFixture {};
INSTANTIATE_TEST_SUITE_P(EveryMode, Adversarial, EverySpecAndIsa(), NameOfSpecAndIsa);

TEST_P(Adversarial, AllTokensEqual) {
  AttentionCase c = RandomCase(spec(), {150}, 1, 12, 11);
  for (std::vector<float>* x : {&c.query, &c.key, &c.value}) {
    for (size_t i = 0; i < x->size(); ++i) (*x)[i] = (*x)[i % c.head_dim];
  }
  std::fill(c.buckets.query.begin(), c.buckets.query.end(), 2);
  std::fill(c.buckets.key.begin(), c.buckets.key.end(), 2);
  c = WithOperands(c);
  ExpectAgrees(c, RunKernels(c));
}

// Every pair is seen and every score far below the fill's 0: nothing may be left of the fill.
TEST_P(Adversarial, EverythingSeenAndEveryScoreLow) {
  AttentionCase c = RandomCase(spec(), {70, 3}, 1, 12, 12);
  std::fill(c.buckets.query.begin(), c.buckets.query.end(), 1);
  std::fill(c.buckets.key.begin(), c.buckets.key.end(), 1);
  for (size_t i = 0; i < c.query.size(); ++i) {
    c.query[i] = 3 + 0.1f * c.query[i];
    c.key[i] = -3 + 0.1f * c.key[i];
  }
  c.scale = 1;  // scores around −108
  c = WithOperands(c);
  ExpectAgrees(c, RunKernels(c));
}

TEST_P(Adversarial, ScoresFarApart) {
  AttentionCase c = RandomCase(spec(), {80}, 1, 12, 13, 6.0);  // scores up to ± 200
  c = WithOperands(c);
  ExpectAgrees(c, RunKernels(c));
}

TEST_P(Adversarial, TwoClusters) {
  AttentionCase c = RandomCase(spec(), {140}, 2, 12, 14);
  for (size_t i = 0; i < c.buckets.query.size(); ++i) {
    c.buckets.query[i] = i % 2;
    c.buckets.key[i] = i % 3 == 0;
  }
  c = WithOperands(c);
  ExpectAgrees(c, RunKernels(c));
}

TEST_P(Adversarial, ZeroVectors) {
  AttentionCase c = RandomCase(spec(), {40}, 1, 12, 15);
  std::fill(c.query.begin(), c.query.begin() + 120, 0.0f);
  std::fill(c.key.begin() + 60, c.key.begin() + 180, 0.0f);
  std::fill(c.grad_out.begin() + 24, c.grad_out.begin() + 36, 0.0f);
  c = WithOperands(c);
  ExpectAgrees(c, RunKernels(c));
}

TEST_P(Adversarial, EveryTokenItsOwnBucket) {
  AttentionSpec own_buckets = spec();
  if (Is<SimHashAttention>(own_buckets)) As<SimHashAttention>(own_buckets).table_size = 1'000'000'000;
  AttentionCase c = RandomCase(own_buckets, {300}, 1, 12, 16);
  for (int h = 0; h < HashesOf(own_buckets); ++h) {
    for (int i = 0; i < 300; ++i) {
      c.buckets.query[h * 300 + i] = 3'000'000 * i;
      c.buckets.key[h * 300 + i] = 3'000'000 * ((i * 7 + h) % 300);
    }
  }
  c = WithOperands(c);
  ExpectAgrees(c, RunKernels(c));
}

// No query finds a key.
TEST_P(Adversarial, NothingCollides) {
  AttentionCase c = RandomCase(spec(), {65, 1}, 1, 12, 17);
  std::fill(c.buckets.query.begin(), c.buckets.query.end(), 0);
  std::fill(c.buckets.key.begin(), c.buckets.key.end(), 1);
  c = WithOperands(c);
  const AttentionResult result = RunKernels(c);
  ExpectAgrees(c, result);
  // Sorted pairs always have a window, and some pairs are seen whatever the hash says.
  const auto* simhash = std::get_if<SimHashAttention>(&c.spec.kind);
  if (simhash == nullptr || simhash->fill != Fill::kNone || simhash->pairs == Pairs::kSorted || c.spec.window > 0 ||
      c.spec.global_first)
    return;
  EXPECT_EQ(result.out, std::vector<float>(c.query.size(), 0.0f));
  EXPECT_EQ(result.grad_query, std::vector<float>(c.query.size(), 0.0f));
  EXPECT_EQ(result.grad_value, std::vector<float>(c.query.size(), 0.0f));
  EXPECT_EQ(result.lse, std::vector<float>(66, -std::numeric_limits<float>::infinity()));
}

// Sequences shorter than min_length use exact attention, the others hash.
TEST(MinLength, ShortSequencesAreExact) {
  AttentionSpec spec = SimHash(Pairs::kFull, Fill::kZero, 2);
  spec.min_length = 50;
  const AttentionCase c = RandomCase(spec, {49, 50}, 2, 12, 18);
  const AttentionResult result = RunKernels(c);
  ExpectAgrees(c, result);
  EXPECT_GE(result.counts.pairs_computed, 2 * 49 * 49);
  EXPECT_LT(result.counts.pairs_computed, 2 * (49 * 49 + 50 * 50));
}

}  // namespace
}  // namespace lshformer::testing
