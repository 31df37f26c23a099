// Exact and LSH attention over packed sequences, forward and backward.
//
//   out_i = Σ_j exp(s_ij − lse_i) v_j,   lse_i = log Σ_j exp(s_ij),   s_ij = scale · q_i·k_j
//
// where j runs over the keys that the plan shows to query i, as often as it shows them, plus, with a fill, all others
// at one fill score. Reformer's keys are the queries, normalised: k_j = q_j / √(Σ q_j² + head_dim · kKeyNormEpsilon),
// and s_ii = kSelfScore (attention/reformer.h). What each mode computes: docs/attention.md.
//
// q, k, v, out and their gradients: [tokens, heads, head_dim], strides in elements, innermost 1.   lse: [tokens,
// heads]. The result of a sequence depends neither on its batch-mates nor on the number of threads, bit for bit
// (gradients too). Throws nothing about shapes: kernels/operator.h checks them.
#pragma once
#include <cstdint>
#include <span>

#include "attention/spec.h"
#include "base/bfloat16.h"
#include "kernels/packed_heads.h"

namespace lshformer {

struct AttentionPlan;
struct Centroids;
struct PlannedAttention;

// Dropout of probabilities of seen pairs, after normalisation (docs/attention.md). The mask of pair (i, j) is a
// function of (key, sequence id, head, i, j) alone and is never stored.
struct AttentionDropout {
  float probability = 0;  // 0: none
  uint64_t key = 0;       // StreamKey(seed, step, layer, 0, Purpose::kAttentionDropout)
  std::span<const uint64_t>
      sequence_ids;  // [sequences]: the example's identity in its data set, not its place in the batch
};

// What the factors of the products are rounded to where they are gathered (q, k, v, the output's gradient) or made
// (probabilities, their gradients): nearest, ties to even. Sums, softmax, hashing, fills and all results are float32.
//
// kTwoParts: a factor is the sum of two numbers in bfloat16, x ≈ x₀ + x₁, and a product the three x₁y₀ + x₀y₁ + x₀y₀,
// off by at most 2⁻¹⁵ of |x||y|. A sequence under a head with a number (the backward: of the output's gradient too)
// that is not finite or at least 2⁵⁶ is computed in float32.
enum class Operands { kFloat32, kBFloat16, kTwoParts };
const char* Name(Operands operands);  // "float32", "bfloat16", the values of --dtype; "two parts"
// kBFloat16: the instruction set in force is AMX, or it is AVX-512 and the CPU has AVX512_BF16. kTwoParts: it is AMX.
bool Supports(Operands operands);
// Whether kBFloat16 takes less time than kFloat32: in AMX tiles, and by AVX512_BF16 on AMD's processors (on Intel's
// Emerald Rapids more, docs/performance.md).
bool BFloat16Pays();
constexpr int Parts(Operands operands) { return operands == Operands::kTwoParts ? 2 : 1; }

// Whether a forward only multiplies its queries, keys and values: then they may come rounded as products would round
// them. Hashing, fills, clusters and the normalisation of shared keys take them as they are.
bool OnlyMultiplies(const AttentionSpec& spec, const AttentionShape& shape);

struct AttentionForward {
  AttentionShape shape;
  HeadTensor<const float> query, key, value;  // no key where the plan shares keys
  HeadTensor<float> out;
  float* lse = nullptr;  // [tokens, heads]
  float scale = 1;       // ScaleOfScores(spec, head_dim)
  const AttentionPlan* plan = nullptr;
  const Centroids* centroids = nullptr;  // made with the plan; of clusters alone
  AttentionDropout dropout;
  Operands operands = Operands::kFloat32;  // Error where it is not supported
  // In place of query, key and value, or of out: numbers in bfloat16, where operands are (else Error) and without a
  // backward. Inputs so where OnlyMultiplies(). The output in AMX tiles alone (else Error): it is rounded to nearest
  // even, and what rows sum up between passes is then in work memory, [length][head_dim] floats of each unit in work.
  HeadTensor<const BFloat16> rounded_query = {}, rounded_key = {}, rounded_value = {};
  HeadTensor<BFloat16> rounded_out = {};
};
void RunAttentionForward(const AttentionForward& call);

struct AttentionBackward {
  AttentionForward forward;  // with the out and lse that the forward wrote
  HeadTensor<const float> grad_out;
  HeadTensor<float> grad_query, grad_key, grad_value;  // overwritten; no grad_key where the plan shares keys
};
void RunAttentionBackward(const AttentionBackward& call);

// Plan, centroids and work memory of a forward + backward call, and of a forward alone.
int64_t WorkBytes(const PlannedAttention& planned, Operands operands = Operands::kFloat32);
int64_t ForwardWorkBytes(const PlannedAttention& planned, Operands operands = Operands::kFloat32);

}  // namespace lshformer
