#include "kernels/packed_linear.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/cpu/linear/amx_linear.h"
#include "kernels/gated.h"
#include "kernels/low_precision.h"
#include "kernels/work_memory.h"

namespace lshformer {
namespace {

constexpr int64_t kRowsOfThread = 128, kLeastRowsOfThread = 64, kRowsOfKernel = 16;
int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

PackedLinear::PackedLinear(Precision precision, const float* weight, const float* bias, int64_t out, int64_t in)
    : precision_(precision), tiles_(ActiveAmxTiles()), matmul_precision_(ActiveMatmulPrecision()), in_(in), out_(out) {
  in_amx_tiles_ = MakeAmxLinear(precision, weight, bias, out, in);
  if (in_amx_tiles_) return;
  bias_.assign(bias, bias + out);
  // [out, in] seen as the [in, out] factor.
  if (precision == Precision::kFloat32) {
    weight_ = std::make_unique<PackedMatrix>(MatrixView{weight, 1, in}, in, out);
  } else if (precision == Precision::kBFloat16) {
    std::vector<BFloat16> rounded(static_cast<size_t>(out * in));
    RoundRows(weight, in, out, in, rounded.data());
    weight_ = std::make_unique<PackedMatrix>(MatrixOf<BFloat16>{rounded.data(), 1, in}, in, out);
  } else {
    std::vector<int8_t> quantized(static_cast<size_t>(out * in));
    scales_.resize(static_cast<size_t>(out));
    sums_.resize(static_cast<size_t>(out));
    QuantizeWeight(weight, out, in, quantized.data(), scales_.data(), sums_.data());
    weight_ = std::make_unique<PackedMatrix>(MatrixOf<int8_t>{quantized.data(), 1, in}, in, out);
  }
}

PackedLinear::~PackedLinear() = default;

bool PackedLinear::rounds() const { return in_amx_tiles_ && in_amx_tiles_->Rounded() != nullptr; }
bool PackedLinear::in_bytes() const { return precision_ == Precision::kInt8 && !in_amx_tiles_; }
bool PackedLinear::up_to_date() const {
  return tiles_ == ActiveAmxTiles() && matmul_precision_ == ActiveMatmulPrecision();
}

void ForPiecesOfRows(int64_t rows, bool tiles, const std::function<void(int64_t, int64_t)>& body) {
  const int64_t threads = ThreadsHere();
  if (threads > 1 && rows >= threads * kLeastRowsOfThread) {
    // As many pieces as there are turns of all threads, of the same size but for the last.
    const int64_t turns = CeilDiv(rows, threads * (tiles ? kMostPackedRows : kRowsOfThread));
    const int64_t piece = CeilDiv(CeilDiv(rows, turns * threads), kRowsOfKernel) * kRowsOfKernel;
    ParallelFor(rows, piece, [&](int64_t begin, int64_t end) { body(begin, end - begin); });
    return;
  }
  const int64_t most = tiles ? kMostPackedRows : std::clamp<int64_t>(int64_t{64} * threads, 256, kMostPackedRows);
  for (int64_t begin = 0; begin < rows; begin += most) body(begin, std::min(most, rows - begin));
}

void PackedLinear::Run(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const {
  ForPiecesOfRows(rows, in_amx_tiles(),
                  [&](int64_t begin, int64_t count) { RunPiece(count, x + begin * in_, y + begin * out(), function); });
}

Dequantization PackedLinear::MultiplyBytes(int64_t rows, const QuantizedRows& x, float* sums,
                                           std::optional<UnaryFunction> function) const {
  weight_->Multiply(rows, x.numbers, in_, reinterpret_cast<int32_t*>(sums), out());
  return {{x.scales, static_cast<size_t>(rows)}, scales_, bias_, sums_, function};
}

void PackedLinear::RunPiece(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const {
  if (in_amx_tiles_) return in_amx_tiles_->Run(rows, x, y, function);
  if (precision_ == Precision::kInt8)
    return Dequantize(MultiplyBytes(rows, QuantizeRows(x, rows, in_), y, function), y);
  if (precision_ == Precision::kFloat32) {
    weight_->Multiply(rows, x, in_, bias_.data(), y, out());
  } else {
    weight_->Multiply(rows, RoundRows(x, rows, in_), in_, bias_.data(), y, out());
  }
  if (function) ApplyFunction(*function, {y, static_cast<size_t>(rows * out())}, y);
}

void PackedLinear::RunPiece(int64_t rows, const float* x, BFloat16* y, std::optional<UnaryFunction> function) const {
  float* unrounded = WorkspaceOf(WorkspaceUse::kInner, rows * out() * sizeof(float));
  if (in_bytes() && !function)
    return Dequantize(MultiplyBytes(rows, QuantizeRows(x, rows, in_), unrounded, {}), unrounded, y);
  RunPiece(rows, x, unrounded, function);
  RoundRows(unrounded, out(), rows, out(), y);
}

void PackedLinear::RunBothInBytes(const PackedLinear& first, UnaryFunction function, const PackedLinear& second,
                                  int64_t rows, const float* x, float* inner, float* y) {
  QuantizedRows bytes = QuantizeRows(x, rows, first.in());
  const Dequantization call = first.MultiplyBytes(rows, bytes, inner, function);
  // The product has read what was there.
  bytes.numbers = reinterpret_cast<uint8_t*>(WorkspaceOf(WorkspaceUse::kLowFactor, rows * second.in()));
  const auto requantize = first.out() == second.in() ? Requantize : RequantizeGated;
  requantize(call, inner, bytes.numbers, bytes.scales);
  Dequantize(second.MultiplyBytes(rows, bytes, y, {}), y);
}

template <class X, class Y>
void PackedLinear::RunRounded(int64_t rows, const X* x, Y* y, std::optional<UnaryFunction> function) const {
  ForPiecesOfRows(rows, /*tiles=*/true, [&](int64_t begin, int64_t count) {
    in_amx_tiles_->Rounded()->Run(count, x + begin * in_, y + begin * out_, function);
  });
}
void PackedLinear::Run(int64_t rows, const BFloat16* x, float* y, std::optional<UnaryFunction> function) const {
  RunRounded(rows, x, y, function);
}
void PackedLinear::Run(int64_t rows, const float* x, BFloat16* y, std::optional<UnaryFunction> function) const {
  if (rounds()) return RunRounded(rows, x, y, function);
  ForPiecesOfRows(rows, in_amx_tiles(),
                  [&](int64_t begin, int64_t count) { RunPiece(count, x + begin * in_, y + begin * out(), function); });
}

void RunBoth(const PackedLinear& first, UnaryFunction function, const PackedLinear& second, int64_t rows,
             const float* x, float* y) {
  const int64_t width = first.out();
  const bool rounded = first.rounds() && second.rounds();
  ForPiecesOfRows(rows, first.in_amx_tiles(), [&](int64_t begin, int64_t count) {
    const float* x_rows = x + begin * first.in();
    float *y_rows = y + begin * second.out(), *inner = WorkspaceOf(WorkspaceUse::kInner, count * width * sizeof(float));
    if (rounded) {
      auto* inner_rows = reinterpret_cast<BFloat16*>(inner);
      first.in_amx_tiles_->Rounded()->Run(count, x_rows, inner_rows, function);
      second.in_amx_tiles_->Rounded()->Run(count, inner_rows, y_rows, {});
    } else if (first.in_bytes() && second.in_bytes()) {
      PackedLinear::RunBothInBytes(first, function, second, count, x_rows, inner, y_rows);
    } else {
      first.Run(count, x_rows, inner, function);
      second.Run(count, inner, y_rows, {});
    }
  });
}

void RunBothGated(const PackedLinear& first, UnaryFunction function, const PackedLinear& second, int64_t rows,
                  const float* x, float* y) {
  const int64_t columns = second.in();
  const bool rounded = second.rounds();
  ForPiecesOfRows(rows, first.in_amx_tiles(), [&](int64_t begin, int64_t count) {
    const float* x_rows = x + begin * first.in();
    float *y_rows = y + begin * second.out(),
          *inner = WorkspaceOf(WorkspaceUse::kInner, count * 2 * columns * sizeof(float));
    if (first.in_bytes() && second.in_bytes())
      return PackedLinear::RunBothInBytes(first, function, second, count, x_rows, inner, y_rows);
    float* gated = WorkspaceOf(WorkspaceUse::kGated, count * columns * sizeof(float));
    first.Run(count, x_rows, inner, {});
    if (rounded) {
      auto* gated_rows = reinterpret_cast<BFloat16*>(gated);
      GateRows(function, inner, count, columns, gated_rows);
      second.in_amx_tiles_->Rounded()->Run(count, gated_rows, y_rows, {});
    } else {
      GateRows(function, inner, count, columns, gated);
      second.Run(count, gated, y_rows, {});
    }
  });
}

}  // namespace lshformer
