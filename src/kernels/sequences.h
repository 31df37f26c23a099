// Kernels on packed sequences of rows (Highway), forward and backward: the formulas are in depthwise_convolution.h and
// segment_max.h. Matrices are [rows, columns], contiguous. Nothing depends on the number of threads, bit for bit.
#pragma once
#include <cstdint>
#include <span>

namespace lshformer {

// y = the convolution of x with taps [width, channels]; the gradient by x is the same with the taps in reverse.
void Convolve(std::span<const int32_t> cu_seqlens, int64_t channels, int64_t width, const float* x, const float* taps,
              float* y);
// grad_taps [width, channels], by partial sums of 64 rows, added in order.
void ConvolveTapGradient(std::span<const int32_t> cu_seqlens, int64_t channels, int64_t width, const float* x,
                         const float* grad_y, float* grad_taps);

// y[s, c] = the largest of its segment, rows[s, c] = the first row that has it.
void MaxOfSegments(std::span<const int32_t> cu_segments, int64_t columns, const float* x, float* y, int32_t* rows);

}  // namespace lshformer
