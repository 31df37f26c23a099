// What the executor's vectorised parts share: one unit of the plan with its work memory.
//
// A pass is worked through in steps that are the same whether one thread takes the whole unit or many share it: gather
// the columns in the pass's order, run tiles (forward) or groups of columns (backward), add up. Which thread does what
// never changes what is added to what, nor in which order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/centroids.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/cpu/attention/bfloat16.h"
#include "kernels/cpu/attention/workspace.h"
#include "kernels/dropout.h"
#include "kernels/execution.h"
#include "kernels/planning/plan_arrays.h"

namespace lshformer {

inline constexpr int kBlockColumns = 64;  // columns whose scores are held at a time; see docs/numerics.md, "Tiles"
inline constexpr int kRowPadding = 16;    // rows of work memory are whole vectors on every instruction set
// Where products go through AMX tiles, work memory is in whole tiles: rows of numbers, rows of a tile of the plan,
// and columns, of which a block begins at a multiple of this.
inline constexpr int kAmxPadding = kAmxTileRowNumbers;
static_assert(kBlockColumns % kAmxPadding == 0 && kTileRows % kAmxPadding == 0);
inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr double kLn2 = 0.693147180559945309;
// Scores are in units of log 2. A pair that does not count gets kMasked; a row that saw nothing has the maximum
// kNothing.
inline constexpr float kNothing = -1e30f, kMasked = -3e30f;
// Reformer's score where a row meets its own position, in natural logs and in units of log 2. It matters only to a row
// that sees nothing else: its lse is kSelfPenaltyScore + log(times met), and no other row's comes near.
inline constexpr float kSelfPenaltyScore = static_cast<float>(ReformerAttention::kSelfScore),
                       kSelfScore = kSelfPenaltyScore * kLog2E;
inline constexpr auto kKeyNormEpsilon = static_cast<float>(ReformerAttention::kKeyNormEpsilon);

// The backward adds up a row's gradient in one part per group of columns, then the parts in order: groups can run side
// by side. Their number depends on the length alone, never on threads.
inline int ColumnGroups(int32_t length) { return length < 1024 ? 1 : length < 4096 ? 2 : 4; }

// What a row of head_dim numbers takes in work memory.
inline int PaddedHeadDim(int head_dim, bool in_amx_tiles) {
  const int padding = in_amx_tiles ? kAmxPadding : kRowPadding;
  return (head_dim + padding - 1) / padding * padding;
}

// What a row of `padded` numbers takes, in T's.
template <class T>
constexpr int HeldRow(int padded) {
  if constexpr (std::is_same_v<T, float>) {
    return padded;
  } else if constexpr (requires { T::kParts; }) {
    return padded / 2 * T::kParts;
  } else {
    return padded / 2;
  }
}

// Columns of the pass in work, gathered in its order: all of them, or those that the tile in work meets and some more.
// Column c lies at c − first. Their numbers are float or pairs in bfloat16 (Operands). In AMX tiles `first` is a
// multiple of kAmxPadding, whole panels are held, and the last one ends in zeros. Of two parts each row and each panel
// holds one after the other.
struct Columns {
  int32_t count = 0;                          // of the pass
  int64_t first = 0;                          // the first one held
  void *operand = nullptr, *value = nullptr;  // [held][padded]
  // AMX tiles: panels of the values (forward, which holds no others) or of the operands (backward).
  BFloat16Pair* panels = nullptr;
  float* key_scale = nullptr;       // [held] what normalised a shared key; nullptr: keys are their own
  uint8_t* not_finite = nullptr;    // [held] pairs that do not count must be left out, not multiplied by 0
  DropoutWords* dropout = nullptr;  // [held]; nullptr: none
  const int32_t* order = nullptr;   // of all columns; nullptr: natural

  template <class T>
  T* OperandAt(int64_t column, int padded) const {
    return static_cast<T*>(operand) + (column - first) * HeldRow<T>(padded);
  }
  template <class T>
  T* ValueAt(int64_t column, int padded) const {
    return static_cast<T*>(value) + (column - first) * HeldRow<T>(padded);
  }
  template <class T>
  BFloat16Pair* PanelAt(int64_t column, int padded) const {
    return panels + (column - first) * HeldRow<T>(padded);
  }
  int32_t position(int64_t column) const { return order ? order[column] : static_cast<int32_t>(column); }
  const DropoutWords* dropout_at(int64_t column) const { return dropout ? dropout + (column - first) : nullptr; }
  bool AllFinite(int64_t begin, int count_of) const {
    return std::memchr(not_finite + (begin - first), 1, count_of) == nullptr;
  }
};

// The rows of a unit in a tensor of all.
template <class T>
struct UnitTensor {
  T* data = nullptr;
  int64_t stride = 0;  // numbers
  T* at(int64_t position) const { return data + position * stride; }
};

// Queries, keys or values of a unit. Where they are in bfloat16, GatherRows alone reads them.
struct UnitInput : UnitTensor<const float> {
  UnitTensor<const BFloat16> rounded;  // with data: in place of the others
};

struct UnitWork {
  const AttentionForward* call = nullptr;
  const AttentionPlan* plan = nullptr;
  const Unit* unit = nullptr;
  Workspace* memory = nullptr;             // of the unit; tiles use the workspace of the thread that runs them
  Operands operands = Operands::kFloat32;  // what its products are made of: of the call, or float32
  AmxTiles amx_tiles = AmxTiles::kNone;    // that they go through
  bool shared = false;                     // all threads work on this unit
  uint64_t dropout_key = 0;                // of this sequence and head
  // Of the call, or copies where many passes go over them: rows of one head lie far apart in a tensor of all.
  UnitInput query, key, value;
  UnitTensor<float> out, kept;       // kept: the rows' sums between passes
  UnitTensor<BFloat16> rounded_out;  // with data: in place of out
  float* row_sum = nullptr;          // [length] Σ exp2(s − maximum) by position, between passes
  // What the rows of passes with visits found, for the pass behind them: [visits · length][padded] Σ exp2(s − maximum)
  // v, and {maximum, Σ exp2(s − maximum)}.
  float *visits = nullptr, *visit_sums = nullptr;
  Columns columns;   // of the pass; none are held where `held` is not 0
  int64_t held = 0;  // > 0: tiles hold so many columns at a time instead (HeldColumns)

  // A fill's share of the unseen keys, null without a fill. Where every row of a bucket sees the same keys (one hash
  // function), `unseen_values` is Σ v over the keys that the bucket run does not see; otherwise Σ v over all keys, and
  // the fill's weight is taken off every seen pair.
  const float* fill_score = nullptr;     // [length] by position, units of log 2; kNothing where nothing is unseen
  const float* mean_key = nullptr;       // [padded], fill mean
  const float* unseen_values = nullptr;  // [runs or 1][padded]
  bool subtract_fill = false;

  // Backward only.
  const AttentionBackward* backward = nullptr;
  UnitInput grad_out;
  UnitTensor<float> grad_query, grad_key, grad_value;
  float *operand_gradients = nullptr, *value_gradients = nullptr;  // [columns][padded] in their order
  float* row_gradients = nullptr;                                  // [groups or 1][length][padded] in the order of rows
  float* row_gradient_sums = nullptr;                              // [groups or 1][length]
  float* score_gradient_sum = nullptr;  // [length] Σ over seen pairs of ∂loss/∂s, by position; fill mean
  const float* fill_weight = nullptr;   // [length] e^(fill − lse), 0 where nothing is unseen

  int head() const { return unit->head; }
  int head_dim() const { return call->shape.head_dim; }
  bool in_amx_tiles() const { return amx_tiles != AmxTiles::kNone; }
  int padded() const { return PaddedHeadDim(head_dim(), in_amx_tiles()); }
  const int32_t* seen() const { return plan->seen.data() + int64_t{unit->head} * plan->tokens + unit->token_begin; }
  // Of a unit with clusters.
  const PlanClusters& clusters() const { return plan->clusters[unit->clusters]; }
  const PlanLevel& level(int of) const { return plan->levels[clusters().level_begin + of]; }
  const int32_t* begins(const PlanLevel& level) const { return plan->orders.data() + level.begins; }
  const UnitCentroids& centroids() const { return call->centroids->units[unit->clusters]; }
  int64_t token(int64_t position) const { return unit->token_begin + position; }
  float lse(int64_t position) const { return call->lse[token(position) * call->shape.heads + head()]; }
  int32_t GroupBegin(int group) const {
    const int groups = ColumnGroups(unit->length);
    const auto begin = static_cast<int32_t>(int64_t{columns.count} * group / groups);
    // Groups run side by side, and a block of sums in tiles is one thread's.
    return in_amx_tiles() && group < groups ? begin / kAmxPadding * kAmxPadding : begin;
  }
};

// From the first column that the tile meets to the last; {0, 0} if it meets none.
inline std::pair<int64_t, int64_t> ColumnsMet(const AttentionPlan& plan, const Tile& tile) {
  std::pair<int64_t, int64_t> met = {INT64_MAX, 0};
  for (int32_t s = tile.segment_begin; s < tile.segment_end; ++s) {
    met.first = std::min<int64_t>(met.first, plan.segments[s].column_begin);
    met.second = std::max<int64_t>(met.second, plan.segments[s].column_end);
  }
  return met.second > met.first ? met : std::pair<int64_t, int64_t>{0, 0};
}

// Room for `count` columns in the buffers of `memory`, as the pass in work needs them.
Columns HoldColumns(const UnitWork& work, const TilePass& pass, Workspace& memory, int64_t count);

// Vectorised steps, by the instruction set in force.
void GatherColumns(const UnitWork& work, const TilePass& pass, const Columns& columns, int64_t begin, int64_t end);
void ForwardTiles(const UnitWork& work, const TilePass& pass, int64_t tile_begin, int64_t tile_end);
// Whether all of the unit's numbers, in the backward the output's gradient too, are finite and below 2⁵⁶, so that parts
// and scores are finite too.
bool HasParts(const UnitWork& work);
void BackwardGroup(const UnitWork& work, const TilePass& pass, int group);
void AddRowGradients(const UnitWork& work, const TilePass& pass, int group, int64_t tile_begin, int64_t tile_end);
void AddColumnGradients(const UnitWork& work, const TilePass& pass, int64_t begin, int64_t end);
void AddCentroidGradients(const UnitWork& work, const TilePass& pass, int64_t cluster_begin, int64_t cluster_end);
// The fill members of `work`, in the unit's work memory; what unseen pairs add to the gradients.
void PrepareFill(UnitWork& work);
void PrepareFillBackward(UnitWork& work);
void FinishFillBackward(const UnitWork& work);

}  // namespace lshformer
