// y = f(x · Wᵀ + b) in matrix tiles (kernels/cpu/tile_product.h): what PackedLinear does where there are some.
//
//   kBFloat16  x and W rounded to bfloat16, products and sums as tiles have them, plus b, f
//   kInt8      sums of bytes, exact, and from them y as packed_linear.h has it: the bits are those of any other way to
//              the sums
//
// b, scales and f are applied to a block of sums that is still in the first cache. A row of y depends on that row of x
// alone, bit for bit. Work memory of a thread: its rows of x in the low precision, and what tile_product.h takes.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cpu/tile_product.h"
#include "ops/precision.h"
#include "ops/row_kernels.h"

namespace lshformer {

class TileLinear {
 public:
  // weight: [out, in], bias: [out], contiguous; both are copied. tiles: not kNone.
  TileLinear(Precision precision, MatrixTiles tiles, const float* weight, const float* bias, int64_t out, int64_t in);
  // x: [rows, in], y: [rows, out], contiguous. At most kMostPackedRows rows.
  void Run(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const;

 private:
  PackedTiles Pack(Precision precision, const float* weight, int64_t out, int64_t in);
  void RunBFloat16(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const;
  void RunInt8(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const;
  Precision precision_;
  MatrixTiles tiles_;
  int64_t in_;
  std::vector<float> bias_, scales_;  // scales_, sums_: kInt8
  std::vector<int32_t> sums_;
  PackedTiles weight_;
};

}  // namespace lshformer
