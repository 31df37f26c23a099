// What the rows of a tile have found so far: begun where the passes before left it, kept for the passes behind, divided
// and written by the last one. Compiled once for each instruction set.
#if defined(LSHFORMER_ROW_SUMS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LSHFORMER_ROW_SUMS_INL
#undef LSHFORMER_ROW_SUMS_INL
#else
#define LSHFORMER_ROW_SUMS_INL
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/attention/executor.h"
#include "kernels/cpu/attention/products-inl.h"
#include "kernels/cpu/attention/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {

// Running state of a tile's rows.
struct RowState {
  alignas(64) float maximum[kTileRows];
  alignas(64) float sum[kTileRows];      // Σ exp2(s − maximum) over seen pairs
  alignas(64) float rescale[kTileRows];  // what the block's new maximum makes of the old sums
  alignas(64) float fill[kTileRows];     // score of unseen pairs; kNothing where there are none
  float* accumulator;                    // [rows][padded] Σ exp2(s − maximum) v
  float* transposed;                     // AMX tiles: [padded][rows] instead, while blocks are worked through
};

inline void StartRows(const UnitWork& work, const TileRows& rows, RowState& state) {
  for (int r = 0; r < rows.padded; ++r) {
    state.sum[r] = 0;
    state.fill[r] = work.fill_score ? work.fill_score[rows.positions[r]] : kNothing;
    state.maximum[r] = state.fill[r];
  }
  std::memset(state.accumulator, 0, sizeof(float) * rows.padded * work.padded());
}

// Between passes maximum and accumulator rest where lse and out will be.
inline void ResumeRows(const UnitWork& work, const TileRows& rows, RowState& state) {
  StartRows(work, rows, state);
  for (int r = 0; r < rows.count; ++r) {
    const int32_t position = rows.positions[r];
    if (r + kRowsAhead < rows.count) PrefetchRow(work.kept.at(rows.positions[r + kRowsAhead]), work.head_dim());
    state.sum[r] = work.row_sum[position];
    state.maximum[r] = work.lse(position);
    std::memcpy(state.accumulator + r * work.padded(), work.kept.at(position), sizeof(float) * work.head_dim());
  }
}

// Adds what the visits of a pass found to the rows.
inline void AddUpVisits(const UnitWork& work, const TilePass& visited, const TileRows& rows, RowState& state) {
  const Floats d;
  const int padded = work.padded();
  const int32_t* places = work.plan->Order(visited.visit_places);
  const auto place = [&](int32_t visit, int r) -> int64_t {  // −1: there is no such visit
    const int32_t of_pass = places[visit * work.unit->length + rows.positions[r]];
    return of_pass < 0 ? -1 : visited.visit_rows_before + of_pass;
  };
  alignas(64) float factors[kTileRows];
  int64_t at[kTileRows];
  int32_t visits = 0;  // that some row has
  for (int r = 0; r < rows.padded; ++r) {
    factors[r] = state.maximum[r];
    int32_t visit = 0;
    for (int64_t found; visit < visited.visits && (found = place(visit, r)) >= 0; ++visit)
      state.maximum[r] = std::max(state.maximum[r], work.visit_sums[2 * found]);
    visits = std::max(visits, visit);
    factors[r] -= state.maximum[r];
  }
  for (int r = 0; r < rows.padded; r += kLanes) hn::Store(Exp2(d, hn::Load(d, factors + r)), d, factors + r);
  for (int r = 0; r < rows.count; ++r) {
    if (state.sum[r] == 0 || factors[r] == 1) continue;
    state.sum[r] *= factors[r];
    float* sum = state.accumulator + r * padded;
    CopyScaled(sum, factors[r], padded, sum);
  }
  for (int32_t visit = 0; visit < visits; ++visit) {
    for (int r = 0; r < rows.padded; ++r) {
      at[r] = place(visit, r);
      factors[r] = at[r] < 0 ? kMasked : work.visit_sums[2 * at[r]] - state.maximum[r];
    }
    for (int r = 0; r < rows.padded; r += kLanes) hn::Store(Exp2(d, hn::Load(d, factors + r)), d, factors + r);
    for (int r = 0; r < rows.count; ++r) {
      if (r + kRowsAhead < rows.count && at[r + kRowsAhead] >= 0)
        PrefetchRow(work.visits + at[r + kRowsAhead] * padded, padded);
      if (at[r] < 0) continue;
      state.sum[r] += factors[r] * work.visit_sums[2 * at[r] + 1];
      const FloatVec factor = hn::Set(d, factors[r]);
      const float* found = work.visits + at[r] * padded;
      float* sum = state.accumulator + r * padded;
      for (int k = 0; k < padded; k += kLanes)
        hn::Store(hn::MulAdd(factor, hn::Load(d, found + k), hn::Load(d, sum + k)), d, sum + k);
    }
  }
}

// Where the passes before left the rows. What a visit finds is kept by itself.
inline void BeginRows(const UnitWork& work, const TilePass& pass, const TileRows& rows, RowState& state) {
  const TilePass *const first = work.plan->passes.data() + work.unit->pass_begin, *visited = &pass;
  while (pass.visits == 1 && visited > first && (visited - 1)->visits > 1) --visited;
  if (pass.visits > 1 || visited == first) {
    StartRows(work, rows, state);
  } else {
    ResumeRows(work, rows, state);
  }
  for (; visited < &pass; ++visited) AddUpVisits(work, *visited, rows, state);
}

inline void KeepVisits(const UnitWork& work, const TilePass& pass, const Tile& tile, const TileRows& rows,
                       const RowState& state) {
  const int64_t first = pass.visit_rows_before + tile.row_begin;
  for (int r = 0; r < rows.count; ++r) {
    float* sums = work.visit_sums + 2 * (first + r);
    sums[0] = state.maximum[r];
    sums[1] = state.sum[r];
  }
  std::memcpy(work.visits + first * work.padded(), state.accumulator, sizeof(float) * rows.count * work.padded());
}

inline void KeepRows(const UnitWork& work, const TileRows& rows, const RowState& state) {
  const AttentionForward& call = *work.call;
  for (int r = 0; r < rows.count; ++r) {
    work.row_sum[rows.positions[r]] = state.sum[r];
    call.lse[work.token(rows.positions[r]) * call.shape.heads + work.head()] = state.maximum[r];
    std::memcpy(work.kept.at(rows.positions[r]), state.accumulator + r * work.padded(),
                sizeof(float) * work.head_dim());
  }
}

// What the keys that a row does not see have in common: Σ v, found by the row's bucket run.
class UnseenValues {
 public:
  UnseenValues(const UnitWork& work, const TilePass& pass) : work_(work), at_(work.unseen_values) {
    if (!work.subtract_fill && work.fill_score) run_ = work.plan->runs.data() + pass.run_begin;
  }
  const float* Of(int row) {
    for (; run_ && run_->row_end <= row; ++run_) at_ += work_.padded();
    return at_;
  }

 private:
  const UnitWork& work_;
  const BucketRun* run_ = nullptr;
  const float* at_;
};

// A row of the output: its sum, in work memory, times `inverse`.
inline void WriteRow(const UnitWork& work, int32_t position, float inverse, float* sum) {
  const int head_dim = work.head_dim();
  if (!work.rounded_out.data) return CopyScaled(sum, inverse, head_dim, work.out.at(position));
  CopyScaled(sum, inverse, head_dim, sum);
  StoreRoundedRow(sum, head_dim, work.rounded_out.at(position));
}

// Adds the unseen keys' share, divides, writes out and lse.
inline void FinishRows(const UnitWork& work, const TilePass& pass, const Tile& tile, const TileRows& rows,
                       RowState& state) {
  const AttentionForward& call = *work.call;
  UnseenValues unseen_values(work, pass);
  for (int r = 0; r < rows.count; ++r) {
    const int32_t position = rows.positions[r];
    if (r + kRowsAhead < rows.count && work.out.data)
      PrefetchRow(work.out.at(rows.positions[r + kRowsAhead]), work.head_dim());
    float* sum = state.accumulator + r * work.padded();
    double denominator = state.sum[r];
    const int32_t unseen = work.fill_score ? work.unit->length - work.seen()[position] : 0;
    if (unseen > 0) {
      const float weight = std::exp2(state.fill[r] - state.maximum[r]);
      denominator += static_cast<double>(weight) * unseen;
      AddScaled(unseen_values.Of(tile.row_begin + r), weight, work.padded(), sum);
    }
    const bool nothing = denominator == 0;
    const auto inverse = static_cast<float>(nothing ? 0.0 : 1.0 / denominator);
    WriteRow(work, position, inverse, sum);
    // Of rounded scores float32's logarithm, which takes half of the time, is more than enough.
    const bool rounded = work.operands != Operands::kFloat32;
    const double logarithm = rounded ? std::log2(static_cast<float>(denominator)) : std::log2(denominator);
    call.lse[work.token(position) * call.shape.heads + work.head()] =
        nothing ? -std::numeric_limits<float>::infinity()
                : static_cast<float>((static_cast<double>(state.maximum[r]) + logarithm) * kLn2);
  }
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
