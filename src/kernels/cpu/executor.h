// What the executor's vectorised halves share: one unit of the plan with its work memory. Everything is in the pass's
// own order of columns, gathered once; rows are gathered tile by tile.
#pragma once
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cpu/workspace.h"
#include "kernels/dropout.h"
#include "kernels/plan.h"

namespace lshformer {

inline constexpr int kBlockColumns = 64;  // columns whose scores are held at a time; see docs/numerics.md, "Tiles"
inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr double kLn2 = 0.693147180559945309;
// Scores are in units of log 2. A pair that does not count gets kMasked; a row that saw nothing has the maximum
// kNothing.
inline constexpr float kNothing = -1e30f, kMasked = -3e30f;

struct UnitWork {
  const AttentionForward* call;
  const AttentionPlan* plan;
  const Unit* unit;
  Workspace* memory;
  uint64_t dropout_key = 0;  // of this sequence and head
  float* row_sum = nullptr;  // [length] Σ exp2(s − max) by position, between passes
  // A fill's share of the unseen keys, null without a fill. Where every row of a bucket sees the same keys (one hash
  // function), `unseen_values` is Σ v over the keys that the bucket run does not see; otherwise Σ v over all keys, and
  // the fill's weight is taken off every seen pair.
  const float* fill_score = nullptr;     // [length] by position, units of log 2; kNothing where nothing is unseen
  const float* mean_key = nullptr;       // [head_dim], fill mean
  const float* unseen_values = nullptr;  // [runs or 1][UnseenStride()]
  bool subtract_fill = false;

  int64_t UnseenStride() const { return (call->shape.head_dim + 15) / 16 * 16; }
  int head() const { return unit->head; }
  int head_dim() const { return call->shape.head_dim; }
  const int32_t* seen() const { return plan->seen.data() + int64_t{unit->head} * plan->tokens + unit->token_begin; }
  int64_t token(int64_t position) const { return unit->token_begin + position; }
};

// One direction of one unit: the vectorised code of the instruction set in force.
void DispatchForwardUnit(const UnitWork& work);
struct BackwardUnitWork;
void DispatchBackwardUnit(const BackwardUnitWork& work);

// A unit of the backward. The gradients of a unit's rows and columns are added up in the caller's tensors.
struct BackwardUnitWork {
  UnitWork forward;
  const AttentionBackward* call;
  float* score_gradient_sum = nullptr;  // [length] Σ over seen pairs of ∂loss/∂s, by position; fill mean
  const float* fill_weight = nullptr;   // [length] e^(fill − lse), 0 where nothing is unseen
};

// Sets the fill members of `work`, in the unit's work memory.
void PrepareFill(UnitWork& work);
void PrepareFillBackward(BackwardUnitWork& work);
void FinishFillBackward(const BackwardUnitWork& work);

}  // namespace lshformer
