// Convolution along each sequence, every channel by itself (Chollet 2017; the first half of a depthwise-separable one).
//
//   y[t, c] = Σ_{j=0}^{k−1} weight[c, j] · x[t + j − (k−1)/2, c]
//
// k is odd; rows beyond a sequence's ends count as 0. A sequence never sees another.
#pragma once
#include <cstdint>
#include <vector>

#include "ops/torch.h"

namespace lshformer {

// x: [T, d], weight: [d, k] → [T, d]. float32. Results and gradients are the same bits for any number of threads.
torch::Tensor DepthwiseConvolution(const torch::Tensor& x, const torch::Tensor& weight,
                                   const std::vector<int32_t>& cu_seqlens);
// Through libtorch's convolution, sequence by sequence, for any floating type: the oracle.
torch::Tensor DepthwiseConvolutionReference(const torch::Tensor& x, const torch::Tensor& weight,
                                            const std::vector<int32_t>& cu_seqlens);

}  // namespace lshformer
