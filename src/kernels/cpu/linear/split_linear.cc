#include "kernels/cpu/linear/split_linear.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cpu/amx/packing.h"
#include "kernels/low_precision.h"
#include "kernels/matmul.h"
#include "kernels/matmul_precision.h"
#include "kernels/work_memory.h"

namespace lshformer {
namespace {

// Of the first factor's part and the second's: the last so many are the products.
constexpr PartPair kPairs[] = {{1, 0}, {0, 1}, {0, 0}};

std::span<const PartPair> PairsOf(int products) { return std::span(kPairs).last(static_cast<size_t>(products)); }

using Parts = std::array<BFloat16*, kMostParts>;

// `count` numbers for each of `parts` parts, one part after another.
Parts PartsIn(BFloat16* memory, int parts, int64_t count) {
  Parts at{};
  for (int part = 0; part < parts; ++part) at[part] = memory + part * count;
  return at;
}

bool AllFit(const std::vector<uint8_t>& fits) { return std::find(fits.begin(), fits.end(), 0) == fits.end(); }

// Calls visit(first, count) for runs of rows that do not fit.
template <class Visit>
void ForEachMisfit(const std::vector<uint8_t>& fits, const Visit& visit) {
  for (auto row = fits.begin(), end = row; row != fits.end(); row = end) {
    row = std::find(row, fits.end(), 0);
    end = std::find(row, fits.end(), 1);
    if (row != end) visit(row - fits.begin(), end - row);
  }
}

class SplitAmxLinear : public AmxLinear {
 public:
  // left: of the weight, further parts behind those that are packed, [kPartsOfFloat − weight.parts()][out][in].
  SplitAmxLinear(int products, AmxTiles tiles, PackedAmxTiles weight, std::vector<BFloat16> left, const float* bias,
                 int64_t in)
      : products_(products),
        tiles_(tiles),
        in_(in),
        bias_(bias, bias + weight.columns()),
        weight_(std::move(weight)),
        left_(std::move(left)) {}

  void Run(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const override {
    const int64_t count = rows * in_, row_bytes = in_ * static_cast<int64_t>(sizeof(BFloat16));
    const int parts = PartsOfProducts(products_);
    const Parts split = PartsIn(
        reinterpret_cast<BFloat16*>(WorkspaceOf(WorkspaceUse::kLowFactor, parts * rows * row_bytes)), parts, count);
    std::vector<uint8_t> fits(static_cast<size_t>(rows));
    SplitRows(x, in_, rows, in_, std::span(split).first(static_cast<size_t>(parts)), kLeastExactlySplit, fits.data());
    MultiplyPacked({&weight_, {split[0], split[1]}, row_bytes, rows, PairsOf(products_), tiles_},
                   [&](const SumBlock& block) { FinishBlock(block, bias_.data(), function, weight_.columns(), y); });
    ForEachMisfit(fits, [&](int64_t row, int64_t count_of) {
      MultiplyAdd(count_of, x + row * in_, y + row * weight_.columns(), function);
    });
  }

 private:
  void MultiplyAdd(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const {
    std::call_once(made_whole_, [this] { whole_ = Whole(); });
    whole_->Multiply(rows, x, in_, bias_.data(), y, weight_.columns());
    if (function) ApplyFunction(*function, {y, static_cast<size_t>(rows * weight_.columns())}, y);
  }

  // The weight again: all of its parts add up to it exactly, the smallest first.
  std::unique_ptr<const PackedMatrix> Whole() const {
    const auto numbers = static_cast<size_t>(in_ * weight_.columns());
    std::vector<float> whole(numbers);
    const auto add = [&](const BFloat16* part) {
      for (size_t i = 0; i < numbers; ++i) whole[i] += std::bit_cast<float>(uint32_t{part[i].bits} << 16);
    };
    for (size_t end = left_.size(); end > 0; end -= numbers) add(left_.data() + end - numbers);
    std::vector<BFloat16> part(numbers);
    for (int p = weight_.parts() - 1; p >= 0; --p) {
      weight_.Unpack(p, part.data());
      add(part.data());
    }
    return std::make_unique<const PackedMatrix>(MatrixView{whole.data(), 1, in_}, in_, weight_.columns());
  }

  int products_;
  AmxTiles tiles_;
  int64_t in_;
  std::vector<float> bias_;
  PackedAmxTiles weight_;
  std::vector<BFloat16> left_;
  mutable std::once_flag made_whole_;
  mutable std::unique_ptr<const PackedMatrix> whole_;
};

// Rows, or tokens of a weight's gradient, that are split at a time.
constexpr int64_t kPiece = 1024;

// A factor's parts, [rows][columns] each, as it lies.
struct SplitFactor {
  Parts parts;
  std::vector<uint8_t> fits;
};
SplitFactor Split(const float* x, int64_t stride, int64_t rows, int64_t columns, int parts, WorkspaceUse use) {
  const int64_t count = rows * columns, bytes = parts * count * static_cast<int64_t>(sizeof(BFloat16));
  SplitFactor split{PartsIn(reinterpret_cast<BFloat16*>(WorkspaceOf(use, bytes)), parts, count),
                    std::vector<uint8_t>(static_cast<size_t>(rows))};
  SplitRows(x, stride, rows, columns, std::span(split.parts).first(static_cast<size_t>(parts)),
            /*least=*/0, split.fits.data());
  return split;
}

// Nothing where a number has no parts.
std::optional<PackedAmxTiles> PackSecond(const MatrixProduct& p, int parts) {
  const bool by_rows = p.b.column_stride == 1;
  const SplitFactor split =
      by_rows ? Split(p.b.data, p.b.row_stride, p.inner, p.columns, parts, WorkspaceUse::kFilledSecond)
              : Split(p.b.data, p.b.column_stride, p.columns, p.inner, parts, WorkspaceUse::kFilledSecond);
  if (!AllFit(split.fits)) return {};
  const void* const all[] = {split.parts[0], split.parts[1]};
  const auto packed = std::span(all).first(static_cast<size_t>(parts));
  return by_rows ? PackedAmxTiles::OfRows(packed, p.inner, p.columns)
                 : PackedAmxTiles(AmxNumbers::kBFloat16, packed, p.inner, p.columns);
}

void MultiplyParts(const MatrixProduct& p, const Parts& a, const PackedAmxTiles& b, int products, AmxTiles tiles) {
  const int64_t row_bytes = p.inner * static_cast<int64_t>(sizeof(BFloat16));
  MultiplyPacked({&b, {a[0], a[1]}, row_bytes, p.rows, PairsOf(products), tiles},
                 [&](const SumBlock& block) { FinishBlock(block, p); });
}

MatrixProduct RowsOf(const MatrixProduct& p, int64_t first, int64_t count) {
  MatrixProduct rows = p;
  rows.rows = count;
  rows.a.data += first * p.a.row_stride;
  rows.c += first * p.c_stride;
  return rows;
}

// At most kPiece rows.
void MultiplyRows(const MatrixProduct& p, const PackedAmxTiles& b, int products, AmxTiles tiles) {
  const int parts = PartsOfProducts(products);
  const SplitFactor a = Split(p.a.data, p.a.row_stride, p.rows, p.inner, parts, WorkspaceUse::kLowFactor);
  ForEachMisfit(a.fits, [&](int64_t first, int64_t count) {  // as zeros, which add nothing to c
    for (int part = 0; part < parts; ++part) std::fill_n(a.parts[part] + first * p.inner, count * p.inner, BFloat16{});
  });
  MultiplyParts(p, a.parts, b, products, tiles);
  ForEachMisfit(a.fits, [&](int64_t first, int64_t count) { Multiply(RowsOf(p, first, count)); });
}

// At most kPiece tokens.
void MultiplyTokens(const MatrixProduct& p, int products, AmxTiles tiles) {
  const int parts = PartsOfProducts(products);
  const std::optional<PackedAmxTiles> b = PackSecond(p, parts);
  const SplitFactor a = Split(p.a.data, p.a.column_stride, p.inner, p.rows, parts, WorkspaceUse::kLowFactor);
  if (!b || !AllFit(a.fits)) return Multiply(p);
  const int64_t count = p.rows * p.inner, bytes = parts * count * static_cast<int64_t>(sizeof(BFloat16));
  const Parts turned =
      PartsIn(reinterpret_cast<BFloat16*>(WorkspaceOf(WorkspaceUse::kFilledFactor, bytes)), parts, count);
  for (int part = 0; part < parts; ++part)
    TransposeHalves(reinterpret_cast<const uint16_t*>(a.parts[part]), p.inner, p.rows,
                    reinterpret_cast<uint16_t*>(turned[part]));
  MultiplyParts(p, turned, *b, products, tiles);
}

}  // namespace

void MultiplyInParts(const MatrixProduct& p) {
  const AmxTiles tiles = ActiveAmxTiles();
  const int products = ProductsInTraining(ActiveMatmulPrecision(), p, tiles != AmxTiles::kNone);
  if (products == 0 || p.inner == 0) return Multiply(p);
  if (p.inner_is_tokens) {
    MatrixProduct piece = p;
    for (int64_t token = 0; token < p.inner; token += kPiece) {
      piece.inner = std::min(kPiece, p.inner - token);
      piece.a.data = p.a.data + token * p.a.column_stride;
      piece.b.data = p.b.data + token * p.b.row_stride;
      piece.accumulate = p.accumulate || token > 0;
      MultiplyTokens(piece, products, tiles);
    }
    return;
  }
  const std::optional<PackedAmxTiles> b = PackSecond(p, PartsOfProducts(products));
  if (!b) return Multiply(p);
  for (int64_t row = 0; row < p.rows; row += kPiece)
    MultiplyRows(RowsOf(p, row, std::min(kPiece, p.rows - row)), *b, products, tiles);
}

std::unique_ptr<const AmxLinear> MakeSplitLinear(int products, AmxTiles tiles, const float* weight, const float* bias,
                                                 int64_t out, int64_t in) {
  const int64_t numbers = out * in, packed_parts = PartsOfProducts(products);
  std::vector<BFloat16> memory(static_cast<size_t>(kPartsOfFloat * numbers));
  BFloat16* parts[kPartsOfFloat];
  for (int part = 0; part < kPartsOfFloat; ++part) parts[part] = memory.data() + part * numbers;
  std::vector<uint8_t> fits(static_cast<size_t>(out));
  SplitRows(weight, in, out, in, parts, kLeastExactlySplit, fits.data());
  if (!AllFit(fits)) return nullptr;
  const void* const first[] = {parts[0], parts[1]};
  return std::make_unique<const SplitAmxLinear>(
      products, tiles,
      PackedAmxTiles(AmxNumbers::kBFloat16, std::span(first).first(static_cast<size_t>(packed_parts)), in, out),
      std::vector<BFloat16>(memory.begin() + packed_parts * numbers, memory.end()), bias, in);
}

}  // namespace lshformer
