// Exact and LSH attention over packed sequences, forward and backward.
//
//   out_i = Σ_j exp(s_ij − lse_i) v_j,   lse_i = log Σ_j exp(s_ij),   s_ij = scale · q_i·k_j
//
// where j runs over the keys that the plan shows to query i, as often as it shows them, plus, with a fill, all others
// at one fill score. Reformer's keys are the queries, normalised: k_j = q_j / √(Σ q_j² + head_dim · kKeyNormEpsilon),
// and s_ii = kSelfScore (attention/reformer.h). One sequence never sees another. What each mode computes:
// docs/attention.md.
//
// Sequence b is the tokens cu_seqlens[b] … cu_seqlens[b + 1] − 1; a sequence may be empty.
// q, k, v, out and their gradients: [tokens, heads, head_dim], strides in elements, innermost 1.   lse: [tokens,
// heads]. The result of a sequence depends neither on its batch-mates nor on the number of threads, bit for bit
// (gradients too). Throws nothing about shapes: they are checked one level up, in ops/.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "attention/spec.h"
#include "base/bfloat16.h"

namespace lshformer {

struct AttentionShape {
  std::span<const int32_t> cu_seqlens;  // [sequences + 1], starts at 0
  int heads = 0;
  int head_dim = 0;  // 1 … 256
  int sequences() const { return static_cast<int>(cu_seqlens.size()) - 1; }
  int64_t tokens() const { return cu_seqlens.back(); }
  int64_t longest() const;  // tokens of the longest sequence
};

// A [tokens, heads, head_dim] tensor.
template <class T>
struct HeadTensor {
  T* data = nullptr;
  int64_t token_stride = 0;  // elements
  int64_t head_stride = 0;
  T* at(int64_t token, int head) const { return data + token * token_stride + head * head_stride; }
};

// Dropout of probabilities of seen pairs, after normalisation (docs/attention.md). The mask of pair (i, j) is a
// function of (key, sequence id, head, i, j) alone and is never stored.
struct AttentionDropout {
  float probability = 0;  // 0: none
  uint64_t key = 0;       // StreamKey(seed, step, layer, 0, Purpose::kAttentionDropout)
  std::span<const uint64_t>
      sequence_ids;  // [sequences]: the example's identity in its data set, not its place in the batch
};

// What a call computed, for reports and for the metadata of `attention`.
struct AttentionCounts {
  int64_t pairs_total = 0;     // heads · Σ n²
  int64_t pairs_computed = 0;  // distinct (i, j) whose q_i·k_j was needed, and centroids that a query was scored with
  // 2 · bands · head_dim · (queries + keys) · hashes · heads, 2 · rotations · head_dim · queries · rounds · heads, or
  // of clusters 2 · (directions of keys and of queries + (2 + levels) · groups) · head_dim · queries · heads, summed
  // over the sequences that need it
  int64_t selection_flops = 0;
  int64_t attention_flops = 0;  // forward, all that the tiles computed: 4 · head_dim per visited pair

  AttentionCounts& operator+=(const AttentionCounts& more) {
    pairs_total += more.pairs_total;
    pairs_computed += more.pairs_computed;
    selection_flops += more.selection_flops;
    attention_flops += more.attention_flops;
    return *this;
  }
};

// Random hyperplanes of one call and layer; the same for queries and keys, for all sequences. Where bands follow the
// length a sequence takes the first BandsOf(its length) of each hash function, and a plane is the same however
// many are drawn.
struct SimHashPlanes {
  int bands = 0;
  std::vector<float> planes;          // [heads, hashes, bands, head_dim]
  std::vector<int32_t> coefficients;  // [heads, hashes, bands], in [0, table_size); 2^b where sign patterns are buckets
};
// Drawn from (spec.seed, layer, head, step), and (hash function, band) where sign patterns are buckets; step 0 outside
// training and with Resample::kNever. As many bands as a sequence of `longest` tokens takes.
SimHashPlanes DrawSimHashPlanes(const AttentionSpec& spec, int heads, int head_dim, uint32_t layer, uint64_t step,
                                int64_t longest = 0);

// Buckets of queries and keys: int32 [heads, hashes, tokens].
struct Buckets {
  std::vector<int32_t> query, key;
};
// bit_b = (x·plane_b > 0), bucket = (Σ_b bit_b · coefficient_b) mod table_size. With spec.center_keys keys are hashed
// as key − mean key of their sequence. Where sign patterns are buckets, bucket = Σ_b bit_b · 2^b; with sorted pairs its
// place in Gray order instead, so that neighbours differ in one bit.
Buckets HashQueriesAndKeys(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                           HeadTensor<const float> key, const SimHashPlanes& planes);

// Reformer's random rotations of one call and layer. A column is the same however many are drawn.
struct ReformerRotations {
  int columns = 0;
  std::vector<float> rotations;  // [heads, rounds, head_dim, columns]
};
// Drawn from (spec.seed, layer, head, step, round, column); step as for planes. As many columns as the longest sequence
// of `shape` takes.
ReformerRotations DrawReformerRotations(const AttentionSpec& spec, const AttentionShape& shape, uint32_t layer,
                                        uint64_t step);

// Buckets int32 [heads, rounds, tokens]: argmax([xR, −xR]) with R the first columns, the lowest index on ties; of two
// factors a1 + b1·a2, where the second takes the columns after the first's. A vector that is not finite is in some
// bucket. Sequences that need no hash are left at 0 where `needed_only`.
std::vector<int32_t> HashByRotation(const AttentionSpec& spec, const AttentionShape& shape,
                                    HeadTensor<const float> query, const ReformerRotations& rotations,
                                    bool needed_only = false);

// Directions of one call and layer, along which clustered attention sorts keys, and queries; the same for all
// sequences. A direction is the same however many are drawn.
struct ClusterDirections {
  int key_depth = 0, query_depth = 0;
  std::vector<float> key, query;  // [heads, head_dim, depth]
};
// Drawn from (spec.seed, layer, head, depth), keys and queries apart, once for ever. As many as the longest sequence of
// `shape` takes.
ClusterDirections DrawClusterDirections(const AttentionSpec& spec, const AttentionShape& shape, uint32_t layer);

// Groups of queries and clusters of keys, int32 [heads, tokens] each, of equal sizes. C clusters of a sequence of n
// tokens: a range of clusters [a, b) with b − a > 1 is ordered by direction_l·k, ascending, where l is how often it was
// cut before, and cut so that the ranks below ⌈m n / C⌉, m = ⌊(a + b)/2⌋, go to the clusters below m; of equal products
// the order stays as it was, at first that of positions. Groups likewise, and where queries open clusters together,
// each group into bundles (BundlesOfAGroup), whose numbers then stand for groups': those of a group one after another;
// cut l of queries is along direction l mod kQueryDirections. Sequences that IsSparseAt leaves out are left at 0. A
// product that is no number counts as +∞.
Buckets GroupByHalving(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                       HeadTensor<const float> key, const ClusterDirections& directions);

// What hashing draws, of the kind that spec asks for; nothing for exact attention.
using Projections = std::variant<std::monostate, SimHashPlanes, ReformerRotations, ClusterDirections>;
Projections DrawProjections(const AttentionSpec& spec, const AttentionShape& shape, uint32_t layer, uint64_t step);
// Whether there are as many, of the spec's kind, as the sequences of a batch ask for.
bool Suffice(const Projections& projections, const AttentionSpec& spec, const AttentionShape& shape);
// Whether some sequence is long enough to be hashed.
bool AnySparse(const AttentionSpec& spec, const AttentionShape& shape);
// Whether a forward only multiplies its queries, keys and values: then they may come rounded as products would round
// them. Hashing, fills, clusters and the normalisation of shared keys take them as they are.
bool OnlyMultiplies(const AttentionSpec& spec, const AttentionShape& shape);

// Which query meets which key: order of queries and keys per sequence, head and round, and the range of ordered keys
// that each tile of queries meets. See kernels/plan.h. Built once per forward, reused by the backward.
struct AttentionPlan;
using AttentionPlanPtr = std::shared_ptr<const AttentionPlan>;
AttentionPlanPtr BuildDensePlan(const AttentionShape& shape);
// Sequences that IsSparseAt leaves out get the dense plan. With sorted pairs buckets are what is sorted by. `buckets`
// [heads, hashes, tokens] as above.
AttentionPlanPtr BuildSimHashPlan(const AttentionSpec& spec, const AttentionShape& shape,
                                  std::span<const int32_t> query_buckets, std::span<const int32_t> key_buckets);
// `buckets` [heads, rounds, tokens]; unused, and may be empty, where no sequence needs a hash. Throws where CheckWindow
// does.
AttentionPlanPtr BuildReformerPlan(const AttentionSpec& spec, const AttentionShape& shape,
                                   std::span<const int32_t> buckets);
// `query_groups`, `key_clusters` [heads, tokens] as GroupByHalving's: clusters of the last level; they, groups and
// bundles may be of any size. Clusters are summed up by their keys' weighted means and chosen by the scores of query
// and key.
AttentionPlanPtr BuildClusteredPlan(const AttentionSpec& spec, const AttentionShape& shape,
                                    HeadTensor<const float> query, HeadTensor<const float> key,
                                    std::span<const int32_t> query_groups, std::span<const int32_t> key_clusters);
// The same with GroupByHalving's groups and clusters.
AttentionPlanPtr BuildClusteredPlan(const AttentionSpec& spec, const AttentionShape& shape,
                                    HeadTensor<const float> query, HeadTensor<const float> key,
                                    const ClusterDirections& directions);
// The plan that spec asks for: hashes query and key (the query alone where they are shared) with `projections` where a
// sequence is long enough for it; else `projections` may be empty.
AttentionPlanPtr BuildPlan(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                           HeadTensor<const float> key, const Projections& projections);
// Pairs that the plan itself did not need counted are counted here: as much work as a plan.
AttentionCounts Counts(const AttentionPlan& plan);
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
constexpr int Parts(Operands operands) { return operands == Operands::kTwoParts ? 2 : 1; }

// Plan and work memory of a forward + backward call, and of a forward alone.
int64_t WorkBytes(const AttentionPlan& plan, Operands operands = Operands::kFloat32);
int64_t ForwardWorkBytes(const AttentionPlan& plan, Operands operands = Operands::kFloat32);

struct AttentionForward {
  AttentionShape shape;
  HeadTensor<const float> query, key, value;  // no key where the plan shares keys
  HeadTensor<float> out;
  float* lse = nullptr;  // [tokens, heads]
  float scale = 1;       // ScaleOfScores(spec, head_dim)
  const AttentionPlan* plan = nullptr;
  AttentionDropout dropout;
  Operands operands = Operands::kFloat32;  // Error where it is not supported
  // In place of query, key and value, or of out: numbers in bfloat16, on AMX tiles alone (else Error) and without a
  // backward. Inputs so where OnlyMultiplies(); the output is rounded to nearest even, and what rows sum up between
  // passes is then in work memory, [length][head_dim] floats of each unit in work.
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

// The instruction sets the kernels were compiled for and this machine can run, best first, for example {"amx",
// "avx512", "avx2", "sse4"}: the first one is AVX-512 with products in bfloat16 in AMX tiles.
std::vector<std::string> SupportedIsas();
std::string ActiveIsa();
void ForceIsa(const std::string& name);   // "auto" or one of SupportedIsas(), in any case; UsageError otherwise
std::string IsaName(int64_t hwy_target);  // of one of Highway's HWY_AVX3 …
std::string WhyNoAmx();                   // one line where "amx" is not among SupportedIsas(), else empty

}  // namespace lshformer
