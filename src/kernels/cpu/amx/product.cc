#include "kernels/cpu/amx/product.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

#include "base/parallel.h"
#include "kernels/cpu/amx/packing.h"
#include "kernels/cpu/attention/workspace.h"

namespace lshformer {
namespace {

constexpr int64_t kTileBytes = kAmxTileSide * kAmxTileRowBytes, kStepBytes = 2 * kTileBytes, kWordBytes = 4;
constexpr int kBlockRows = 2 * kAmxTileSide;
// Of a panel that is in work, over a third of the first cache of 48 KB: rows and sums pass through it too.
constexpr int64_t kStretchBytes = 18 << 10;
constexpr int64_t kLeastBlocksCut = 6;  // of rows: for fewer, sums that wait in memory cost more than is gained
// Pieces of work for each thread: threads that are late must not keep all others waiting.
constexpr int64_t kPiecesOfThread = 4;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Calls visit(byte of a column, bytes of its word there are, byte of a packed part): tiles hold 16 words of depth, each
// with the same word of 15 other columns beside it.
template <class Visit>
void ForEachWord(int64_t column, int64_t depth_bytes, const Visit& visit) {
  const int64_t tile = column % kPanelColumns / kAmxTileSide, in_row = column % kAmxTileSide;
  for (int64_t at = 0; at < depth_bytes; at += kWordBytes) {
    const int64_t step = at / kAmxTileRowBytes, row = at % kAmxTileRowBytes / kWordBytes;
    visit(at, std::min(kWordBytes, depth_bytes - at),
          step * kStepBytes + tile * kTileBytes + row * kAmxTileRowBytes + in_row * kWordBytes);
  }
}

// 16 rows of a part of the first factor.
struct RowTile {
  const uint8_t* data;
  int64_t stride;
};

// Rows [begin, begin + count) of the first factor, those that do not fill tiles in work memory.
class RowGroup {
 public:
  RowGroup(const PackedProduct& product, int64_t begin, int64_t count)
      : product_(product), begin_(begin), padded_(product.b->steps() * kAmxTileRowBytes) {
    const int64_t depth_bytes = product.b->depth_bytes();
    lying_ = depth_bytes == padded_ ? count / kAmxTileSide : 0;
    const int64_t rest = count - lying_ * kAmxTileSide;
    copied_rows_ = CeilDiv(rest, kAmxTileSide) * kAmxTileSide;
    if (rest == 0) return;
    const int64_t part_bytes = copied_rows_ * padded_;
    copies_ = ThreadWorkspace().Get<uint8_t>(Slot::kPaddedRows, kMostParts * part_bytes);
    for (int part = 0; part < kMostParts; ++part) {
      if (product.a[part] == nullptr) continue;
      uint8_t* to = copies_ + part * part_bytes;
      const uint8_t* from = RowAt(part, lying_ * kAmxTileSide);
      for (int64_t row = 0; row < rest; ++row) {
        std::memcpy(to + row * padded_, from + row * product.a_stride, depth_bytes);
        std::memset(to + row * padded_ + depth_bytes, 0, padded_ - depth_bytes);
      }
      std::memset(to + rest * padded_, 0, (copied_rows_ - rest) * padded_);
    }
  }

  RowTile Tile(int part, int64_t tile) const {
    if (tile < lying_) return {RowAt(part, tile * kAmxTileSide), product_.a_stride};
    return {copies_ + (part * copied_rows_ + (tile - lying_) * kAmxTileSide) * padded_, padded_};
  }

 private:
  const uint8_t* RowAt(int part, int64_t row) const {
    return static_cast<const uint8_t*>(product_.a[part]) + (begin_ + row) * product_.a_stride;
  }
  const PackedProduct& product_;
  int64_t begin_, padded_;
  int64_t lying_ = 0, copied_rows_ = 0;  // tiles that lie in the caller's memory; rows in ours
  uint8_t* copies_ = nullptr;            // [part][copied_rows_][padded_]
};

template <class M, AmxNumbers kNumbers, int C, int A, int B>
inline void MultiplyTile() {
  if constexpr (kNumbers == AmxNumbers::kBFloat16) {
    M::template MultiplyBFloat16<C, A, B>();
  } else {
    M::template MultiplyInt8<C, A, B, Signs::kSecond>();
  }
}

// Asks for the panel after the one in work while that is multiplied: from the third cache its lines come in more time
// than their products take.
class NextPanel {
 public:
  // times: how often Ask is called for a panel. at: nullptr for nothing to ask for.
  NextPanel(const uint8_t* at, int64_t bytes, int64_t times)
      : at_(at), end_(at + (at ? bytes : 0)), lines_(times == 0 ? 0 : CeilDiv(bytes / kAmxTileRowBytes, times)) {}

  void Ask() {
    for (int64_t line = 0; line < lines_ && at_ < end_; ++line, at_ += kAmxTileRowBytes)
      __builtin_prefetch(at_, /*rw=*/0, /*locality=*/2);
  }

 private:
  const uint8_t *at_, *end_;
  int64_t lines_;
};

// Sums of a block lie in tiles 0 … 3, two above two, and in memory as [32][32].
constexpr ptrdiff_t kSumStride = kPanelColumns * kWordBytes;
template <int T>
constexpr int kSumsOfTile = T / 2 * kAmxTileSide* kPanelColumns + T % 2 * kAmxTileSide;

// Tile T, of the block before, is stored (not where that is nullptr), then begins the sums of this block. A block after
// itself keeps its tiles.
template <class M, int T, bool kUsed>
inline void ChangeSums(float* before, bool first, const float* sums) {
  if (before == sums) return;
  if (before != nullptr) M::template Store<T>(before + kSumsOfTile<T>, kSumStride);
  if constexpr (kUsed) {
    if (first) {
      M::template Zero<T>();
    } else {
      M::template Load<T>(sums + kSumsOfTile<T>, kSumStride);
    }
  }
}

// Steps [begin, begin + count) of the depth, at least one, which a block of rows adds to its sums pair after pair.
struct Stretch {
  int64_t begin, count;
  bool first;
};

// Where a block's factors of one pair begin.
struct Factors {
  RowTile upper, lower;
  const uint8_t* panel;
};

// Tiles 0 … 3 += rows · panel, a step after another. Four tiles are loaded for four products; a block of fewer rows or
// columns goes without what would be zeros, and does the same with each of its sums.
template <class M, AmxNumbers kNumbers, bool kLower, bool kRight, class Change>
inline void AddStep(Factors& at, const Change& change) {
  M::template Load<4>(at.upper.data, at.upper.stride);
  M::template Load<6>(at.panel, kAmxTileRowBytes);
  change(std::integral_constant<int, 0>());
  MultiplyTile<M, kNumbers, 0, 4, 6>();
  if constexpr (kRight) M::template Load<7>(at.panel + kTileBytes, kAmxTileRowBytes);
  change(std::integral_constant<int, 1>());
  if constexpr (kRight) MultiplyTile<M, kNumbers, 1, 4, 7>();
  if constexpr (kLower) M::template Load<5>(at.lower.data, at.lower.stride);
  change(std::integral_constant<int, 2>());
  if constexpr (kLower) MultiplyTile<M, kNumbers, 2, 5, 6>();
  change(std::integral_constant<int, 3>());
  if constexpr (kLower && kRight) MultiplyTile<M, kNumbers, 3, 5, 7>();
  at.upper.data += kAmxTileRowBytes;
  if constexpr (kLower) at.lower.data += kAmxTileRowBytes;
  at.panel += kStepBytes;
}

// A block's stretch, its sums left in the tiles. Those of the block before are stored meanwhile, each just before its
// tile is needed: products would wait if all were stored at once.
template <class M, AmxNumbers kNumbers, bool kLower, bool kRight>
void AddStretch(const PackedProduct& product, const RowGroup& group, int64_t tile, int64_t panel,
                const Stretch& stretch, NextPanel& next, float* before, const float* sums) {
  const auto factors_of = [&](const PartPair& pair) {
    Factors at{group.Tile(pair.a, tile), kLower ? group.Tile(pair.a, tile + 1) : RowTile{},
               product.b->Panel(panel, pair.b) + stretch.begin * kStepBytes};
    at.upper.data += stretch.begin * kAmxTileRowBytes;
    if constexpr (kLower) at.lower.data += stretch.begin * kAmxTileRowBytes;
    return at;
  };
  Factors at = factors_of(product.pairs.front());
  AddStep<M, kNumbers, kLower, kRight>(at, [&](auto tile_of_sums) {
    constexpr int kTile = tile_of_sums;
    constexpr bool kUsed = (kTile < 2 || kLower) && (kTile % 2 == 0 || kRight);
    if constexpr (kTile % 2 == 0 || kRight) ChangeSums<M, kTile, kUsed>(before, stretch.first, sums);
  });
  next.Ask();
  int64_t steps = stretch.count - 1;
  for (size_t pair = 0;; at = factors_of(product.pairs[pair]), steps = stretch.count) {
    for (; steps > 0; --steps) {
      AddStep<M, kNumbers, kLower, kRight>(at, [](auto) {});
      next.Ask();
    }
    if (++pair == product.pairs.size()) return;
  }
}

// Rows of a group by one panel. Where there are many blocks of rows, the panel is taken a stretch after another, that
// stays in the first cache while all blocks meet it; sums wait in memory meanwhile, exactly as they are in tiles.
template <class M, AmxNumbers kNumbers>
void MultiplyPanel(const PackedProduct& product, const RowGroup& group, int64_t begin, int64_t count, int64_t panel,
                   const std::function<void(const SumBlock&)>& finish) {
  const PackedAmxTiles& b = *product.b;
  const int64_t column = panel * kPanelColumns, steps = b.steps(), blocks = CeilDiv(count, kBlockRows);
  const int columns = static_cast<int>(std::min<int64_t>(kPanelColumns, b.columns() - column));
  const bool right = columns > kAmxTileSide;
  // Of one part the bits are the same however it is cut.
  const bool cut = b.parts() > 1 || blocks >= kLeastBlocksCut;
  const int64_t stretch_steps = cut ? b.stretch_steps() : std::max<int64_t>(1, steps);
  constexpr int64_t kBlockSums = kBlockRows * kPanelColumns;
  const bool sums_wait = steps > stretch_steps;
  float* sums = ThreadWorkspace().Get<float>(Slot::kProductSums, (sums_wait ? blocks : 2) * kBlockSums);
  const auto sums_of = [&](int64_t block) { return sums + (sums_wait ? block : block % 2) * kBlockSums; };
  const auto finish_block = [&](int64_t block) {
    const int64_t row = block * kBlockRows;
    finish(
        {begin + row, column, static_cast<int>(std::min<int64_t>(kBlockRows, count - row)), columns, sums_of(block)});
  };
  NextPanel next(panel + 1 < b.panels() ? b.Panel(panel + 1, 0) : nullptr, b.parts() * steps * kStepBytes,
                 static_cast<int64_t>(product.pairs.size()) * blocks * steps);
  float* before = nullptr;
  for (int64_t step = 0; step < steps; step += stretch_steps) {
    const int64_t stretch_end = std::min(step + stretch_steps, steps);
    const Stretch stretch{step, stretch_end - step, step == 0};
    for (int64_t block = 0; block < blocks; ++block) {
      const bool lower = count - block * kBlockRows > kAmxTileSide;
      const auto add = lower   ? right ? AddStretch<M, kNumbers, true, true> : AddStretch<M, kNumbers, true, false>
                         : right ? AddStretch<M, kNumbers, false, true>
                               : AddStretch<M, kNumbers, false, false>;
      add(product, group, 2 * block, panel, stretch, next, before, sums_of(block));
      before = sums_of(block);
      if (stretch_end == steps && block > 0) finish_block(block - 1);
    }
  }
  ChangeSums<M, 0, false>(before, false, nullptr);
  ChangeSums<M, 1, false>(before, false, nullptr);
  ChangeSums<M, 2, false>(before, false, nullptr);
  ChangeSums<M, 3, false>(before, false, nullptr);
  for (int64_t block = steps == 0 ? 0 : blocks - 1; block < blocks; ++block) {
    if (steps == 0) std::fill_n(sums_of(block), kBlockSums, 0.0f);
    finish_block(block);
  }
}

template <class M, AmxNumbers kNumbers>
void MultiplyOn(const PackedProduct& product, const std::function<void(const SumBlock&)>& finish) {
  const int64_t panels = product.b->panels(), threads = ThreadsHere();
  const int64_t group_rows = RowsOfGroup(product.rows, product.b->parts() * product.b->depth_bytes(), panels, threads);
  const int64_t units = CeilDiv(product.rows, group_rows) * panels;
  const int64_t grain = threads == 1 ? units : std::max<int64_t>(1, units / (kPiecesOfThread * threads));
  ParallelFor(units, grain, [&](int64_t unit, int64_t end) {
    const ConfiguredAmxTiles<M> tiles;
    while (unit < end) {
      const int64_t begin = unit / panels * group_rows, count = std::min(group_rows, product.rows - begin);
      const RowGroup group(product, begin, count);
      const int64_t end_of_group = std::min(end, (unit / panels + 1) * panels);
      for (; unit < end_of_group; ++unit)
        MultiplyPanel<M, kNumbers>(product, group, begin, count, unit % panels, finish);
    }
  });
}

template <class M>
void MultiplyOn(const PackedProduct& product, const std::function<void(const SumBlock&)>& finish) {
  if (product.b->numbers() == AmxNumbers::kBFloat16) return MultiplyOn<M, AmxNumbers::kBFloat16>(product, finish);
  MultiplyOn<M, AmxNumbers::kBytes>(product, finish);
}

}  // namespace

PackedAmxTiles::PackedAmxTiles(AmxNumbers numbers, int parts, int64_t depth_bytes, int64_t columns)
    : numbers_(numbers),
      parts_(parts),
      depth_bytes_(depth_bytes),
      columns_(columns),
      memory_(hwy::AllocateAligned<uint8_t>(static_cast<size_t>(std::max<int64_t>(1, bytes())))) {
  if (!memory_) throw std::bad_alloc();
  AskForLargePages(memory_.get(), static_cast<size_t>(bytes()));
}

template <class Pack>
void PackedAmxTiles::ForEachTile(int part, const Pack& pack) {
  ParallelFor(panels(), /*grain=*/1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      uint8_t* to = memory_.get() + Place(panel, part);
      for (int64_t step = 0; step < steps(); ++step) {
        for (int64_t tile = 0; tile < kPanelColumns / kAmxTileSide; ++tile, to += kTileBytes)
          pack(panel * kPanelColumns + tile * kAmxTileSide, step * kAmxTileRowBytes, reinterpret_cast<uint32_t*>(to));
      }
    }
  });
}

PackedAmxTiles::PackedAmxTiles(AmxNumbers numbers, std::span<const void* const> parts, int64_t depth, int64_t columns)
    : PackedAmxTiles(numbers, static_cast<int>(parts.size()), depth * (numbers == AmxNumbers::kBFloat16 ? 2 : 1),
                     columns) {
  for (int part = 0; part < parts_; ++part) {
    const auto* from = static_cast<const uint8_t*>(parts[static_cast<size_t>(part)]);
    ForEachTile(part, [&](int64_t column, int64_t byte, uint32_t* to) {
      const int64_t held = std::min<int64_t>(kAmxTileSide, columns_ - column);
      const int64_t count = std::min<int64_t>(kAmxTileRowBytes, depth_bytes_ - byte);
      if (held == kAmxTileSide && count == kAmxTileRowBytes && depth_bytes_ % kWordBytes == 0) {
        PackAmxTileOfColumns(reinterpret_cast<const uint32_t*>(from + column * depth_bytes_ + byte),
                             depth_bytes_ / kWordBytes, to);
        return;
      }
      alignas(64) uint8_t filled[kTileBytes] = {};
      for (int64_t n = 0; n < held; ++n)  // of the last panel's second tile there may be none
        std::memcpy(filled + n * kAmxTileRowBytes, from + (column + n) * depth_bytes_ + byte, count);
      PackAmxTileOfColumns(reinterpret_cast<const uint32_t*>(filled), kAmxTileSide, to);
    });
  }
}

PackedAmxTiles PackedAmxTiles::OfRows(std::span<const void* const> parts, int64_t depth, int64_t columns) {
  PackedAmxTiles packed(AmxNumbers::kBFloat16, static_cast<int>(parts.size()), 2 * depth, columns);
  for (int part = 0; part < packed.parts_; ++part) {
    const auto* rows = static_cast<const uint16_t*>(parts[static_cast<size_t>(part)]);
    packed.ForEachTile(part, [&](int64_t column, int64_t byte, uint32_t* to) {
      const int64_t held = std::min<int64_t>(kAmxTileSide, columns - column), row = byte / 2;
      const int64_t count = std::min<int64_t>(kAmxTileRowNumbers, depth - row);
      const uint16_t* from = rows + row * columns + column;
      if (held == kAmxTileSide && count == kAmxTileRowNumbers) return PackAmxTileOfRows(from, columns, to);
      alignas(64) uint16_t filled[kAmxTileRowNumbers * kAmxTileSide] = {};
      for (int64_t r = 0; r < count && held > 0; ++r)
        std::memcpy(filled + r * kAmxTileSide, from + r * columns, 2 * held);
      PackAmxTileOfRows(filled, kAmxTileSide, to);
    });
  }
  return packed;
}

int64_t PackedAmxTiles::stretch_steps() const {
  const int64_t cut = std::max<int64_t>(1, kStretchBytes / (parts_ * kStepBytes));
  return steps() <= cut + cut / 2 ? std::max<int64_t>(1, steps()) : cut;  // of not much more, all
}

int64_t PackedAmxTiles::bytes() const { return panels() * parts_ * steps() * kStepBytes; }

int64_t PackedAmxTiles::Place(int64_t panel, int part) const { return (panel * parts_ + part) * steps() * kStepBytes; }

const uint8_t* PackedAmxTiles::Panel(int64_t panel, int part) const { return memory_.get() + Place(panel, part); }

void PackedAmxTiles::Unpack(int part, void* to) const {
  for (int64_t column = 0; column < columns_; ++column) {
    const uint8_t* from = Panel(column / kPanelColumns, part);
    uint8_t* numbers = static_cast<uint8_t*>(to) + column * depth_bytes_;
    ForEachWord(column, depth_bytes_,
                [&](int64_t at, int64_t count, int64_t place) { std::memcpy(numbers + at, from + place, count); });
  }
}

int64_t RowsOfGroup(int64_t rows, int64_t row_bytes, int64_t panels, int64_t threads) {
  const int64_t in_cache = kRowGroupBytes / std::max<int64_t>(1, row_bytes) / kBlockRows * kBlockRows;
  const int64_t groups = threads == 1 ? 1 : CeilDiv(kPiecesOfThread * threads, panels);
  const int64_t for_threads = CeilDiv(CeilDiv(rows, groups), kBlockRows) * kBlockRows;
  return std::max<int64_t>(kBlockRows, std::min(in_cache, for_threads));
}

void MultiplyPacked(const PackedProduct& product, const std::function<void(const SumBlock&)>& finish) {
  if (product.rows == 0 || product.b->columns() == 0) return;
  if (product.tiles == AmxTiles::kModel) return MultiplyOn<AmxModel>(product, finish);
#if defined(__x86_64__)
  if (product.tiles == AmxTiles::kInstructions) return MultiplyOn<AmxInstructions>(product, finish);
#endif
  throw std::logic_error("a product in AMX tiles without them");
}

}  // namespace lshformer
