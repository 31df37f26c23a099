#include "ops/split_linear.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "ops/low_precision_kernels.h"
#include "ops/matmul.h"
#include "ops/memory.h"

namespace lshformer {
namespace {

// Of the first factor's part and the second's: the last so many are the products.
constexpr PartPair kPairs[] = {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};

std::span<const PartPair> PairsOf(int products) { return std::span(kPairs).last(static_cast<size_t>(products)); }
int PartsOfRows(int products) { return products == 6 ? 3 : products == 3 ? 2 : 1; }

using Parts = std::array<BFloat16*, kMostParts>;

// `count` numbers for each of `parts` parts, one part after another.
Parts PartsIn(BFloat16* memory, int parts, int64_t count) {
  Parts at{};
  for (int part = 0; part < parts; ++part) at[part] = memory + part * count;
  return at;
}

class SplitTileLinear : public TileLinear {
 public:
  SplitTileLinear(int products, MatrixTiles tiles, PackedTiles weight, const float* bias, int64_t in)
      : products_(products), tiles_(tiles), in_(in), bias_(bias, bias + weight.columns()), weight_(std::move(weight)) {}

  void Run(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const override {
    const int64_t count = rows * in_, row_bytes = in_ * static_cast<int64_t>(sizeof(BFloat16));
    const int parts = PartsOfRows(products_);
    const Parts split = PartsIn(
        reinterpret_cast<BFloat16*>(WorkspaceOf(WorkspaceUse::kLowFactor, parts * rows * row_bytes)), parts, count);
    std::vector<uint8_t> fits(static_cast<size_t>(rows));
    SplitRows(x, rows, in_, std::span(split).first(static_cast<size_t>(parts)), fits.data());
    MultiplyPacked({&weight_, {split[0], split[1], split[2]}, row_bytes, rows, PairsOf(products_), tiles_},
                   [&](const SumBlock& block) { FinishBlock(block, bias_.data(), function, weight_.columns(), y); });
    for (int64_t row = 0, end; row < rows; row = end + 1) {
      row = std::find(fits.begin() + row, fits.end(), 0) - fits.begin();
      end = std::find(fits.begin() + row, fits.end(), 1) - fits.begin();
      if (row < end) MultiplyAdd(end - row, x + row * in_, y + row * weight_.columns(), function);
    }
  }

 private:
  void MultiplyAdd(int64_t rows, const float* x, float* y, std::optional<UnaryFunction> function) const {
    std::call_once(made_whole_, [this] { whole_ = Whole(); });
    whole_->Multiply(rows, x, in_, bias_.data(), y, weight_.columns());
    if (function) ApplyFunction(*function, {y, static_cast<size_t>(rows * weight_.columns())}, y);
  }

  // The weight again: its parts add up to it exactly.
  std::unique_ptr<const PackedMatrix> Whole() const {
    const auto numbers = static_cast<size_t>(in_ * weight_.columns());
    std::vector<float> whole(numbers);
    std::vector<uint16_t> part(numbers);
    for (int p = kMostParts - 1; p >= 0; --p) {
      weight_.Unpack(p, part.data());
      for (size_t i = 0; i < numbers; ++i) whole[i] += std::bit_cast<float>(uint32_t{part[i]} << 16);
    }
    return std::make_unique<const PackedMatrix>(MatrixView{whole.data(), 1, in_}, in_, weight_.columns());
  }

  int products_;
  MatrixTiles tiles_;
  int64_t in_;
  std::vector<float> bias_;
  PackedTiles weight_;
  mutable std::once_flag made_whole_;
  mutable std::unique_ptr<const PackedMatrix> whole_;
};

}  // namespace

std::unique_ptr<const TileLinear> MakeSplitLinear(int products, MatrixTiles tiles, const float* weight,
                                                  const float* bias, int64_t out, int64_t in) {
  const int64_t numbers = out * in;
  std::vector<BFloat16> memory(static_cast<size_t>(kMostParts * numbers));
  std::vector<uint8_t> fits(static_cast<size_t>(out));
  const Parts parts = PartsIn(memory.data(), kMostParts, numbers);
  SplitRows(weight, out, in, parts, fits.data());
  if (std::find(fits.begin(), fits.end(), 0) != fits.end()) return nullptr;
  const void* const packed[] = {parts[0], parts[1], parts[2]};
  return std::make_unique<const SplitTileLinear>(products, tiles, PackedTiles(TileNumbers::kBFloat16, packed, in, out),
                                                 bias, in);
}

}  // namespace lshformer
