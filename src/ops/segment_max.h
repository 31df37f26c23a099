// The maximum over each of consecutive groups of rows, column by column (MaxOfSegments of kernels/sequences.h): max
// pooling over the characters of a word. The gradient goes to the first row that has the maximum.
#pragma once
#include <cstdint>
#include <vector>

#include "ops/torch.h"

namespace lshformer {

// x: [N, d] → [S, d]; segment s has the rows cu_segments[s] to cu_segments[s + 1], at least one. float32.
torch::Tensor SegmentMax(const torch::Tensor& x, const std::vector<int32_t>& cu_segments);
// For any floating type: the oracle.
torch::Tensor SegmentMaxReference(const torch::Tensor& x, const std::vector<int32_t>& cu_segments);

}  // namespace lshformer
