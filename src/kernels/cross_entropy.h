// Losses of given logits, and their gradients. Throws nothing: labels are checked one level up. Work memory: none that
// grows.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lshformer {

// Softmax cross-entropy, row by row of logits [rows, columns], contiguous:
//
//   lse = log Σ_c exp(z_c),   loss = lse − z_label
//
// label < 0: the row is ignored (loss 0, gradient 0). A row's result depends on that row alone, bit for bit.
void CrossEntropy(const float* logits, int64_t rows, int64_t columns, const int32_t* labels, float* loss, float* lse);
// Columns [first, first + columns) of the gradient, in place of the logits: scale · (softmax − one-hot(label)).
void CrossEntropyGradient(float* logits, int64_t row_stride, int64_t rows, int64_t first, int64_t columns,
                          const int32_t* labels, const float* lse, float scale);
// The mean of loss over rows with label ≥ 0, summed in double in the order of rows; 0 where there is none.
double MeanCrossEntropy(const float* logits, int64_t rows, int64_t columns, const int32_t* labels);

// The loss of extractive question answering over packed sequences:
//
//   loss = ½ (mean_b −log softmax(z_b[:, 0])[start_b]  +  mean_b −log softmax(z_b[:, 1])[end_b])
//
// z: logits [T, 2] (start, end), z_b the rows cu_seqlens[b] to cu_seqlens[b + 1]: the softmax runs over the sequence's
// own tokens. A position at or past the sequence's end is ignored (left out of its mean, starts and ends apart), a
// negative one is 0. Nothing to average: 0. A sequence's terms do not depend on the others. Sums in double.
struct SpanCrossEntropyCall {
  const float* logits = nullptr;          // [T, 2]
  std::span<const int32_t> cu_seqlens;    // [B + 1]
  std::span<const int32_t> starts, ends;  // [B]
};
// Returns the loss; gradient: [T, 2], zeros before, or nullptr: not wanted.
double RunSpanCrossEntropy(const SpanCrossEntropyCall& call, float* gradient);

}  // namespace lshformer
