// The plan of local attention: one pass in natural order, whose tiles meet the columns along the diagonal.
//
// Rows [begin, end) meet the columns [begin − window, end + window). All rows see the middle of them, [end − 1 −
// window, begin + window], which needs no test; what a tile visits beside the pairs of its windows is (rows − 1) / (2 ·
// window + 1) of them.
#include <algorithm>
#include <array>

#include "kernels/planning/plan_builder.h"

namespace lshformer {
namespace {

// Few rows to a tile visit few pairs in vain, many make the better products: two vectors of them where windows are
// narrow (docs/numerics.md, "Tiles").
constexpr int32_t kFewRows = 32, kWideWindow = 256;
// Products in matrix tiles take so many columns at a time, from a multiple on: there segments begin and end.
constexpr int32_t kColumnsAtATime = 32;

void AddWindowTile(UnitPlan& parts, int64_t window, int64_t begin, int64_t end) {
  const int64_t length = parts.unit.length;
  const int64_t first = std::max<int64_t>(0, begin - window), last = std::min(length, end + window);
  // The columns that all rows see, from and to whole blocks.
  int64_t low = std::max<int64_t>(0, end - 1 - window), high = std::min(length, begin + window + 1);
  low = (low + kColumnsAtATime - 1) / kColumnsAtATime * kColumnsAtATime;
  if (high < length) high = high / kColumnsAtATime * kColumnsAtATime;
  if (low >= high) low = high = last;
  const auto segment = [](int64_t from, int64_t to, bool every_pair) {
    return Segment{static_cast<int32_t>(from), static_cast<int32_t>(to), every_pair};
  };
  const std::array<Segment, 3> seen{segment(first, low, false), segment(low, high, true), segment(high, last, false)};
  AddTile(parts, static_cast<int32_t>(begin), static_cast<int32_t>(end), seen.data(), seen.size());
}

void AddWindowPass(const AttentionSpec& spec, UnitPlan& parts) {
  const int32_t length = parts.unit.length;
  if (spec.window >= length - 1) return AddExact(parts);
  parts.unit.always.reach = spec.window;
  TilePass pass;
  pass.rule = kAlwaysSeen;
  pass.columns = length;
  const int32_t rows = spec.window < kWideWindow ? kFewRows : kTileRows;
  for (int32_t begin = 0; begin < length; begin += rows)
    AddWindowTile(parts, spec.window, begin, std::min(length, begin + rows));
  pass.tile_end = static_cast<int64_t>(parts.tiles.size());
  parts.passes.push_back(pass);
  parts.pairs_computed = PairsInWindows(spec.window, length);
}

}  // namespace

AttentionPlanPtr BuildLocalPlan(const AttentionSpec& spec, const AttentionShape& shape) {
  return BuildFromUnits(std::make_shared<AttentionPlan>(), shape,
                        [&spec](const AttentionPlan&, UnitPlan& parts) { AddWindowPass(spec, parts); });
}

}  // namespace lshformer
