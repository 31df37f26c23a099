#include "kernels/cpu/linear/amx_linear.h"

#include <vector>

#include "kernels/cpu/amx/packing.h"
#include "kernels/cpu/linear/split_linear.h"
#include "kernels/cpu/rows/blocks.h"
#include "kernels/low_precision.h"
#include "kernels/matmul_precision.h"
#include "kernels/work_memory.h"

namespace lshformer {
namespace {

constexpr PartPair kOnePair[] = {{0, 0}};

PackedAmxTiles PackRounded(const float* weight, int64_t out, int64_t in) {
  std::vector<BFloat16> rounded(static_cast<size_t>(out * in));
  RoundRows(weight, in, out, in, rounded.data());
  const void* const part[] = {rounded.data()};
  return PackedAmxTiles(AmxNumbers::kBFloat16, part, in, out);
}

class ByteAmxLinear : public AmxLinear {
 public:
  ByteAmxLinear(AmxTiles tiles, const float* weight, const float* bias, int64_t out, int64_t in)
      : tiles_(tiles),
        in_(in),
        bias_(bias, bias + out),
        scales_(static_cast<size_t>(out)),
        sums_(static_cast<size_t>(out)),
        weight_(Pack(weight, out)) {}

  void Run(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const override {
    const QuantizedRows bytes = QuantizeRows(x, rows, in_);
    const Dequantization call{{bytes.scales, static_cast<size_t>(rows)}, scales_, bias_, sums_, {}};
    MultiplyPacked({&weight_, {bytes.numbers}, in_, rows, kOnePair, tiles_}, [&](const SumBlock& block) {
      DequantizeBlock(call, {block.row, block.column, block.rows, block.columns, block.sums, kPanelColumns});
      FinishBlock(block, nullptr, function, weight_.columns(), y);
    });
  }

 private:
  PackedAmxTiles Pack(const float* weight, int64_t out) {
    std::vector<int8_t> quantized(static_cast<size_t>(out * in_));
    QuantizeWeight(weight, out, in_, quantized.data(), scales_.data(), sums_.data());
    const void* const part[] = {quantized.data()};
    return PackedAmxTiles(AmxNumbers::kBytes, part, in_, out);
  }
  AmxTiles tiles_;
  int64_t in_;
  std::vector<float> bias_, scales_;
  std::vector<int32_t> sums_;
  PackedAmxTiles weight_;
};

void MultiplyInAmxTiles(const ProductOf<BFloat16>& product, AmxTiles tiles) {
  const int64_t rows = product.rows, columns = product.columns, inner = product.inner;
  const auto halves = [](const BFloat16* x) { return reinterpret_cast<const uint16_t*>(x); };
  const BFloat16* a = product.a.data;
  int64_t a_stride = product.a.row_stride;
  if (product.a.column_stride != 1) {  // [inner][rows]
    auto* turned = WorkspaceOf(WorkspaceUse::kFilledFactor, rows * inner * sizeof(BFloat16));
    TransposeHalves(halves(a), inner, rows, reinterpret_cast<uint16_t*>(turned));
    a = reinterpret_cast<const BFloat16*>(turned);
    a_stride = inner;
  }
  const void* const part[] = {product.b.data};
  const PackedAmxTiles b = product.b.column_stride == 1 ? PackedAmxTiles::OfRows(part, inner, columns)
                                                        : PackedAmxTiles(AmxNumbers::kBFloat16, part, inner, columns);
  const int64_t a_bytes = a_stride * static_cast<int64_t>(sizeof(BFloat16));
  MultiplyPacked({&b, {a}, a_bytes, rows, kOnePair, tiles},
                 [&](const SumBlock& block) { FinishBlock(block, product); });
}

}  // namespace

RoundedAmxLinear::RoundedAmxLinear(AmxTiles tiles, const float* weight, const float* bias, int64_t out, int64_t in)
    : tiles_(tiles), in_(in), bias_(bias, bias + out), weight_(PackRounded(weight, out, in)) {}

void RoundedAmxLinear::Multiply(int64_t rows, const BFloat16* x,
                                const std::function<void(const SumBlock&)>& finish) const {
  MultiplyPacked({&weight_, {x}, in_ * static_cast<int64_t>(sizeof(BFloat16)), rows, kOnePair, tiles_}, finish);
}

void RoundedAmxLinear::Run(int64_t rows, const BFloat16* x, float* y, std::optional<UnaryFunction> function) const {
  Multiply(rows, x, [&](const SumBlock& block) { FinishBlock(block, bias_.data(), function, weight_.columns(), y); });
}

void RoundedAmxLinear::Run(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const {
  Run(rows, RoundRows(x, rows, in_), y, function);
}

void RoundedAmxLinear::Run(int64_t rows, const float* x, BFloat16* y, std::optional<UnaryFunction> function) const {
  Multiply(rows, RoundRows(x, rows, in_), [&](const SumBlock& block) {
    AddBiasAndApply({.rows = block.rows,
                     .columns = block.columns,
                     .x = block.sums,
                     .x_stride = kPanelColumns,
                     .bias = bias_.data() + block.column,
                     .function = function,
                     .rounded = y + block.row * weight_.columns() + block.column,
                     .y_stride = weight_.columns()});
  });
}

std::unique_ptr<const AmxLinear> MakeAmxLinear(Precision precision, const float* weight, const float* bias, int64_t out,
                                               int64_t in) {
  const AmxTiles tiles = ActiveAmxTiles();
  if (tiles == AmxTiles::kNone) return nullptr;
  switch (precision) {
    case Precision::kFloat32:
      break;
    case Precision::kBFloat16:
      return std::make_unique<const RoundedAmxLinear>(tiles, weight, bias, out, in);
    case Precision::kInt8:
      return std::make_unique<const ByteAmxLinear>(tiles, weight, bias, out, in);
  }
  const int products = ProductsOfFloat32(ActiveMatmulPrecision(), in, out, /*tiles=*/true);
  return products == 0 ? nullptr : MakeSplitLinear(products, tiles, weight, bias, out, in);
}

void MultiplyRounded(const ProductOf<BFloat16>& product) {
  const AmxTiles tiles = ActiveAmxTiles();
  tiles == AmxTiles::kNone ? MultiplyBf16(product) : MultiplyInAmxTiles(product, tiles);
}

void FinishBlock(const SumBlock& block, const float* bias, std::optional<UnaryFunction> function, int64_t columns,
                 float* y) {
  AddBiasAndApply({.rows = block.rows,
                   .columns = block.columns,
                   .x = block.sums,
                   .x_stride = kPanelColumns,
                   .bias = bias == nullptr ? nullptr : bias + block.column,
                   .function = function,
                   .y = y + block.row * columns + block.column,
                   .y_stride = columns});
}

void AddBlock(const SumBlock& block, int64_t columns, float* y) {
  for (int64_t row = 0; row < block.rows; ++row) {
    const float* const sums = block.sums + row * kPanelColumns;
    float* const to = y + (block.row + row) * columns + block.column;
    for (int64_t column = 0; column < block.columns; ++column) to[column] += sums[column];
  }
}

}  // namespace lshformer
