// y = f(x · Wᵀ + b) in AMX tiles (kernels/cpu/amx/product.h): what PackedLinear does where there are some.
//
//   kBFloat16  x and W rounded to bfloat16, products and sums as tiles have them, plus b, f
//   kInt8      sums of bytes, exact, and from them y as packed_linear.h has it: the bits are those of any other way to
//              the sums
//   kFloat32   x and W as sums of parts in bfloat16, as kernels/matmul_precision.h chooses;
//   kernels/cpu/linear/split_linear.h
//
// b, scales and f are applied to a block of sums that is still in the first cache. A row of y depends on that row of x
// alone, bit for bit. Work memory of a thread: its rows of x in the low precision, and what cpu/amx/product.h takes.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/cpu/amx/product.h"
#include "kernels/functions.h"
#include "kernels/matmul.h"
#include "kernels/precision.h"

namespace lshformer {

class RoundedAmxLinear;

class AmxLinear {
 public:
  virtual ~AmxLinear() = default;
  // x: [rows, in], y: [rows, out], contiguous. At most kMostPackedRows rows.
  virtual void Run(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const = 0;
  // Null but for maps in bfloat16.
  virtual const RoundedAmxLinear* Rounded() const { return nullptr; }
};

// A map in bfloat16. Between two of them rows need never be float32: what one gives rounded is what the other would
// round to, bit for bit.
class RoundedAmxLinear : public AmxLinear {
 public:
  RoundedAmxLinear(AmxTiles tiles, const float* weight, const float* bias, int64_t out, int64_t in);
  void Run(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const override;
  void Run(int64_t rows, const float* x, BFloat16* y, std::optional<UnaryFunction> function) const;
  void Run(int64_t rows, const BFloat16* x, float* y, std::optional<UnaryFunction> function) const;
  const RoundedAmxLinear* Rounded() const override { return this; }

 private:
  void Multiply(int64_t rows, const BFloat16* x, const std::function<void(const SumBlock&)>& finish) const;
  AmxTiles tiles_;
  int64_t in_;
  std::vector<float> bias_;
  PackedAmxTiles weight_;
};

// weight: [out, in], bias: [out], contiguous; both are copied. Null where this map goes without tiles: none are active,
// or float32 is multiplied as such (kernels/matmul_precision.h), or the weight holds numbers that have no parts.
std::unique_ptr<const AmxLinear> MakeAmxLinear(Precision precision, const float* weight, const float* bias, int64_t out,
                                               int64_t in);

// The products of training, of factors in bfloat16 that lie either way round: in tiles where they are active, else by
// MultiplyBf16. In tiles a row of c depends on that row of a alone, a weight gradient's too. Work memory there: the
// second factor packed, and the first turned round where it lies by columns.
void MultiplyRounded(const ProductOf<BFloat16>& product);

// y += sums, and y = f(sums + bias), of a matrix y of `columns` columns; bias, or nullptr: of all columns.
void AddBlock(const SumBlock& block, int64_t columns, float* y);
void FinishBlock(const SumBlock& block, const float* bias, std::optional<UnaryFunction> function, int64_t columns,
                 float* y);
// Into c: plus bias, or added to what stands there.
template <class T>
void FinishBlock(const SumBlock& block, const ProductOf<T>& product) {
  if (product.accumulate) return AddBlock(block, product.c_stride, product.c);
  FinishBlock(block, product.bias, {}, product.c_stride, product.c);
}

}  // namespace lshformer
