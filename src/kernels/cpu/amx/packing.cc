#include "kernels/cpu/amx/packing.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "kernels/cpu/amx/amx_tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/amx/packing.cc"
#include <hwy/foreach_target.h>

// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/cpu/attention/matrix_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {

void TileOfColumns(const uint32_t* from, ptrdiff_t stride, uint32_t* to) {
  TransposeBlock(from, stride, to, kTileSide);
}

void TileOfRows(const uint16_t* from, ptrdiff_t stride, uint32_t* to) {
  const Words w;
  const Halves halves;
  for (int k = 0; k < kTileSide; ++k, from += 2 * stride, to += kTileSide) {
    for (int n = 0; n < kTileSide; n += kLanes) {
      const auto even = hn::PromoteTo(w, hn::LoadU(halves, from + n));
      const auto odd = hn::PromoteTo(w, hn::LoadU(halves, from + stride + n));
      hn::StoreU(hn::Or(even, hn::ShiftLeft<16>(odd)), w, to + n);
    }
  }
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(TileOfColumns);
HWY_EXPORT(TileOfRows);

void PackTileOfColumns(const uint32_t* from, ptrdiff_t stride, uint32_t* to) {
  HWY_DYNAMIC_DISPATCH(TileOfColumns)(from, stride, to);
}
void PackTileOfRows(const uint16_t* from, ptrdiff_t stride, uint32_t* to) {
  HWY_DYNAMIC_DISPATCH(TileOfRows)(from, stride, to);
}

// A block of 32 rows and 16 columns is a tile of rows, and that one turned round.
void TransposeHalves(const uint16_t* from, int64_t rows, int64_t columns, uint16_t* to) {
  ParallelFor((columns + kTileSide - 1) / kTileSide, /*grain=*/1, [&](int64_t begin, int64_t end) {
    alignas(64) uint16_t filled[kTileRowNumbers * kTileSide];
    alignas(64) uint32_t pairs[kTileSide * kTileSide], turned[kTileSide * kTileSide];
    for (int64_t column = begin * kTileSide; column < std::min(end * kTileSide, columns); column += kTileSide) {
      const auto held = static_cast<int>(std::min<int64_t>(kTileSide, columns - column));
      for (int64_t row = 0; row < rows; row += kTileRowNumbers) {
        const auto count = static_cast<int>(std::min<int64_t>(kTileRowNumbers, rows - row));
        const uint16_t* block = from + row * columns + column;
        if (held == kTileSide && count == kTileRowNumbers) {
          PackTileOfRows(block, columns, pairs);
        } else {  // what is missing goes nowhere
          for (int r = 0; r < count; ++r) std::memcpy(filled + r * kTileSide, block + r * columns, 2 * held);
          PackTileOfRows(filled, kTileSide, pairs);
        }
        PackTileOfColumns(pairs, kTileSide, turned);
        for (int c = 0; c < held; ++c)
          std::memcpy(to + (column + c) * rows + row, turned + c * kTileSide, sizeof(uint16_t) * count);
      }
    }
  });
}

}  // namespace lshformer
#endif
