// y = f(x · Wᵀ + b) with weights prepared for inference.
//
//   kFloat32   as it stands
//   kBFloat16  x and W rounded to bfloat16, products exact, sums in float32
//   kInt8      x ≈ s_i · (q − z_i) per row, from the row's own range when it comes; W ≈ t_j · p per output;
//              y_ij = s_i · t_j · (Σ_k q_ik p_jk − z_i Σ_k p_jk) + b_j, the sums exact (kernels/low_precision.h)
//
// A row of y depends on that row of x alone, bit for bit. Work memory of each thread: kMostPackedRows
// rows of x in the low precision, of RunBoth and RunBothGated as many rows between the two maps too, and what
// kernels/matmul.h takes. Where AMX tiles are active when a weight is
// packed, products go through them (kernels/cpu/linear/amx_linear.h) and not through oneDNN; float32's as
// kernels/matmul_precision.h says.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/functions.h"
#include "kernels/low_precision.h"
#include "kernels/matmul.h"
#include "kernels/matmul_precision.h"

namespace lshformer {

// Calls body(begin, count) for pieces of `rows` rows of at most kMostPackedRows: few, so that what f and the next layer
// read is still in the cache where the product has just written it (256 rows of BERT base's widest layer are 3 MB).
// Where there is enough for every thread, each takes pieces for itself and goes through all of body with them; the
// threads meet at the end, not after every product. Few rows go through body one piece after another, and the
// products inside share their work among all threads.
inline constexpr int64_t kMostPackedRows = 512;
// tiles: in AMX tiles a pass over a weight takes longer than the products of few rows with it, so a thread's pieces
// are as large as they may be.
void ForPiecesOfRows(int64_t rows, bool tiles, const std::function<void(int64_t begin, int64_t count)>& body);

enum class AmxTiles;  // kernels/cpu/amx/amx_tiles.h
class AmxLinear;

class PackedLinear {
 public:
  // weight: [out, in], bias: [out], contiguous; both are copied.
  PackedLinear(Precision precision, const float* weight, const float* bias, int64_t out, int64_t in);
  ~PackedLinear();
  // x: [rows, in], y: [rows, out], contiguous.
  void Run(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const;
  // Of a map that rounds(), from rows as it would round them.
  void Run(int64_t rows, const BFloat16* x, float* y, std::optional<UnaryFunction> function) const;
  // y rounded to nearest even. A map that rounds() computes GELU as far as bfloat16 keeps it.
  void Run(int64_t rows, const float* x, BFloat16* y, std::optional<UnaryFunction> function) const;
  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  bool in_amx_tiles() const { return in_amx_tiles_ != nullptr; }
  bool rounds() const;    // maps in bfloat16 in tiles
  bool in_bytes() const;  // maps in bytes, not in tiles
  // Whether a weight packed now would go the same way: through the same tiles or none, by the same MatmulPrecision.
  bool up_to_date() const;

 private:
  friend void RunBoth(const PackedLinear&, UnaryFunction, const PackedLinear&, int64_t, const float*, float*);
  friend void RunBothGated(const PackedLinear&, UnaryFunction, const PackedLinear&, int64_t, const float*, float*);
  // RunBoth, or RunBothGated, of two that are in_bytes(). inner: [rows, first.out()], work memory.
  static void RunBothInBytes(const PackedLinear& first, UnaryFunction function, const PackedLinear& second,
                             int64_t rows, const float* x, float* inner, float* y);
  // The sums of x's products; what is to be done with them. function: for that.
  Dequantization MultiplyBytes(int64_t rows, const QuantizedRows& x, float* sums,
                               std::optional<UnaryFunction> function) const;
  void RunPiece(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const;
  void RunPiece(int64_t rows, const float* x, BFloat16* y, std::optional<UnaryFunction> function) const;
  template <class X, class Y>
  void RunRounded(int64_t rows, const X* x, Y* y, std::optional<UnaryFunction> function) const;
  Precision precision_;
  AmxTiles tiles_;                    // that were active when it was packed
  MatmulPrecision matmul_precision_;  // alike
  int64_t in_, out_;
  std::unique_ptr<const AmxLinear> in_amx_tiles_;  // then the rest is empty
  std::vector<float> bias_, scales_;               // scales_, sums_: kInt8
  std::vector<int32_t> sums_;
  std::unique_ptr<const PackedMatrix> weight_;
};

// y = second(f(first(x))), by pieces, so that the wide rows between the two are read in the cache where they have just
// been written; between two maps that round() they are never float32, and between two in_bytes() they become bytes in
// the pass that makes them (Requantize). x: [rows, first.in()], first.out() = second.in().
void RunBoth(const PackedLinear& first, UnaryFunction function, const PackedLinear& second, int64_t rows,
             const float* x, float* y);
// y = second(f(a) · b), [a b] = first(x), by pieces too (kernels/gated.h); the rows between the two are bfloat16 where
// the second rounds(), become bytes as in RunBoth between two in_bytes() (RequantizeGated), or are float32.
// first.out() = 2 · second.in().
void RunBothGated(const PackedLinear& first, UnaryFunction function, const PackedLinear& second, int64_t rows,
                  const float* x, float* y);

}  // namespace lshformer
