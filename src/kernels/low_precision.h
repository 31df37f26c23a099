// Rounding and quantisation of rows on plain pointers (Highway): what stands before and behind a product in low
// precision. Matrices are [rows, columns]; a row's result depends on that row alone, bit for bit.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "base/bfloat16.h"
#include "kernels/functions.h"

namespace lshformer {

// To the nearest bfloat16, of two equally near ones to the even one; NaN stays NaN, what is too large becomes infinite.
// x: [rows, columns] with row stride x_stride; out: contiguous.
void RoundRows(const float* x, int64_t x_stride, int64_t rows, int64_t columns, BFloat16* out);
// The same of contiguous rows into work memory of the calling thread (WorkspaceUse::kLowFactor).
const BFloat16* RoundRows(const float* x, int64_t rows, int64_t columns);

// x as the sum of parts, each the nearest bfloat16 to what those before it leave (kernels/cpu/linear/split_linear.h).
// x: [rows, columns] with row stride x_stride; parts: of each as many, contiguous. fits[row]: 1, or 0 where a number of
// the row is neither 0 nor least ≤ |x| < 2¹²⁷.
void SplitRows(const float* x, int64_t x_stride, int64_t rows, int64_t columns, std::span<BFloat16* const> parts,
               float least, uint8_t* fits);
// So many parts add up to x exactly where it has at least this size: its least bit is one of float's normal numbers.
inline constexpr int kPartsOfFloat = 3;
inline constexpr float kLeastExactlySplit = 0x1p-100f;

// x ≈ scale · (q − zero). scale is NaN where the row holds a number that is not finite.
struct RowScale {
  float scale;
  int32_t zero;
};

//   low = min(0, min x), high = max(0, max x), scale = (high − low) / 255, zero = round(−low / scale),
//   q = min(max(round(x / scale) + zero, 0), 255)
//
// over the columns of a row; a row of zeros has scale 1. So 0 is represented exactly and one side of the range is not
// wasted on a function that has no values there (GELU). x, out: contiguous; scales: [rows].
void QuantizeRows(const float* x, int64_t rows, int64_t columns, uint8_t* out, RowScale* scales);
// The same into work memory of the calling thread (WorkspaceUse::kLowFactor and kRowScales).
struct QuantizedRows {
  uint8_t* numbers;
  RowScale* scales;
};
QuantizedRows QuantizeRows(const float* x, int64_t rows, int64_t columns);

//   scale = max |w| / 127, q = round(w / scale), sum = Σ q
//
// over the columns of a row of the weight, that is per output; a row of zeros has scale 1. Contiguous.
void QuantizeWeight(const float* w, int64_t rows, int64_t columns, int8_t* out, float* scales, int32_t* sums);

//   y[i, j] = f(scale_i · weight_scale_j · (sum[i, j] − zero_i · weight_sum_j) + bias_j)
//
// in place of the sums: y holds the int32 sums and then the floats. [rows, columns], contiguous.
struct Dequantization {
  std::span<const RowScale> rows;
  std::span<const float> weight_scales, bias;  // [columns]
  std::span<const int32_t> weight_sums;
  std::optional<UnaryFunction> function;  // f; or none
};
void Dequantize(const Dequantization& call, float* y);
// The same rounded, as RoundRows does, of a call without f. sums, out: [rows, columns].
void Dequantize(const Dequantization& call, const float* sums, BFloat16* out);
// The same without f for some rows and columns, whose sums stand at `sums` with row stride `stride`; on the calling
// thread.
struct DequantizedBlock {
  int64_t row, column, rows, columns;
  float* sums;
  int64_t stride;
};
void DequantizeBlock(const Dequantization& call, const DequantizedBlock& block);
// Dequantize and QuantizeRows in one pass over each row, of a call that has f. GELU is within 2⁻¹² here, and within
// 2⁻¹¹·|x|: a small part of a step of 8 bits. What is left in y is of no use. out: [rows, columns]; scales: [rows], may
// be those of the call.
void Requantize(const Dequantization& call, float* y, uint8_t* out, RowScale* scales);
// The same of f(a) · b, [a b] = the numbers without f (kernels/gated.h), GELU's error times |b|. y: [rows, 2 ·
// columns], out: [rows, columns].
void RequantizeGated(const Dequantization& call, float* y, uint8_t* out, RowScale* scales);

}  // namespace lshformer
