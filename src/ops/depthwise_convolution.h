// Convolution along each sequence, every channel by itself: Convolve of kernels/sequences.h, its taps as torch has a
// weight, [channels, width].
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
