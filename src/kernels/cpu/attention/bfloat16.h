// Products of bfloat16 numbers with float32 sums, on AVX-512's VDPBF16PS, for which Highway has no name.
//
// The instruction multiplies pairs that lie side by side along the depth of a product. So bfloat16 is held in pairs
// here: "[a][b] pairs" are 2·b numbers a row, or, where said so, the numbers of two neighbouring rows. Numbers below
// 2^-126 are taken for 0, in factors as in sums, whatever the thread's rounding mode is.
//
// None of this may be called where HasBFloat16Products() is false. All memory aligned to 64 bytes, row by row.
#pragma once
#include <cstddef>
#include <cstdint>

namespace lshformer {

using BFloat16Pair = uint32_t;  // the first number in the lower half

bool HasBFloat16Products();  // of the CPU: AVX512_BF16
// Whether they take less time than float32's: on AMD's processors (docs/performance.md).
bool BFloat16ProductsPay();

// Nearest, of two equally near ones the even one; count is a multiple of 16. True if all results are finite.
bool RoundToPairs(const float* from, int64_t count, BFloat16Pair* to);
bool RoundInPlace(float* numbers, int64_t count);

// The pairs that a product with `from` takes, where depth runs
//   along its rows:  to[r][c / 2] = (from[r][c], from[r][c + 1]), zeros from column `columns` on; the same stride
//   down its columns: to[r / 2][c] = (from[r][c], from[r + 1][c]), zero below the last row.
// from: [rows][stride], stride a multiple of 16.
void PairAlongRows(const float* from, int rows, int stride, int columns, BFloat16Pair* to);
void PairDownColumns(const float* from, int rows, int stride, BFloat16Pair* to);
void PairDownColumns(const BFloat16Pair* from, int rows, int stride, BFloat16Pair* to);
// to[c / 2][r] = (from[r][c], from[r][c + 1]), [stride / 2][padded] pairs, zeros from row `rows` on.
void TransposePairs(const float* from, int rows, int stride, int padded, BFloat16Pair* to);

// C[m][n] ← (0 | C | scale[m]·C)[m][n] + Σ_k a[m][k]·b[k][n], both factors in pairs along k.
struct PairedProduct {
  const BFloat16Pair* a;
  ptrdiff_t a_row, a_pair;  // steps from one m, and from one pair of k, to the next; one of them is 1
  const BFloat16Pair* b;    // [pairs][b_stride]
  ptrdiff_t b_stride;
  float* c;
  ptrdiff_t c_stride;
  int rows, columns, pairs;  // columns: a multiple of 16
};
void SetProduct(const PairedProduct& product, float factor);  // C ← factor · A·B; a_pair is 1
void AddProduct(const PairedProduct& product);
void ScaleAndAddProduct(const PairedProduct& product, const float* scale);  // a_row is 1

}  // namespace lshformer
