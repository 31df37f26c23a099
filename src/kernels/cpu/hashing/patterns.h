// What the two ways of hashing for SimHash share.
#pragma once
#include <vector>

#include "kernels/hashing.h"
#include "kernels/packed_heads.h"

namespace lshformer {

// The mean of tokens [begin, end) under one head, [head_dim].
std::vector<float> MeanRow(HeadTensor<const float> x, int64_t begin, int64_t end, int head, int head_dim);

// HashQueriesAndKeys where sign patterns are buckets.
Buckets HashSignPatterns(const SimHashAttention& simhash, const AttentionShape& shape, HeadTensor<const float> query,
                         HeadTensor<const float> key, const SimHashPlanes& planes);

}  // namespace lshformer
