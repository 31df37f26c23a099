// SimHash attention: a query meets the keys on the same side of random hyperplanes. Semantics: docs/attention.md.
#pragma once
#include <cstdint>

namespace lshformer {

template <class Struct>
struct OptionTable;  // base/option_table.h
struct AttentionSpec;

enum class Fill { kZero, kMean, kNone };  // what a query does with keys it does not collide with
enum class Pairs {
  kFull,
  kReference,
  kSorted
};  // every colliding (query, key), the BERT-LSH authors' mirrored upper triangle, or chunks of a sorted order

struct SimHashAttention {
  static constexpr const char* kName = "simhash";
  static constexpr bool kSparse = true;
  static constexpr bool kSharesKeys = false;

  int bands = 2;        // hyperplanes per hash function, 1 … 62; 0: auto, by the sequence's own length
  int hashes = 1;       // hash functions; a pair that collides under several counts once
  int table_size = 64;  // buckets per hash function; 2^bands where bands are auto or pairs sorted
  Fill fill = Fill::kZero;
  Pairs pairs = Pairs::kFull;
  bool center_keys = false;  // hash key − mean key
  // Sorted pairs: their order has no beginning, so both sides are worth the same.
  int chunk = 64;                     // tokens
  int look_back = 1, look_ahead = 1;  // chunks

  bool operator==(const SimHashAttention&) const = default;
};

const OptionTable<AttentionSpec>& Options(const SimHashAttention&);
// With sorted pairs the shortest that some window does not hold whole.
int64_t ShortestSparse(const SimHashAttention& simhash);
int64_t ShortestToPlan(const SimHashAttention& simhash);
double ScaleOfScores(const SimHashAttention& simhash, int head_dim);

// Hyperplanes per hash function for a sequence of `length` tokens. auto: the least number b ≥ 1 with 2^b ≥ length /
// 128, so that a bucket holds 64 to 128 tokens where vectors fall evenly; with sorted pairs 2^b ≥ 2 · length / chunk, a
// bucket being at most half a chunk.
int BandsOf(const SimHashAttention& simhash, int64_t length);
// Whether every sign pattern is a bucket of its own, Σ bit_b · 2^b, or its place in Gray order: bands auto, sorted.
bool SignPatternsAreBuckets(const SimHashAttention& simhash);
// Buckets for such a sequence: table_size, or 2^bands.
int64_t TableSizeOf(const SimHashAttention& simhash, int64_t length);

}  // namespace lshformer
