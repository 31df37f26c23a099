#include "kernels/ref/simhash_pairs.h"

#include <algorithm>
#include <numeric>

namespace lshformer::ref {
namespace {

// The chunk of every position where positions are sorted by (bucket, position).
std::vector<int64_t> ChunksOfSorted(const int32_t* buckets, int64_t length, int64_t chunk) {
  std::vector<int64_t> order(length), chunks(length);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return buckets[a] < buckets[b]; });
  for (int64_t place = 0; place < length; ++place) chunks[order[place]] = place / chunk;
  return chunks;
}

}  // namespace

bool AlwaysSees(const AttentionSpec& spec, int64_t length, int64_t query, int64_t key) {
  if (spec.window > 0 && query - key <= spec.window && key - query <= spec.window) return true;
  if (spec.global_first && (query == 0 || key == 0)) return true;
  return spec.global_last && (query == length - 1 || key == length - 1);
}

SimHashPairs::SimHashPairs(const SimHashAttention& simhash, const AttentionSpec& spec, int length,
                           const int32_t* query_buckets, const int32_t* key_buckets, int64_t stride)
    : simhash_(simhash),
      spec_(spec),
      hashed_(query_buckets != nullptr && IsSparseAt(spec, length)),
      query_buckets_(query_buckets),
      key_buckets_(key_buckets),
      stride_(stride),
      length_(length) {
  if (!hashed_ || simhash.pairs != Pairs::kSorted) return;
  for (int hash = 0; hash < simhash.hashes; ++hash) {
    for (const bool of_keys : {false, true}) {
      const std::vector<int64_t> chunks =
          ChunksOfSorted((of_keys ? key_buckets : query_buckets) + hash * stride, length, simhash.chunk);
      std::vector<int64_t>& all = of_keys ? key_chunk_ : query_chunk_;
      all.insert(all.end(), chunks.begin(), chunks.end());
    }
  }
}

bool SimHashPairs::Sees(int64_t query, int64_t key) const {
  if (!hashed_ || AlwaysSees(spec_, length_, query, key)) return true;
  if (simhash_.pairs == Pairs::kSorted) return SeeEachOther(query, key);
  if (simhash_.pairs == Pairs::kReference && query > key) return Collide(key, query);  // the upper triangle, mirrored
  return Collide(query, key);
}

bool SimHashPairs::Collide(int64_t query, int64_t key) const {
  for (int hash = 0; hash < simhash_.hashes; ++hash) {
    if (query_buckets_[hash * stride_ + query] == key_buckets_[hash * stride_ + key]) return true;
  }
  return false;
}

bool SimHashPairs::SeeEachOther(int64_t query, int64_t key) const {
  for (int hash = 0; hash < simhash_.hashes; ++hash) {
    const int64_t own = query_chunk_[hash * length_ + query], other = key_chunk_[hash * length_ + key];
    if (other >= own - simhash_.look_back && other <= own + simhash_.look_ahead) return true;
  }
  return false;
}

}  // namespace lshformer::ref
