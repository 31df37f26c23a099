// Row by row: sums over rows, dropout, and layer normalisation (Ba et al. 2016) of a residual sum, forward and
// backward.
//
// Matrices are [rows, columns], contiguous. A row's result depends on that row alone and never on the number of
// threads, bit for bit. Sums over rows go through partial sums of 64 rows, added in order: they too are the same for
// any number of threads. Throws nothing: shapes are checked one level up. Work memory: those partial sums.
#pragma once
#include <cstdint>
#include <span>

namespace lshformer {

// sums[c] = Σ_rows x[row · row_stride + c].
void SumRows(const float* x, int64_t row_stride, int64_t rows, int64_t columns, float* sums);

// Inverted dropout: an element survives with 1 − probability and is then divided by it. Whether the element of feature
// c of a row survives is a function of (key, the row's sequence id, its position, c) alone (Philox), so a mask is never
// stored and does not depend on the batch.
struct RowDropout {
  float probability = 0;                   // 0: none; the rest is then unused
  uint64_t key = 0;                        // StreamKey(…, Purpose::kHiddenDropout)
  std::span<const uint64_t> sequence_ids;  // [rows]
  std::span<const int32_t> positions;      // [rows]
};
// out = dropout(x); its derivative is the same call on the gradient. out may be x.
void ApplyDropout(const RowDropout& dropout, const float* x, int64_t rows, int64_t columns, float* out);

// sum = residual + dropout(x);   y = (sum − mean) / √(variance + eps) · gamma + beta, over the columns of a row.
struct DropoutAddNorm {
  int64_t rows = 0, columns = 0;
  const float* x = nullptr;
  const float* residual = nullptr;  // or nullptr: none
  const float* gamma = nullptr;     // [columns]
  const float* beta = nullptr;
  float eps = 1e-12f;
  RowDropout dropout{};
  float* sum = nullptr;  // [rows, columns]; may be x, or y where no gradient will need it
  float* y = nullptr;
  float* mean = nullptr;  // [rows]; or nullptr, as the next: not kept
  float* inverse_deviation = nullptr;
};
void RunDropoutAddNorm(const DropoutAddNorm& call);

struct DropoutAddNormGradient {
  DropoutAddNorm forward;  // with the sum, mean and inverse_deviation it wrote
  const float* grad_y = nullptr;
  float* grad_x = nullptr;         // may equal grad_residual where there is no dropout
  float* grad_residual = nullptr;  // or nullptr where there is none
  float* grad_gamma = nullptr;     // [columns], overwritten
  float* grad_beta = nullptr;
};
void RunDropoutAddNormGradient(const DropoutAddNormGradient& call);

}  // namespace lshformer
