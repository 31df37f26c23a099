// The pass of pairs that are seen whatever the hash says: in natural order, a band around the diagonal and the rows and
// columns of global tokens.
#include <algorithm>
#include <array>

#include "kernels/planning/plan_builder.h"

namespace lshformer {
namespace {

// Columns of the rows [begin, end) that are not global themselves.
void AddBand(const AlwaysSeen& always, bool causal, int32_t begin, int32_t end, UnitPlan& parts) {
  const int32_t length = parts.unit.length, last = causal ? end : length;
  Segment band{begin, begin, false};
  if (always.reach >= 0) {
    band.column_begin = static_cast<int32_t>(std::max<int64_t>(0, int64_t{begin} - always.reach));
    band.column_end = static_cast<int32_t>(std::min<int64_t>(last, int64_t{end} + always.reach));
  }
  std::array<Segment, 3> seen{{{0, 0, false}, band, {0, 0, false}}};
  const bool empty = band.column_begin >= band.column_end;
  if (always.global_first >= 0 && (empty || band.column_begin > 0)) seen[0] = {0, 1, false};
  if (always.global_last >= 0 && (empty || band.column_end < length) && last == length)
    seen[2] = {length - 1, length, false};
  AddTile(parts, begin, end, seen.data(), seen.size());
}

}  // namespace

bool AnyAlwaysSeen(const AttentionSpec& spec) { return spec.window > 0 || spec.global_first || spec.global_last; }

AlwaysSeen AlwaysSeenOf(const AttentionSpec& spec, int32_t length) {
  AlwaysSeen always;
  if (spec.window > 0) always.reach = std::min(spec.window, length - 1);
  if (spec.global_first) always.global_first = 0;
  if (spec.global_last) always.global_last = length - 1;
  return always;
}

void AddAlwaysPass(int hashes, uint8_t rule, UnitPlan& parts) {
  const AlwaysSeen always = parts.unit.always;
  if (!always.Any()) return;
  const int32_t length = parts.unit.length;
  const bool causal = (rule & kColumnNotAfter) != 0;
  TilePass pass;
  pass.rule = static_cast<uint8_t>(rule | kAlwaysSeen);
  pass.hash = hashes;
  pass.columns = length;
  pass.tile_begin = static_cast<int64_t>(parts.tiles.size());
  for (int32_t row = 0; row < length;) {
    if (always.IsGlobal(row)) {  // alone, so that no other row visits all columns
      const Segment all{0, causal ? row + 1 : length, false};
      AddTile(parts, row, row + 1, &all, 1);
      ++row;
      continue;
    }
    int32_t end = std::min(length, row + kTileRows);
    if (always.IsGlobal(end - 1)) --end;
    AddBand(always, causal, row, end, parts);
    row = end;
  }
  pass.tile_end = static_cast<int64_t>(parts.tiles.size());
  parts.passes.push_back(pass);
}

}  // namespace lshformer
