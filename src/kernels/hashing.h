// How tokens are told apart before a plan is made: what is drawn at random, and the buckets, groups and clusters that
// queries and keys fall into. Nothing here knows of softmax; plans (kernels/plan.h) sort by what comes out.
#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include "attention/spec.h"
#include "kernels/packed_heads.h"

namespace lshformer {

// What queries and keys fell into, int32: buckets [heads, hashes, tokens], of Reformer's rounds [heads, rounds, tokens]
// without keys; of clusters [heads, tokens], the groups (or bundles) of queries and the clusters of keys.
struct Buckets {
  std::vector<int32_t> query, key;
};

// SimHash: random hyperplanes of one call and layer; the same for queries and keys, for all sequences. Where bands
// follow the length a sequence takes the first BandsOf(its length) of each hash function, and a plane is the same
// however many are drawn.
struct SimHashPlanes {
  int bands = 0;
  std::vector<float> planes;          // [heads, hashes, bands, head_dim]
  std::vector<int32_t> coefficients;  // [heads, hashes, bands], in [0, table_size); 2^b where sign patterns are buckets
};
// Drawn from (spec.seed, layer, head, step), and (hash function, band) where sign patterns are buckets; step 0 outside
// training and with Resample::kNever. As many bands as a sequence of `longest` tokens takes. The heads are those from
// first_head on.
SimHashPlanes DrawSimHashPlanes(const AttentionSpec& spec, int heads, int head_dim, uint32_t layer, uint64_t step,
                                int64_t longest = 0, int first_head = 0);
// bit_b = (x·plane_b > 0), bucket = (Σ_b bit_b · coefficient_b) mod table_size. With spec.center_keys keys are hashed
// as key − mean key of their sequence. Where sign patterns are buckets, bucket = Σ_b bit_b · 2^b; with sorted pairs its
// place in Gray order instead, so that neighbours differ in one bit.
Buckets HashQueriesAndKeys(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                           HeadTensor<const float> key, const SimHashPlanes& planes);

// Reformer: random rotations of one call and layer. A column is the same however many are drawn.
struct ReformerRotations {
  int columns = 0;
  std::vector<float> rotations;  // [heads, rounds, head_dim, columns]
};
// Drawn from (spec.seed, layer, head, step, round, column); step as for planes. As many columns as the longest sequence
// of `shape` takes.
ReformerRotations DrawReformerRotations(const AttentionSpec& spec, const AttentionShape& shape, uint32_t layer,
                                        uint64_t step);
// Buckets [heads, rounds, tokens]: argmax([xR, −xR]) with R the first columns, the lowest index on ties; of two factors
// a1 + b1·a2, where the second takes the columns after the first's. A vector that is not finite is in some bucket.
// Sequences that need no hash are left at 0 where `needed_only`.
std::vector<int32_t> HashByRotation(const AttentionSpec& spec, const AttentionShape& shape,
                                    HeadTensor<const float> query, const ReformerRotations& rotations,
                                    bool needed_only = false);

// Clustered: directions of one call and layer, along which keys are sorted, and queries; the same for all sequences. A
// direction is the same however many are drawn.
struct ClusterDirections {
  int key_depth = 0, query_depth = 0;
  std::vector<float> key, query;  // [heads, head_dim, depth]
};
// Drawn from (spec.seed, layer, head, depth), keys and queries apart, once for ever. As many as the longest sequence of
// `shape` takes.
ClusterDirections DrawClusterDirections(const AttentionSpec& spec, const AttentionShape& shape, uint32_t layer);
// Groups of queries and clusters of keys, [heads, tokens] each, of equal sizes.
//
// Keys: C clusters of a sequence of n tokens, found by cutting ranges of clusters in two. A range [a, b) with b − a > 1
// that came from l cuts is sorted by direction_l·k, ascending; equal products keep the order they had, at first that of
// positions. With m = ⌊(a + b)/2⌋ its keys of ranks below ⌈m n / C⌉ go to the clusters below m, the others to the rest.
// Queries: groups likewise; cut l is along direction l mod kQueryDirections. Where queries open clusters together, each
// group is cut on into bundles (BundlesOfAGroup). The numbers given are then those of bundles, a group's in a row.
//
// Sequences that IsSparseAt leaves out are left at 0. A product that is no number counts as +∞.
Buckets GroupByHalving(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                       HeadTensor<const float> key, const ClusterDirections& directions);

// What is drawn, of the kind that spec asks for; nothing for exact attention.
using Projections = std::variant<std::monostate, SimHashPlanes, ReformerRotations, ClusterDirections>;
Projections DrawProjections(const AttentionSpec& spec, const AttentionShape& shape, uint32_t layer, uint64_t step);
// Whether there are as many, of the spec's kind, as the sequences of a batch ask for.
bool Suffice(const Projections& projections, const AttentionSpec& spec, const AttentionShape& shape);
// What all tokens fall into, with projections that suffice: by the function above of the spec's kind. Empty for exact
// attention. key: none where the kind shares keys.
Buckets FindBuckets(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                    HeadTensor<const float> key, const Projections& projections);

// Whether some sequence is long enough for anything but the kind's exact form.
bool AnySparse(const AttentionSpec& spec, const AttentionShape& shape);

}  // namespace lshformer
