// Which pairs of one sequence under one head SimHash attention sees, and which are seen always, as docs/attention.md
// tells it.
#pragma once
#include <cstdint>
#include <vector>

#include "attention/spec.h"

namespace lshformer::ref {

// Whether a pair of a sequence that is hashed is seen whatever the hash says: neighbours, and global tokens with all.
bool AlwaysSees(const AttentionSpec& spec, int64_t length, int64_t query, int64_t key);

class SimHashPairs {
 public:
  // buckets[hash · stride + position]; null before hashing and unused where IsSparseAt is false: every pair is seen.
  SimHashPairs(const SimHashAttention& simhash, const AttentionSpec& spec, int length, const int32_t* query_buckets,
               const int32_t* key_buckets, int64_t stride);

  bool Sees(int64_t query, int64_t key) const;

 private:
  bool Collide(int64_t query, int64_t key) const;
  bool SeeEachOther(int64_t query, int64_t key) const;

  const SimHashAttention& simhash_;
  const AttentionSpec& spec_;
  bool hashed_;
  const int32_t *query_buckets_, *key_buckets_;
  int64_t stride_, length_;
  std::vector<int64_t> query_chunk_, key_chunk_;  // [hashes, length], sorted pairs
};

}  // namespace lshformer::ref
