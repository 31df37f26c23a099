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

#include "kernels/cpu/attention/amx_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {

void TileOfColumns(const uint32_t* from, ptrdiff_t stride, uint32_t* to) {
  TransposeBlock(from, stride, to, kAmxTileSide);
}

void TileOfRows(const uint16_t* from, ptrdiff_t stride, uint32_t* to) {
  const Words w;
  const Halves halves;
  for (int k = 0; k < kAmxTileSide; ++k, from += 2 * stride, to += kAmxTileSide) {
    for (int n = 0; n < kAmxTileSide; n += kLanes) {
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

void PackAmxTileOfColumns(const uint32_t* from, ptrdiff_t stride, uint32_t* to) {
  HWY_DYNAMIC_DISPATCH(TileOfColumns)(from, stride, to);
}
void PackAmxTileOfRows(const uint16_t* from, ptrdiff_t stride, uint32_t* to) {
  HWY_DYNAMIC_DISPATCH(TileOfRows)(from, stride, to);
}

// A block of 32 rows and 16 columns is a tile of rows, and that one turned round.
void TransposeHalves(const uint16_t* from, int64_t rows, int64_t columns, uint16_t* to) {
  ParallelFor((columns + kAmxTileSide - 1) / kAmxTileSide, /*grain=*/1, [&](int64_t begin, int64_t end) {
    alignas(64) uint16_t filled[kAmxTileRowNumbers * kAmxTileSide];
    alignas(64) uint32_t pairs[kAmxTileSide * kAmxTileSide], turned[kAmxTileSide * kAmxTileSide];
    for (int64_t column = begin * kAmxTileSide; column < std::min(end * kAmxTileSide, columns);
         column += kAmxTileSide) {
      const auto held = static_cast<int>(std::min<int64_t>(kAmxTileSide, columns - column));
      for (int64_t row = 0; row < rows; row += kAmxTileRowNumbers) {
        const auto count = static_cast<int>(std::min<int64_t>(kAmxTileRowNumbers, rows - row));
        const uint16_t* block = from + row * columns + column;
        if (held == kAmxTileSide && count == kAmxTileRowNumbers) {
          PackAmxTileOfRows(block, columns, pairs);
        } else {  // what is missing goes nowhere
          for (int r = 0; r < count; ++r) std::memcpy(filled + r * kAmxTileSide, block + r * columns, 2 * held);
          PackAmxTileOfRows(filled, kAmxTileSide, pairs);
        }
        PackAmxTileOfColumns(pairs, kAmxTileSide, turned);
        for (int c = 0; c < held; ++c)
          std::memcpy(to + (column + c) * rows + row, turned + c * kAmxTileSide, sizeof(uint16_t) * count);
      }
    }
  });
}

}  // namespace lshformer
#endif
