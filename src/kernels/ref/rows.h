// The oracle of kernels/rows.h: its formulas in double, one row after another.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/rows.h"

namespace lshformer::ref {

// Σ over rows of x[row · row_stride + c].
std::vector<double> SumRows(std::span<const float> x, int64_t row_stride, int64_t rows, int64_t columns);

// 0 or 1 / (1 − p) for each element: feature c takes word (c / 16) mod 4 of the Philox block that is numbered
// 16 · (c / 64) + c mod 16, and falls where its 31 upper bits are below p · 2³¹. [rows, columns]
std::vector<double> DropoutFactors(const RowDropout& dropout, int64_t rows, int64_t columns);

struct NormInputs {
  int64_t rows = 0, columns = 0;
  std::span<const double> x, residual, gamma, beta;  // residual: empty where there is none
  double eps = 0;
  std::span<const double> factors;  // of dropout; empty: none
};
std::vector<double> DropoutAddNorm(const NormInputs& in);

struct NormGradients {
  std::vector<double> x, residual, gamma, beta;
};
// Of Σ y · grad_y.
NormGradients DropoutAddNormGradient(const NormInputs& in, std::span<const double> grad_y);

}  // namespace lshformer::ref
