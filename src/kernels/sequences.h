// Along packed sequences of rows, forward and backward: depthwise convolution, the maximum of segments, the mean under
// a softmax. Matrices are [rows, columns], contiguous; sequence (segment) s has the rows cu[s] to cu[s + 1].
//
// A sequence never sees another, and nothing depends on the number of threads, bit for bit. Throws nothing: borders are
// checked one level up.
#pragma once
#include <cstdint>
#include <span>

namespace lshformer {

// Convolution with every channel by itself (Chollet 2017; the first half of a depthwise-separable one):
//
//   y[t, c] = Σ_{j=0}^{width−1} taps[j, c] · x[t + j − (width−1)/2, c]
//
// width is odd; rows beyond a sequence's ends count as 0. Sequences may be empty. x, y: [T, channels]; taps: [width,
// channels]. The gradient by x is the same with the taps in reverse.
void Convolve(std::span<const int32_t> cu_seqlens, int64_t channels, int64_t width, const float* x, const float* taps,
              float* y);
// grad_taps [width, channels], overwritten, by partial sums of 64 rows, added in order: the work memory.
void ConvolveTapGradient(std::span<const int32_t> cu_seqlens, int64_t channels, int64_t width, const float* x,
                         const float* grad_y, float* grad_taps);

// y[s, c] = max over the rows n of segment s of x[n, c], rows[s, c] = the first row that has it. Not a number, where
// there is one, is the maximum. Segments have at least one row.
void MaxOfSegments(std::span<const int32_t> cu_segments, int64_t columns, const float* x, float* y, int32_t* rows);
// grad_x[rows[s, c], c] = grad_y[s, c]; the rest of grad_x stays as it was: zeros.
void MaxOfSegmentsGradient(int64_t segments, int64_t columns, const float* grad_y, const int32_t* rows, float* grad_x);

// y_b = Σ_t p_t x_t,   p = softmax(scores_b),   t over the rows of sequence b, of which there is at least one.
// scores, p: [T], x: [T, columns], y: [B, columns]. Sums in double, over t and c ascending.
struct SoftmaxPooling {
  std::span<const int32_t> cu_seqlens;
  int64_t columns = 0;
  const float* scores = nullptr;  // the gradient does without
  const float* x = nullptr;
  float* p = nullptr;  // written, and read by the gradient
};
void RunSoftmaxPooling(const SoftmaxPooling& call, float* y);
//   grad_x_t = p_t g_b,   grad_scores_t = p_t (g_b·x_t − Σ_u p_u g_b·x_u),   g = grad_y
void RunSoftmaxPoolingGradient(const SoftmaxPooling& call, const float* grad_y, float* grad_scores, float* grad_x);

}  // namespace lshformer
