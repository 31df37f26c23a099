// One vector for the hidden states x_0 … x_{n−1} of a text, rows of H numbers:
//
//   none            the rows as they are
//   cls             x_0
//   mean            Σ x_i / n, all tokens alike, special ones too
//   max             of each number the largest over all rows
//   mean_sqrt_len   Σ x_i / √n
//   weightedmean    Σ (i + 1) x_i / Σ (i + 1)
//   lasttoken       x_{n−1}
//
// Sums are float64. A text without rows has the vector 0 (no model gives one). The names are those of
// Sentence-Transformers, which writes the fourth "mean_sqrt_len_tokens".
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "ops/torch.h"

namespace lshformer {

enum class Pooling { kNone, kCls, kMean, kMax, kMeanSqrtLen, kWeightedMean, kLastToken };

// Of every sequence of packed states [T, H], float64: [sequences, H], of kNone [T, H]. Gradients go through. A
// sequence's vector depends on its rows alone, bit for bit.
torch::Tensor Pool(const torch::Tensor& states, std::span<const int32_t> cu_seqlens, Pooling pooling);

// Of one text's rows [n, width] as they lie in memory, float32: [width], of kNone [n, width]. With `normalize` every
// vector has length 1, but 0 stays 0. Rows are added up in their order; the other form adds up as torch does, which
// differs in the last bits of float64. The first `skipped` rows are left out; weights count them nevertheless.
std::vector<float> PoolRows(std::span<const float> rows, int64_t width, Pooling pooling, bool normalize,
                            int64_t skipped = 0);

// To length 1; 0 stays 0.
void NormalizeVector(std::span<float> vector);

}  // namespace lshformer
