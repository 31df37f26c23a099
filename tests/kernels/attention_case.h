// One attention call with random input, run by the kernels and by the oracle, and how far rounding may take them apart.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "base/philox.h"
#include "kernels/attention_specs.h"
#include "kernels/counts.h"
#include "kernels/execution.h"
#include "kernels/hashing.h"
#include "kernels/packed_heads.h"
#include "kernels/plan.h"
#include "kernels/ref/attention.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {

struct AttentionCase {
  std::vector<int32_t> cu_seqlens{0};
  int heads = 2, head_dim = 16;
  AttentionSpec spec;
  float scale = 0;                                 // 0: 1/√head_dim
  std::vector<float> query, key, value, grad_out;  // [tokens, heads, head_dim]
  Buckets buckets;
  float dropout = 0;
  std::vector<uint64_t> sequence_ids;
  Operands operands = Operands::kFloat32;
  bool in_amx_tiles = false;  // the kernels' products go through AMX tiles; for the bounds

  AttentionShape shape() const { return {cu_seqlens, heads, head_dim}; }
  int64_t tokens() const { return cu_seqlens.back(); }
  float Scale() const { return scale != 0 ? scale : static_cast<float>(ScaleOfScores(spec, head_dim)); }
  bool SharedKeys() const { return SharesKeys(spec); }
  Fill fill() const { return Is<SimHashAttention>(spec) ? As<SimHashAttention>(spec).fill : Fill::kNone; }
  AttentionDropout Dropout() const { return {dropout, 77, sequence_ids}; }
  bool operator==(const AttentionCase& other) const {
    const auto all = [](const AttentionCase& c) {
      return std::tie(c.cu_seqlens, c.heads, c.head_dim, c.spec, c.scale, c.query, c.key, c.value, c.grad_out,
                      c.buckets.query, c.buckets.key, c.dropout, c.sequence_ids, c.operands, c.in_amx_tiles);
    };
    return all(*this) == all(other);
  }
};

inline std::vector<float> NormalVector(int64_t count, uint64_t seed, double size = 1) {
  PhiloxStream stream(StreamKey(seed, 0, 0, 0, Purpose::kSynthetic));
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(size * stream.Normal());
  return values;
}

// Labels 0 … parts − 1 of each sequence's tokens under each head, as many of each, shuffled: [heads, tokens].
inline std::vector<int32_t> EqualParts(const AttentionCase& c,
                                       const std::function<int32_t(int head, int64_t length)>& parts,
                                       PhiloxStream& stream) {
  std::vector<int32_t> labels(c.heads * c.tokens());
  for (int head = 0; head < c.heads; ++head) {
    for (size_t b = 0; b + 1 < c.cu_seqlens.size(); ++b) {
      const int64_t length = c.cu_seqlens[b + 1] - c.cu_seqlens[b];
      int32_t* at = labels.data() + head * c.tokens() + c.cu_seqlens[b];
      for (int64_t i = 0; i < length; ++i) at[i] = static_cast<int32_t>(i * parts(head, length) / length);
      for (int64_t i = length - 1; i > 0; --i) std::swap(at[i], at[stream.Below(i + 1)]);
    }
  }
  return labels;
}

// Random q, k, v, dO for sequences of these lengths; buckets drawn, not hashed, so that both sides see the same.
inline AttentionCase RandomCase(const AttentionSpec& spec, const std::vector<int>& lengths, int heads, int head_dim,
                                uint64_t seed = 1, double size = 1.5) {
  AttentionCase c;
  c.spec = spec;
  c.heads = heads;
  c.head_dim = head_dim;
  for (const int length : lengths) c.cu_seqlens.push_back(c.cu_seqlens.back() + length);
  const int64_t count = c.tokens() * heads * head_dim;
  c.query = NormalVector(count, seed * 10 + 1, size);
  c.key = NormalVector(count, seed * 10 + 2, size);
  c.value = NormalVector(count, seed * 10 + 3);
  c.grad_out = NormalVector(count, seed * 10 + 4);
  for (size_t b = 0; b < lengths.size(); ++b) c.sequence_ids.push_back(100 + b);
  PhiloxStream stream(StreamKey(seed, 0, 0, 0, Purpose::kPlanes));
  if (Is<ClusteredAttention>(spec)) {
    const auto own = [&](int head) {
      const ClusteredAttention* clustered = ClusteredOf(spec, head);
      return clustered == nullptr ? ClusteredAttention{} : *clustered;
    };
    c.buckets.query = EqualParts(
        c, [&](int head, int64_t length) { return own(head).groups * BundlesOfAGroup(own(head), length); }, stream);
    c.buckets.key = EqualParts(
        c, [&](int head, int64_t length) { return ClustersOf(own(head), length); }, stream);
    return c;
  }
  const int buckets = Is<ReformerAttention>(spec)  ? As<ReformerAttention>(spec).buckets[0]
                      : Is<SimHashAttention>(spec) ? As<SimHashAttention>(spec).table_size
                                                   : 1;
  c.buckets.query.resize(int64_t{heads} * HashesOf(spec) * c.tokens());
  c.buckets.key.resize(c.buckets.query.size());
  for (int32_t& bucket : c.buckets.query) bucket = static_cast<int32_t>(stream.Below(buckets));
  for (int32_t& bucket : c.buckets.key) bucket = static_cast<int32_t>(stream.Below(buckets));
  return c;
}

// To nearest even, by the bits: written anew, as an oracle for the kernels'.
inline float RoundedToBFloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7F800000) == 0x7F800000) return x;
  return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000);
}
inline void RoundToBFloat16(AttentionCase& c) {
  for (std::vector<float>* x : {&c.query, &c.key, &c.value, &c.grad_out}) {
    for (float& number : *x) number = RoundedToBFloat16(number);
  }
}

// The sequence `index` of a case, alone in its batch.
inline AttentionCase Alone(const AttentionCase& c, size_t index) {
  AttentionCase alone = c;
  const int64_t begin = c.cu_seqlens[index], length = c.cu_seqlens[index + 1] - begin,
                row = int64_t{c.heads} * c.head_dim;
  alone.cu_seqlens = {0, static_cast<int32_t>(length)};
  const auto cut = [&](const std::vector<float>& x) {
    return std::vector<float>(x.begin() + begin * row, x.begin() + (begin + length) * row);
  };
  alone.query = cut(c.query);
  alone.key = cut(c.key);
  alone.value = cut(c.value);
  alone.grad_out = cut(c.grad_out);
  alone.sequence_ids = {c.sequence_ids[index]};
  const auto cut_buckets = [&](const std::vector<int32_t>& x) {
    std::vector<int32_t> part;
    for (int64_t hash = 0; hash < int64_t{c.heads} * HashesOf(c.spec); ++hash) {
      part.insert(part.end(), x.begin() + hash * c.tokens() + begin, x.begin() + hash * c.tokens() + begin + length);
    }
    return part;
  };
  alone.buckets = {cut_buckets(c.buckets.query), cut_buckets(c.buckets.key)};
  return alone;
}

struct AttentionResult {
  std::vector<float> out, lse, grad_query, grad_key, grad_value;
  AttentionCounts counts;
  bool operator==(const AttentionResult& other) const {
    return out == other.out && lse == other.lse && grad_query == other.grad_query && grad_key == other.grad_key &&
           grad_value == other.grad_value;
  }
};

inline PlannedAttention PlanOf(const AttentionCase& c) {
  if (Is<ClusteredAttention>(c.spec)) {
    const int64_t row = int64_t{c.heads} * c.head_dim;
    return BuildClusteredPlan(c.spec, c.shape(), {c.query.data(), row, c.head_dim}, {c.key.data(), row, c.head_dim},
                              c.buckets.query, c.buckets.key);
  }
  if (Is<LocalAttention>(c.spec)) return {BuildLocalPlan(c.spec, c.shape())};
  if (c.SharedKeys()) return {BuildReformerPlan(c.spec, c.shape(), c.buckets.query)};
  return {Is<DenseAttention>(c.spec) ? BuildDensePlan(c.shape())
                                     : BuildSimHashPlan(c.spec, c.shape(), c.buckets.query, c.buckets.key)};
}

inline AttentionResult RunKernels(const AttentionCase& c, bool backward = true) {
  const int64_t token_stride = int64_t{c.heads} * c.head_dim;
  const auto in = [&](const std::vector<float>& x) {
    return HeadTensor<const float>{x.data(), token_stride, c.head_dim};
  };
  const auto out = [&](std::vector<float>& x) {
    x.assign(c.query.size(), NAN);
    return HeadTensor<float>{x.data(), token_stride, c.head_dim};
  };
  const auto none = [](auto tensor) { return decltype(tensor){}; };
  const PlannedAttention planned = PlanOf(c);
  AttentionResult result;
  result.counts = Counts(*planned.plan);
  result.lse.assign(c.tokens() * c.heads, NAN);
  const AttentionForward forward{c.shape(),   in(c.query),        c.SharedKeys() ? none(in(c.key)) : in(c.key),
                                 in(c.value), out(result.out),    result.lse.data(),
                                 c.Scale(),   planned.plan.get(), planned.centroids.get(),
                                 c.Dropout(), c.operands};
  RunAttentionForward(forward);
  if (backward) {
    RunAttentionBackward({forward, in(c.grad_out), out(result.grad_query),
                          c.SharedKeys() ? HeadTensor<float>{} : out(result.grad_key), out(result.grad_value)});
  }
  return result;
}

struct OracleResult {
  ref::Outputs outputs;
  ref::Gradients grads;
};

inline OracleResult RunOracle(const AttentionCase& c) {
  const std::vector<double> query = Wide(c.query), key = Wide(c.key), value = Wide(c.value);
  const ref::Inputs in{c.shape(), c.spec, query, key, value, c.Scale(), c.buckets.query, c.buckets.key, c.Dropout()};
  return {ref::Forward(in), ref::Backward(in, Wide(c.grad_out))};
}

// Bounds of the rounding error of the float kernels, element by element, from the magnitudes of a unit's rows:
//
//   score      e = eps·((√d + 2)·max Σ|q||k|·scale + 2|lse| + 4)          a dot product of d terms, the softmax's
//   exponent out        4·(e + eps·(√n + 8))·max|v|                                Σ p = 1; 4: numerator, denominator,
//   rescaling, margin gradients  4·(e + eps·(√d + √n + 8))·G·max|k|·scale·(1 + Σ_i p_ij)    G = 2·max Σ|dO||v|: what
//   multiplies p in ∂loss/∂s
//
// A fill taken off a total of n values may lose eps·n·max|v| on top. Reformer's keys are off by eps·(√d + 4)
// themselves, a row that saw only itself has an lse near −1e5, and a key's gradient passes on through the
// normalisation, by a factor of its scale a and a sum over d.
//
// Operands in bfloat16: probabilities p, less a fill's weight f, and ∂loss/∂s are off by u = 2⁻⁹ of themselves, and so
// are Reformer's keys, in the scores, in dQ and in the normalisation. Beside the above, with F_i = Σ_j f_ij,
//
//   score u·max Σ|q||k|·scale (Reformer)   out u·(1 + F_i)·max|v|   dV u·(Σ_i p_ij + Σ_i f_i)·max|dO|
//   dQ, dK: u·(2 + max F)·G·max|k|·scale·(1 + Σ_i p_ij): ∂loss/∂s itself, and the output in dO·out; Reformer's keys: u
//   more, and a·2u·√d·(dK) by way of the normalisation
//
// exp is off by 2⁻¹³ of itself there, as if a score were off by as much.
struct Bounds {
  std::vector<double> out, lse, grad_query, grad_key, grad_value;
};

namespace internal {
inline double LargestDot(const std::vector<float>& a, const std::vector<float>& b, const AttentionCase& c,
                         int64_t begin, int64_t end, int head) {
  double largest = 0;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t j = begin; j < end; ++j) {
      double sum = 0;
      for (int k = 0; k < c.head_dim; ++k) {
        sum += std::abs(static_cast<double>(a[(i * c.heads + head) * c.head_dim + k]) *
                        b[(j * c.heads + head) * c.head_dim + k]);
      }
      largest = std::max(largest, sum);
    }
  }
  return largest;
}
inline double Largest(const std::vector<float>& x, const AttentionCase& c, int64_t begin, int64_t end, int head) {
  double largest = 0;
  for (int64_t i = begin; i < end; ++i) {
    for (int k = 0; k < c.head_dim; ++k)
      largest = std::max(largest, std::abs(static_cast<double>(x[(i * c.heads + head) * c.head_dim + k])));
  }
  return largest;
}
}  // namespace internal

// Reformer's keys, and what made them of the queries, [tokens, heads].
struct SharedKeys {
  std::vector<float> keys, scales;
};
inline SharedKeys NormalizedQueries(const AttentionCase& c) {
  SharedKeys shared{c.query, {}};
  for (size_t row = 0; row < c.query.size(); row += c.head_dim) {
    double sum = c.head_dim * ReformerAttention::kKeyNormEpsilon;
    for (int k = 0; k < c.head_dim; ++k) sum += static_cast<double>(c.query[row + k]) * c.query[row + k];
    shared.scales.push_back(static_cast<float>(1 / std::sqrt(sum)));
    for (int k = 0; k < c.head_dim; ++k) shared.keys[row + k] *= shared.scales.back();
  }
  return shared;
}

// [tokens, heads]: what the fill's weight adds up to over all keys, 0 where every key is seen.
inline std::vector<double> FillShares(const AttentionCase& c, const OracleResult& oracle) {
  std::vector<double> shares(c.tokens() * c.heads, 0.0);
  if (c.fill() == Fill::kNone) return shares;
  for (size_t b = 0; b + 1 < c.cu_seqlens.size(); ++b) {
    const int64_t begin = c.cu_seqlens[b], end = c.cu_seqlens[b + 1];
    for (int64_t row = begin * c.heads; row < end * c.heads; ++row) {
      double score = 0;
      for (int64_t j = begin; j < end && c.fill() == Fill::kMean; ++j) {
        const float *query = &c.query[row * c.head_dim], *key = &c.key[(j * c.heads + row % c.heads) * c.head_dim];
        for (int k = 0; k < c.head_dim; ++k) score += static_cast<double>(query[k]) * key[k];
      }
      score *= c.Scale() / static_cast<double>(end - begin);
      // An unseen key's weight is at most 1: what is more belongs to a row that has none.
      const double weight = std::exp(score - oracle.outputs.lse[row]);
      shares[row] = weight > 1 + 1e-6 ? 0 : weight * static_cast<double>(end - begin);
    }
  }
  return shares;
}

inline Bounds RoundingBounds(const AttentionCase& c, const OracleResult& oracle) {
  using internal::Largest;
  using internal::LargestDot;
  const double eps = 0x1p-24, keep = 1.0 / (1.0 - c.dropout), u = c.operands == Operands::kBFloat16 ? 0x1p-9 : 0;
  const double key_u = c.SharedKeys() ? u : 0;
  const std::vector<double> fill_shares = FillShares(c, oracle);
  const SharedKeys shared = c.SharedKeys() ? NormalizedQueries(c) : SharedKeys{c.key, {}};
  const std::vector<double> query = Wide(c.query), key = Wide(c.key), value = Wide(c.value);
  const ref::Inputs in{c.shape(), c.spec, query, key, value, c.Scale(), c.buckets.query, c.buckets.key, {}};
  const std::vector<double> weight_of_key =
      ref::Backward(in, std::vector<double>(query.size(), 1.0)).value;  // Σ_i p_ij
  Bounds bounds;
  for (auto* bound : {&bounds.out, &bounds.grad_query, &bounds.grad_key, &bounds.grad_value})
    bound->resize(c.query.size());
  bounds.lse.resize(c.tokens() * c.heads);
  for (size_t b = 0; b + 1 < c.cu_seqlens.size(); ++b) {
    const int64_t begin = c.cu_seqlens[b], end = c.cu_seqlens[b + 1];
    const double n = static_cast<double>(end - begin) * (c.SharedKeys() ? HashesOf(c.spec) : 1);
    const double root_n = std::sqrt(n), root_d = std::sqrt(c.head_dim), of_keys = c.SharedKeys() ? root_d + 4 : 0;
    for (int head = 0; head < c.heads; ++head) {
      double lse = 0, most_fill = 0, fills = 0;
      for (int64_t i = begin; i < end; ++i) {
        most_fill = std::max(most_fill, fill_shares[i * c.heads + head]);
        fills += fill_shares[i * c.heads + head] / static_cast<double>(end - begin);
        const double own = std::abs(oracle.outputs.lse[i * c.heads + head]);
        if (std::isfinite(own) && !(c.SharedKeys() && own > 9e4)) lse = std::max(lse, own);
      }
      const double dots = c.Scale() * LargestDot(c.query, shared.keys, c, begin, end, head);
      const double score = eps * ((root_d + 2 + of_keys) * dots + 2 * lse + 4) + key_u * dots +
                           (c.operands == Operands::kBFloat16 ? 0x1p-13 : 0);
      const double fill = c.fill() != Fill::kNone ? eps * n : 0;
      const double values = Largest(c.value, c, begin, end, head), out_grads = Largest(c.grad_out, c, begin, end, head);
      const double slope = 2 * keep * LargestDot(c.grad_out, c.value, c, begin, end, head) * c.Scale();
      const double queries = Largest(c.query, c, begin, end, head), keys = Largest(shared.keys, c, begin, end, head);
      const double gradient = (4 * (score + eps * (root_d + root_n + 8)) + u * (2 + most_fill) + key_u) * slope;
      for (int64_t i = begin; i < end; ++i) {
        const double own = oracle.outputs.lse[i * c.heads + head], lone = c.SharedKeys() && own < -9e4 ? -own : 0;
        bounds.lse[i * c.heads + head] = 2 * (score + eps * (root_n + 4 + lone));
        for (int k = 0; k < c.head_dim; ++k) {
          const int64_t at = (i * c.heads + head) * c.head_dim + k;
          const double weight = 1 + weight_of_key[at];
          bounds.out[at] =
              (4 * (score + eps * (root_n + 8)) * keep + fill + u * (keep + fill_shares[i * c.heads + head])) * values;
          bounds.grad_value[at] =
              ((4 * (score + eps * (root_n + 8)) * keep + fill + u * keep) * weight + u * fills) * out_grads;
          bounds.grad_query[at] = gradient * weight * keys;
          bounds.grad_key[at] = gradient * weight * queries;
          if (!c.SharedKeys()) continue;
          bounds.grad_query[at] += shared.scales[i * c.heads + head] *
                                   ((2 + root_d) * bounds.grad_key[at] + 2 * u * root_d * slope * weight * queries);
        }
      }
    }
  }
  if (c.SharedKeys()) bounds.grad_key.clear();
  return bounds;
}

// What the kernels are compared with takes nearly all of a test's time and is the same for every instruction set: that
// of the last few cases is kept.
struct Expected {
  AttentionCase of;
  OracleResult oracle;
  Bounds bounds;
};
inline const Expected& ExpectedOf(const AttentionCase& c) {
  constexpr size_t kKept = 16;
  static std::deque<Expected> kept;
  const auto known = std::find_if(kept.begin(), kept.end(), [&](const Expected& e) { return e.of == c; });
  if (known != kept.end()) return *known;
  if (kept.size() == kKept) kept.pop_front();
  const OracleResult oracle = RunOracle(c);
  return kept.emplace_back(Expected{c, oracle, RoundingBounds(c, oracle)});
}

// Compares all results of a case with the oracle's.
inline void ExpectAgrees(const AttentionCase& c, const AttentionResult& result) {
  const auto& [of, oracle, bounds] = ExpectedOf(c);
  EXPECT_THAT(result.out, WithinRounding(oracle.outputs.out, bounds.out));
  EXPECT_THAT(result.lse, WithinRounding(oracle.outputs.lse, bounds.lse));
  EXPECT_EQ(result.counts.pairs_computed, oracle.outputs.pairs_computed);
  EXPECT_EQ(result.counts.pairs_total, oracle.outputs.pairs_total);
  if (result.grad_query.empty()) return;
  EXPECT_THAT(result.grad_query, WithinRounding(oracle.grads.query, bounds.grad_query));
  EXPECT_THAT(result.grad_key, WithinRounding(oracle.grads.key, bounds.grad_key));
  EXPECT_THAT(result.grad_value, WithinRounding(oracle.grads.value, bounds.grad_value));
}

}  // namespace lshformer::testing
