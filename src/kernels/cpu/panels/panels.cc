#include "kernels/cpu/panels/panels.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/work_memory.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/panels/panels.cc"
#include <hwy/foreach_target.h>

// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Eight lanes where there are as many: the registers hold the sums of 6 rows and 2 vectors of columns. Four lanes: of 3
// rows and 4 vectors.
using Lanes = hn::CappedTag<float, 8>;
inline constexpr Lanes kLanesTag;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(kLanesTag)), kVectors = kFloatPanelColumns / kLanes,
                     kRows = kLanes >= 8   ? 6
                             : kLanes == 4 ? 3
                                           : 1;

// How c begins: with the sum alone, with the bias, or with what is there.
struct Target {
  float* c;
  int64_t stride;
  const float* bias;
  bool accumulate;
};

// kTurned: a's rows are adjacent, and `stride` is the step in k; otherwise it is the step between rows, k adjacent.
template <int kCount, bool kTurned>
HWY_INLINE void Tile(const float* HWY_RESTRICT a, int64_t stride, const float* HWY_RESTRICT panel, int64_t terms,
                     const Target& to) {
  hn::Vec<Lanes> sums[kCount][kVectors];
  for (auto& row : sums)
    for (auto& sum : row) sum = hn::Zero(kLanesTag);
  const float* rows[kCount];
  for (int i = 0; i < kCount; ++i) rows[i] = kTurned ? a + i : a + i * stride;
  for (int64_t k = 0; k < terms; ++k) {
    hn::Vec<Lanes> b[kVectors];
    for (int j = 0; j < kVectors; ++j) b[j] = hn::Load(kLanesTag, panel + k * kFloatPanelColumns + j * kLanes);
    HWY_UNROLL(6)
    for (int i = 0; i < kCount; ++i) {
      const auto x = hn::Set(kLanesTag, kTurned ? a[k * stride + i] : rows[i][k]);
      for (int j = 0; j < kVectors; ++j) sums[i][j] = hn::MulAdd(x, b[j], sums[i][j]);
    }
  }
  for (int i = 0; i < kCount; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      float* at = to.c + i * to.stride + j * kLanes;
      auto sum = sums[i][j];
      if (to.accumulate) sum = hn::Add(sum, hn::LoadU(kLanesTag, at));
      if (to.bias != nullptr) sum = hn::Add(sum, hn::LoadU(kLanesTag, to.bias + j * kLanes));
      hn::StoreU(sum, kLanesTag, at);
    }
  }
}

// A tile whose columns end inside the panel: through a buffer.
template <int kCount, bool kTurned>
HWY_NOINLINE void NarrowTile(const float* a, int64_t stride, const float* panel, int64_t terms, const Target& to,
                             int64_t columns) {
  float c[kCount * kFloatPanelColumns] = {}, bias[kFloatPanelColumns] = {};
  const auto at = [&](int i) { return to.c + i * to.stride; };
  if (to.accumulate)
    for (int i = 0; i < kCount; ++i) std::copy_n(at(i), columns, c + i * kFloatPanelColumns);
  if (to.bias != nullptr) std::copy_n(to.bias, columns, bias);
  Tile<kCount, kTurned>(a, stride, panel, terms,
                        {c, kFloatPanelColumns, to.bias != nullptr ? bias : nullptr, to.accumulate});
  for (int i = 0; i < kCount; ++i) std::copy_n(c + i * kFloatPanelColumns, columns, at(i));
}

// A tile of `count` ≤ kCount rows.
template <int kCount, bool kTurned>
HWY_INLINE void TileOf(int64_t count, const float* a, int64_t stride, const float* panel, int64_t terms,
                       const Target& to, int64_t columns) {
  if constexpr (kCount > 1) {
    if (count < kCount) return TileOf<kCount - 1, kTurned>(count, a, stride, panel, terms, to, columns);
  }
  if (columns == kFloatPanelColumns) return Tile<kCount, kTurned>(a, stride, panel, terms, to);
  NarrowTile<kCount, kTurned>(a, stride, panel, terms, to, columns);
}

// As few tiles as `rows` rows need, as equal as they can be: the sums of a few rows left over would wait for each
// other.
template <bool kTurned>
void Tiles(int64_t rows, const float* a, int64_t stride, const float* panel, int64_t terms, const Target& to,
           int64_t columns) {
  const int64_t tiles = (rows + kRows - 1) / kRows;
  for (int64_t tile = 0, row = 0, end = 0; tile < tiles; ++tile, row = end) {
    end = rows * (tile + 1) / tiles;
    TileOf<kRows, kTurned>(end - row, kTurned ? a + row : a + row * stride, stride, panel, terms,
                           {to.c + row * to.stride, to.stride, to.bias, to.accumulate}, columns);
  }
}

}  // namespace

// `rows` rows and one stretch of the sum with one panel.
void PanelRows(int64_t rows, const float* a, bool turned, int64_t stride, const float* panel, int64_t terms, float* c,
               int64_t c_stride, const float* bias, bool accumulate, int64_t columns) {
  const Target to{c, c_stride, bias, accumulate};
  if (turned) return Tiles<true>(rows, a, stride, panel, terms, to, columns);
  Tiles<false>(rows, a, stride, panel, terms, to, columns);
}

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {

HWY_EXPORT(PanelRows);

namespace {

// Of a thread's piece. Columns are whole panels.
constexpr int64_t kPieceRows = 128, kPieceColumns = 384;
// A stretch of so many columns (197 KB) stays in the second-level cache while groups of rows go by. A group's rows (18
// KB) are read again and again while its panels (25 KB each) go by, one behind the other.
constexpr int64_t kGroupRows = 12, kGroupColumns = 128;
// Of a plain factor, packed at a time: whole stretches.
constexpr int64_t kPackedInner = 2 * kStretch, kPackedColumns = 1024;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// Rows [row, row + rows) and columns [column, column + columns) of one stretch of p's terms, [k, k + terms).
void MultiplyStretch(const MatrixProduct& p, const float* panels, int64_t row, int64_t rows, int64_t column,
                     int64_t columns, int64_t k, int64_t terms) {
  const bool turned = p.a.column_stride != 1;
  const int64_t stride = turned ? p.a.column_stride : p.a.row_stride, groups = CeilDiv(rows, kGroupRows);
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = row + rows * group / groups, count = row + rows * (group + 1) / groups - first;
    const float* a = p.a.data + first * p.a.row_stride + k * p.a.column_stride;
    for (int64_t j = column; j < column + columns; j += kFloatPanelColumns) HWY_DYNAMIC_DISPATCH(PanelRows)
    (count, a, turned, stride, panels + j * p.inner + k * kFloatPanelColumns, terms, p.c + first * p.c_stride + j,
     p.c_stride, p.bias != nullptr && k == 0 ? p.bias + j : nullptr, p.accumulate || k > 0,
     std::min(kFloatPanelColumns, p.columns - j));
  }
}

void MultiplyPiece(const MatrixProduct& p, const float* panels, int64_t row, int64_t rows, int64_t column,
                   int64_t columns) {
  for (int64_t k = 0; k < p.inner; k += kStretch)
    for (int64_t j = 0; j < columns; j += kGroupColumns)
      MultiplyStretch(p, panels, row, rows, column + j, std::min(kGroupColumns, columns - j), k,
                      std::min(kStretch, p.inner - k));
}

}  // namespace

int64_t PanelNumbers(int64_t inner, int64_t columns) { return inner * RoundUp(columns, kFloatPanelColumns); }

void PackPanels(MatrixView b, int64_t inner, int64_t columns, float* panels) {
  ParallelFor(CeilDiv(columns, kFloatPanelColumns), 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * kFloatPanelColumns, width = std::min(kFloatPanelColumns, columns - first);
      const float* from = b.data + first * b.column_stride;
      float* to = panels + first * inner;
      for (int64_t k = 0; k < inner; ++k, to += kFloatPanelColumns) {
        for (int64_t j = 0; j < width; ++j) to[j] = from[k * b.row_stride + j * b.column_stride];
        std::fill(to + width, to + kFloatPanelColumns, 0.0f);
      }
    }
  });
}

void MultiplyPanels(const MatrixProduct& p, const float* panels) {
  if (p.rows == 0 || p.columns == 0) return;
  // Few rows are shared out by columns too, so that every thread has work.
  const int64_t threads = ThreadsHere(), row_pieces = CeilDiv(p.rows, kPieceRows);
  const int64_t wanted = CeilDiv(threads, row_pieces);
  const int64_t columns = std::min(kPieceColumns, RoundUp(CeilDiv(p.columns, wanted), kFloatPanelColumns));
  const int64_t column_pieces = CeilDiv(p.columns, columns);
  const int64_t rows = CeilDiv(p.rows, row_pieces);
  ParallelFor(row_pieces * column_pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t row = piece / column_pieces * rows, column = piece % column_pieces * columns;
      MultiplyPiece(p, panels, row, std::min(rows, p.rows - row), column, std::min(columns, p.columns - column));
    }
  });
}

void MultiplyByPanels(const MatrixProduct& p) {
  const int64_t inner = std::min(p.inner, kPackedInner);
  const int64_t columns = std::min(p.columns, kPackedColumns * kPackedInner / RoundUp(inner, kStretch));
  float* panels = WorkspaceOf(WorkspaceUse::kPackedSecond, PanelNumbers(inner, columns) * sizeof(float));
  for (int64_t k = 0; k < p.inner; k += inner) {
    for (int64_t j = 0; j < p.columns; j += columns) {
      MatrixProduct part = p;
      part.inner = std::min(inner, p.inner - k), part.columns = std::min(columns, p.columns - j);
      part.a.data += k * p.a.column_stride;
      part.b.data += k * p.b.row_stride + j * p.b.column_stride;
      part.c += j;
      part.bias = p.bias != nullptr && k == 0 ? p.bias + j : nullptr;
      part.accumulate = p.accumulate || k > 0;
      PackPanels(part.b, part.inner, part.columns, panels);
      MultiplyPanels(part, panels);
    }
  }
}

}  // namespace lshformer
#endif
