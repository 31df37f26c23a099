// Products with a factor that is packed once, in AMX tiles: the linear layers of a model.
//
//   sums[m][n] = Σ_stretches Σ_pairs Σ_k a_pair.a[m][k] · b_pair.b[k][n]
//
// over stretches of the depth, in each over the pairs in their order, k in steps of a tile's row, by the arithmetic of
// amx_tiles.h. A stretch is as long as all parts of a panel of b find room for in the first cache (stretch_steps()).
// A factor is one matrix, or two that nearly add up to it (a float32 as two bfloat16), the parts; pairs say which parts
// are multiplied. In bfloat16 sums are float32, of bytes (a unsigned, b signed) they are 32-bit and exact.
//
// A row of the sums depends on that row of a (and on b) alone, bit for bit: not on how many rows the call has, where
// the row stands, nor on the number of threads. Any number of rows, columns and depth: rows that do not fill a tile are
// copied to work memory and filled up with zeros, as is the packed factor; nothing beyond a row's end is read, and a
// NaN stays in its row or column.
//
// Work memory of a thread: at most kRowGroupBytes (or 32 rows) of all parts of a, and 128 bytes of sums for each such
// row.
#pragma once
#include <hwy/aligned_allocator.h>

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "kernels/cpu/amx/amx_tiles.h"

namespace lshformer {

enum class AmxNumbers { kBFloat16, kBytes };
inline constexpr int kMostParts = 2;
inline constexpr int kPanelColumns =
    2 * kAmxTileSide;  // of the packed factor, side by side; and rows of a block of sums

// The second factor, [depth][columns], in panels of kPanelColumns columns, [panel][part][step][2 tiles][16][64 bytes].
class PackedAmxTiles {
 public:
  // parts: [columns][depth] numbers each, so that a column's lie one after another; copied. At most kMostParts.
  // std::bad_alloc.
  PackedAmxTiles(AmxNumbers numbers, std::span<const void* const> parts, int64_t depth, int64_t columns);
  // Of bfloat16 that lies row after row, [depth][columns] a part; copied. std::bad_alloc.
  static PackedAmxTiles OfRows(std::span<const void* const> parts, int64_t depth, int64_t columns);
  AmxNumbers numbers() const { return numbers_; }
  int parts() const { return parts_; }
  int64_t columns() const { return columns_; }
  int64_t panels() const { return (columns_ + kPanelColumns - 1) / kPanelColumns; }
  int64_t depth_bytes() const { return depth_bytes_; }
  int64_t steps() const { return (depth_bytes_ + kAmxTileRowBytes - 1) / kAmxTileRowBytes; }
  int64_t stretch_steps() const;  // at least 1
  int64_t bytes() const;
  const uint8_t* Panel(int64_t panel, int part) const;
  // The numbers that were packed, [columns][depth].
  void Unpack(int part, void* to) const;

 private:
  PackedAmxTiles(AmxNumbers numbers, int parts, int64_t depth_bytes, int64_t columns);  // zeros
  int64_t Place(int64_t panel, int part) const;
  // Calls pack(first column, first byte of depth, to) for every tile of a part; columns may be beyond the last.
  template <class Pack>
  void ForEachTile(int part, const Pack& pack);
  AmxNumbers numbers_;
  int parts_;
  int64_t depth_bytes_, columns_;
  hwy::AlignedFreeUniquePtr<uint8_t[]> memory_;
};

struct PartPair {
  int a, b;
};

// A block of finished sums, [rows][kPanelColumns], whose first stands at (row, column) of the result; at most 32 rows.
// Whoever gets it may write into it.
struct SumBlock {
  int64_t row, column;
  int rows, columns;
  float* sums;  // int32_t of bytes
};

struct PackedProduct {
  const PackedAmxTiles* b = nullptr;
  std::array<const void*, kMostParts> a{};  // parts, [rows][depth] each
  int64_t a_stride = 0;                     // bytes from a row to the next
  int64_t rows = 0;
  std::span<const PartPair> pairs;
  AmxTiles tiles = AmxTiles::kNone;  // not kNone
};
// Shares the work among threads; finish(block) is called once for each block, on the thread that has just summed it, so
// that the block is in its first cache. The thread's tiles are in use: finish must call neither oneDNN nor libtorch.
void MultiplyPacked(const PackedProduct& product, const std::function<void(const SumBlock&)>& finish);

// Rows that a thread multiplies by one panel after another: with all of their parts (row_bytes) they stay in half of
// the second cache of processors that have tiles (2 MB), and there are pieces of work for all threads. A multiple
// of 32.
inline constexpr int64_t kRowGroupBytes = 1 << 20;
int64_t RowsOfGroup(int64_t rows, int64_t row_bytes, int64_t panels, int64_t threads);

}  // namespace lshformer
