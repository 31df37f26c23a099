#include "ops/tile_linear.h"

#include "ops/block_kernels.h"
#include "ops/low_precision_kernels.h"
#include "ops/memory.h"

namespace lshformer {
namespace {

constexpr PartPair kOnePair[] = {{0, 0}};

}  // namespace

TileLinear::TileLinear(Precision precision, MatrixTiles tiles, const float* weight, const float* bias, int64_t out,
                       int64_t in)
    : precision_(precision),
      tiles_(tiles),
      in_(in),
      bias_(bias, bias + out),
      weight_(Pack(precision, weight, out, in)) {}

PackedTiles TileLinear::Pack(Precision precision, const float* weight, int64_t out, int64_t in) {
  if (precision == Precision::kInt8) {
    std::vector<int8_t> quantized(static_cast<size_t>(out * in));
    scales_.resize(static_cast<size_t>(out));
    sums_.resize(static_cast<size_t>(out));
    QuantizeWeight(weight, out, in, quantized.data(), scales_.data(), sums_.data());
    const void* const part[] = {quantized.data()};
    return PackedTiles(TileNumbers::kBytes, part, in, out);
  }
  std::vector<BFloat16> rounded(static_cast<size_t>(out * in));
  RoundRows(weight, in, out, in, rounded.data());
  const void* const part[] = {rounded.data()};
  return PackedTiles(TileNumbers::kBFloat16, part, in, out);
}

void TileLinear::Run(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const {
  precision_ == Precision::kInt8 ? RunInt8(rows, x, y, function) : RunBFloat16(rows, x, y, function);
}

void TileLinear::RunBFloat16(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const {
  const int64_t row_bytes = in_ * static_cast<int64_t>(sizeof(BFloat16)), out = weight_.columns();
  auto* rounded = reinterpret_cast<BFloat16*>(WorkspaceOf(WorkspaceUse::kLowFactor, rows * row_bytes));
  RoundRows(x, in_, rows, in_, rounded);
  MultiplyPacked({&weight_, {rounded}, row_bytes, rows, kOnePair, tiles_}, [&](const SumBlock& block) {
    AddBiasAndApply({.rows = block.rows,
                     .columns = block.columns,
                     .x = block.sums,
                     .x_stride = kPanelColumns,
                     .bias = bias_.data() + block.column,
                     .function = function,
                     .y = y + block.row * out + block.column,
                     .y_stride = out});
  });
}

void TileLinear::RunInt8(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const {
  const int64_t out = weight_.columns();
  auto* quantized = reinterpret_cast<uint8_t*>(WorkspaceOf(WorkspaceUse::kLowFactor, rows * in_));
  auto* scales = reinterpret_cast<RowScale*>(WorkspaceOf(WorkspaceUse::kRowScales, rows * sizeof(RowScale)));
  QuantizeRows(x, rows, in_, quantized, scales);
  const Dequantization call{{scales, static_cast<size_t>(rows)}, scales_, bias_, sums_, {}};
  MultiplyPacked({&weight_, {quantized}, in_, rows, kOnePair, tiles_}, [&](const SumBlock& block) {
    DequantizeBlock(call, {block.row, block.column, block.rows, block.columns, block.sums, kPanelColumns});
    AddBiasAndApply({.rows = block.rows,
                     .columns = block.columns,
                     .x = block.sums,
                     .x_stride = kPanelColumns,
                     .function = function,
                     .y = y + block.row * out + block.column,
                     .y_stride = out});
  });
}

}  // namespace lshformer
