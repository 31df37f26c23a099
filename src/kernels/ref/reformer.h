// Reformer attention as docs/attention.md tells it, round by round; the Reformer half of ref/attention.h.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/ref/attention.h"

namespace lshformer::ref {

Outputs Forward(const ReformerAttention&, const Inputs& in);
// `key` stays empty.
Gradients Backward(const ReformerAttention&, const Inputs& in, std::span<const double> grad_out);

// How often query i meets key j in one sequence under one head, [length, length]; with count_pairs_once 0 or 1.
// Buckets: buckets[round · stride + position]; unused where IsSparseAt is false.
std::vector<int32_t> MeetingCounts(const AttentionSpec& spec, int length, const int32_t* buckets, int64_t stride);

// The hash of HashByRotation with products in double: it differs where the two largest are almost equal.
std::vector<int32_t> HashByRotation(const Inputs& in, const ReformerRotations& rotations);

}  // namespace lshformer::ref
