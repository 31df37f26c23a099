// Products of matrices through oneDNN: float32, bfloat16 with float32 sums, and 8-bit integers with exact sums. Without
// AVX-512 float32 goes through panels of our own (kernels/cpu/panels/panels.h).
//
//   c[m, n] = Σ_k a[m, k] · b[k, n] (+ bias[n]) (+ c[m, n])          (kernels/matrix.h)
//
// A row of c depends on that row of a alone: not on how many rows the call has, where the row stands, nor on the number
// of threads, bit for bit. Where oneDNN's implementation does not promise that, rows go through it in blocks of one
// fixed size (RowBlock). The exception is `inner_is_tokens`, for weight gradients, where k runs over the tokens of the
// batch: equal batches give equal bits, on any number of threads if a's tokens lie one after another (row stride 1).
//
// Work memory of a calling thread: a scratchpad of at most a few megabytes, because the library's own is shared; in
// panels 4 MB.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bfloat16.h"
#include "kernels/matrix.h"
#include "kernels/precision.h"

namespace lshformer {

void Multiply(const MatrixProduct& product);
// "avx512" where float32 goes through oneDNN, else ActiveIsa(), of panels. ONEDNN_MAX_CPU_ISA=AVX2 asks for panels.
std::string Float32ProductsIsa();
// Needs a CPU with such instructions (SupportsProducts).
void MultiplyBf16(const ProductOf<BFloat16>& product);

// Whether the CPU has instructions for products of bfloat16 (AVX512_BF16, AMX) or of 8-bit integers (VNNI, AMX).
bool SupportsProducts(Precision precision);

// b reordered once into the layout that the implementation prefers, which is asked for here, of one thread, and then
// kept: another number of threads might be answered by another layout. inner is at least 1.
class PackedMatrix {
 public:
  // `format_tag`, a dnnl_format_tag_t: this layout instead (tests show with it that a layout is never guessed again).
  PackedMatrix(MatrixView b, int64_t inner, int64_t columns, std::optional<int> format_tag = {});
  PackedMatrix(MatrixOf<BFloat16> b, int64_t inner, int64_t columns);
  PackedMatrix(MatrixOf<int8_t> b, int64_t inner, int64_t columns);
  ~PackedMatrix();
  // c = a · b (+ bias); a: [rows, inner] with row stride a_stride, c: [rows, columns] with row stride c_stride. The
  // type of a is that which b was packed for: float, BFloat16, and uint8_t for int8_t, whose sums are exact.
  void Multiply(int64_t rows, const float* a, int64_t a_stride, const float* bias, float* c, int64_t c_stride) const;
  void Multiply(int64_t rows, const BFloat16* a, int64_t a_stride, const float* bias, float* c, int64_t c_stride) const;
  void Multiply(int64_t rows, const uint8_t* a, int64_t a_stride, int32_t* c, int64_t c_stride) const;

 private:
  void Pack(Precision precision, const void* b, int64_t row_stride, int64_t column_stride, int64_t inner,
            int64_t columns, std::optional<int> format_tag);
  void Run(int64_t rows, const void* a, int64_t a_stride, const float* bias, void* c, int64_t c_stride) const;
  struct Packed;
  std::unique_ptr<const Packed> packed_;
};

// Rows per call of an implementation of oneDNN, by its name: 0 = all at once, since its rows do not depend on each
// other.
int64_t RowBlock(const std::string& implementation);

}  // namespace lshformer
