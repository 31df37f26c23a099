// One row a sequence: the mean of its rows under the softmax of their scores (SoftmaxPooling of kernels/sequences.h).
#pragma once
#include <cstdint>
#include <vector>

#include "ops/torch.h"

namespace lshformer {

// scores: [T], x: [T, d] → [B, d]. float32, sums in double. Sequence b has the rows cu_seqlens[b] to cu_seqlens[b + 1],
// at least one. Results and gradients of a sequence depend neither on the others nor on the number of threads.
torch::Tensor AttentivePooling(const torch::Tensor& scores, const torch::Tensor& x,
                               const std::vector<int32_t>& cu_seqlens);
// For any floating type: the oracle.
torch::Tensor AttentivePoolingReference(const torch::Tensor& scores, const torch::Tensor& x,
                                        const std::vector<int32_t>& cu_seqlens);

}  // namespace lshformer
