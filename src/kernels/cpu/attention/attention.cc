// Shares the units of a plan out to threads.
#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/cpu/attention/executor.h"
#include "kernels/execution.h"
#include "kernels/isa.h"
#include "kernels/plan.h"

namespace lshformer {

Workspace& ThreadWorkspace() {
  thread_local Workspace workspace;
  return workspace;
}

namespace {

int64_t BytesOf(Operands operands) { return operands == Operands::kFloat32 ? 4 : 2 * Parts(operands); }

AmxTiles AmxTilesOf(Operands operands) { return operands == Operands::kFloat32 ? AmxTiles::kNone : ActiveAmxTiles(); }

// Room for so many columns wherever the first of them is, with all of the panels that they lie in.
int64_t WithWholePanels(int64_t columns) {
  return (columns + kAmxPadding - 1) / kAmxPadding * kAmxPadding + 2 * kAmxPadding;
}

Columns OrderOfColumns(const UnitWork& work, const TilePass& pass) {
  Columns columns;
  columns.count = pass.columns;
  columns.order = work.plan->Order(pass.column_order);
  return columns;
}

}  // namespace

Columns HoldColumns(const UnitWork& work, const TilePass& pass, Workspace& memory, int64_t count) {
  Columns columns = OrderOfColumns(work, pass);
  if (work.in_amx_tiles()) count = WithWholePanels(count);
  const int64_t bytes = count * work.padded() * BytesOf(work.operands);
  columns.operand = memory.Get<uint8_t>(Slot::kColumns, bytes);
  if (work.in_amx_tiles()) columns.panels = memory.Get<BFloat16Pair>(Slot::kColumnPanels, bytes / 4);
  if (!work.in_amx_tiles() || work.backward) columns.value = memory.Get<uint8_t>(Slot::kColumnValues, bytes);
  columns.not_finite = memory.Get<uint8_t>(Slot::kNotFiniteColumns, count);
  if (work.plan->shared_keys) columns.key_scale = memory.Get<float>(Slot::kKeyScales, count);
  if (work.call->dropout.probability > 0) columns.dropout = memory.Get<DropoutWords>(Slot::kDropoutColumns, count);
  return columns;
}

namespace {

constexpr size_t kKeptBytes = size_t{1} << 22;   // of work memory per buffer and thread between calls
constexpr int64_t kPairsWorthAThread = 100'000;  // about 0.2 ms; less is not worth waking one
constexpr int64_t kSharedUnitPairs = 1'000'000;  // a unit of at least 1,000² pairs may be worked on by all threads

int64_t Cost(const Unit& unit) { return unit.visited_pairs + 16 * int64_t{unit.length}; }

// A unit that would keep one thread busy long after the others ran out of work.
bool IsShared(const Unit& unit, int64_t total_cost, int threads) {
  return threads > 1 && unit.visited_pairs >= kSharedUnitPairs && Cost(unit) > total_cost / (2 * threads);
}

template <class T>
UnitTensor<T> OfUnit(const HeadTensor<T>& tensor, const Unit& unit) {
  if (tensor.data == nullptr) return {};  // no key, or in other numbers
  return {tensor.at(unit.token_begin, unit.head), tensor.token_stride};
}
UnitInput OfUnit(const HeadTensor<const float>& tensor, const HeadTensor<const BFloat16>& rounded, const Unit& unit) {
  return {OfUnit(tensor, unit), OfUnit(rounded, unit)};
}

// One step of a unit: by this thread, or by all in pieces of `grain`.
void Step(const UnitWork& work, int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (work.shared) {
    ParallelFor(count, grain, body);
  } else {
    body(0, count);
  }
}

// backward: nullptr in a forward.
UnitWork WorkOn(const AttentionForward& call, const AttentionBackward* backward, const Unit& unit, bool shared) {
  UnitWork work;
  work.call = &call;
  work.plan = call.plan;
  work.unit = &unit;
  work.memory = &ThreadWorkspace();
  work.shared = shared;
  work.query = OfUnit(call.query, call.rounded_query, unit);
  work.key = OfUnit(call.key, call.rounded_key, unit);
  work.value = OfUnit(call.value, call.rounded_value, unit);
  work.out = work.kept = OfUnit(call.out, unit);
  work.rounded_out = OfUnit(call.rounded_out, unit);
  if (backward) {
    work.backward = backward;
    work.grad_out = OfUnit(backward->grad_out, {}, unit);
    work.grad_query = OfUnit(backward->grad_query, unit);
    work.grad_key = OfUnit(backward->grad_key, unit);
    work.grad_value = OfUnit(backward->grad_value, unit);
  }
  work.operands = Parts(call.operands) > 1 && !HasParts(work) ? Operands::kFloat32 : call.operands;
  work.amx_tiles = AmxTilesOf(work.operands);
  if (call.dropout.probability > 0) {
    const uint64_t id = call.dropout.sequence_ids.empty() ? unit.sequence : call.dropout.sequence_ids[unit.sequence];
    work.dropout_key = DropoutHeadKey(call.dropout.key, id, call.shape.first_head + unit.head);
  }
  PrepareFill(work);
  return work;
}

// Which thread takes which unit: large ones one after another by all threads, then the others, the most expensive
// first, so that the last ones to end are short.
void ForEachUnit(const AttentionForward& call, const AttentionBackward* backward,
                 const std::function<void(UnitWork&)>& run) {
  const std::vector<Unit>& units = call.plan->units;
  int64_t total = 0;
  for (const Unit& unit : units) total += Cost(unit);
  std::vector<int32_t> shared, single;
  for (size_t u = 0; u < units.size(); ++u)
    (IsShared(units[u], total, Threads()) ? shared : single).push_back(static_cast<int32_t>(u));
  std::stable_sort(single.begin(), single.end(), [&](int32_t a, int32_t b) { return Cost(units[a]) > Cost(units[b]); });
  const auto run_unit = [&](int32_t index, bool is_shared) {
    UnitWork work = WorkOn(call, backward, units[index], is_shared);
    run(work);
  };
  for (const int32_t index : shared) run_unit(index, true);
  if (!shared.empty()) ThreadWorkspace().Trim(kKeptBytes);
  const auto count = static_cast<int64_t>(single.size());
  ParallelFor(count, total < kPairsWorthAThread ? count : 1, [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) run_unit(single[u], false);
    ThreadWorkspace().Trim(kKeptBytes);
  });
}

// Columns that tiles of a pass hold at a time, if they meet but a small part of them each; 0: the pass's are gathered
// as a whole, before its tiles. Four times what a tile meets, so that those kept are seldom moved to the front.
int64_t ColumnsHeld(const AttentionPlan& plan, const TilePass& pass) {
  if (pass.centroids) return 0;  // a sum over many keys is not to be made twice
  int64_t widest = 1;
  for (int64_t t = pass.tile_begin; t < pass.tile_end; ++t) {
    const auto [begin, end] = ColumnsMet(plan, plan.tiles[t]);
    widest = std::max(widest, end - begin);
  }
  return 4 * widest <= pass.columns ? 4 * widest : 0;
}

void GatherWhole(UnitWork& work, const TilePass& pass) {
  constexpr int64_t kPiece = 1024;
  static_assert(kPiece % kAmxPadding == 0);  // a panel is gathered by one thread
  work.columns = HoldColumns(work, pass, *work.memory, pass.columns);
  Step(work, pass.columns, kPiece,
       [&](int64_t begin, int64_t end) { GatherColumns(work, pass, work.columns, begin, end); });
}

// Rows of passes in which a position is one several times, of as many as follow one another; 0: there is none.
int64_t Visits(const AttentionPlan& plan, const Unit& unit) {
  int64_t most = 0;
  for (int32_t p = unit.pass_begin; p < unit.pass_end; ++p) {
    const TilePass& pass = plan.passes[p];
    if (pass.visits > 1) most = std::max(most, pass.visit_rows_before + pass.visit_rows);
  }
  return most;
}

// Whether a unit works on copies of its rows: it has many passes, each in another order.
bool CopiesRows(const Unit& unit) { return unit.clusters >= 0; }

template <class From, class To>
void CopyRows(const UnitWork& work, const UnitTensor<From>& from, const UnitTensor<To>& to) {
  constexpr int64_t kAhead = 8, kLine = 16;
  Step(work, work.unit->length, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int k = 0; k < work.head_dim() && i + kAhead < end; k += kLine) hwy::Prefetch(from.at(i + kAhead) + k);
      std::memcpy(to.at(i), from.at(i), sizeof(float) * work.head_dim());
    }
  });
}

UnitTensor<float> RoomForRows(const UnitWork& work, Slot slot) {
  return {work.memory->Get<float>(slot, int64_t{work.unit->length} * work.padded()), work.padded()};
}

UnitInput Copied(const UnitWork& work, const UnitTensor<const float>& from, Slot slot) {
  const UnitTensor<float> copy = RoomForRows(work, slot);
  CopyRows(work, from, copy);
  return {{copy.data, copy.stride}, {}};
}

void CopyInputs(UnitWork& work) {
  work.query = Copied(work, work.query, Slot::kUnitQuery);
  work.key = Copied(work, work.key, Slot::kUnitKey);
  work.value = Copied(work, work.value, Slot::kUnitValue);
}

void RunForward(UnitWork& work) {
  if (CopiesRows(*work.unit)) {
    constexpr int32_t kFewPasses = 2;  // of which one alone reads keys: they are taken from where they lie
    if (work.unit->pass_end - work.unit->pass_begin > kFewPasses) {
      CopyInputs(work);
    } else {
      work.value = Copied(work, work.value, Slot::kUnitValue);
    }
  }
  const bool rounds_between = work.rounded_out.data && work.unit->pass_end - work.unit->pass_begin > 1;
  if (CopiesRows(*work.unit) || rounds_between) work.kept = RoomForRows(work, Slot::kUnitOut);
  constexpr int64_t kTilesAThread = 16;  // that a thread takes at a time: what they share is gathered once
  work.row_sum = work.memory->Get<float>(Slot::kRowSum, work.unit->length);
  if (const int64_t visits = Visits(*work.plan, *work.unit); visits > 0) {
    work.visits = work.memory->Get<float>(Slot::kVisits, visits * work.padded());
    work.visit_sums = work.memory->Get<float>(Slot::kVisitSums, visits * 2);
  }
  for (int32_t p = work.unit->pass_begin; p < work.unit->pass_end; ++p) {
    const TilePass& pass = work.plan->passes[p];
    work.held = ColumnsHeld(*work.plan, pass);
    if (work.held > 0) {
      work.columns = OrderOfColumns(work, pass);
    } else {
      GatherWhole(work, pass);
    }
    Step(work, pass.tile_end - pass.tile_begin, work.held == 0 ? 1 : kTilesAThread,
         [&](int64_t begin, int64_t end) { ForwardTiles(work, pass, pass.tile_begin + begin, pass.tile_begin + end); });
  }
}

void ClearGradients(const UnitWork& work) {
  const auto clear = [&](const UnitTensor<float>& tensor) {
    for (int64_t i = 0; i < work.unit->length; ++i) {
      std::memset(tensor.at(i), 0, sizeof(float) * work.head_dim());
    }
  };
  clear(work.grad_query);
  if (!work.plan->shared_keys) clear(work.grad_key);
  clear(work.grad_value);
}

int64_t MostColumns(const AttentionPlan& plan, const Unit& unit) {
  int64_t most = 0;
  for (int32_t p = unit.pass_begin; p < unit.pass_end; ++p) most = std::max<int64_t>(most, plan.passes[p].columns);
  return most;
}

int64_t MostRows(const AttentionPlan& plan, const Unit& unit) {
  return std::max<int64_t>(unit.length, Visits(plan, unit));
}

// Columns before and after the own ones may stand for positions that those have too: one thread adds them up.
void AddAllColumnGradients(const UnitWork& work, const TilePass& pass) {
  if (pass.centroids) {
    Step(work, work.level(pass.level).count, 64,
         [&](int64_t begin, int64_t end) { AddCentroidGradients(work, pass, begin, end); });
    return;
  }
  if (pass.repeated_columns) {
    AddColumnGradients(work, pass, 0, pass.columns);
    return;
  }
  const int64_t own = pass.own_columns, own_end = own + work.unit->length;
  AddColumnGradients(work, pass, 0, own);
  Step(work, own_end - own, 1024,
       [&](int64_t begin, int64_t end) { AddColumnGradients(work, pass, own + begin, own + end); });
  AddColumnGradients(work, pass, own_end, pass.columns);
}

void AddUpGradients(UnitWork& work) {
  const int64_t columns = MostColumns(*work.plan, *work.unit), rows = MostRows(*work.plan, *work.unit);
  const int groups = ColumnGroups(work.unit->length);
  const int64_t held = work.in_amx_tiles() ? WithWholePanels(columns) : columns;
  work.operand_gradients = work.memory->Get<float>(Slot::kColumnGradients, held * work.padded());
  work.value_gradients = work.memory->Get<float>(Slot::kValueGradients, held * work.padded());
  work.row_gradients = work.memory->Get<float>(Slot::kRowGradients, (work.shared ? groups : 1) * rows * work.padded());
  work.row_gradient_sums = work.memory->Get<float>(Slot::kRowGradientSums, (work.shared ? groups : 1) * rows);
  PrepareFillBackward(work);
  ClearGradients(work);
  for (int32_t p = work.unit->pass_begin; p < work.unit->pass_end; ++p) {
    const TilePass& pass = work.plan->passes[p];
    GatherWhole(work, pass);
    if (work.shared) {
      ParallelFor(groups, 1, [&](int64_t begin, int64_t end) {
        for (int64_t g = begin; g < end; ++g) BackwardGroup(work, pass, static_cast<int>(g));
      });
      const auto add = [&](int64_t begin, int64_t end) {
        for (int g = 0; g < groups; ++g) AddRowGradients(work, pass, g, pass.tile_begin + begin, pass.tile_begin + end);
      };
      const int64_t tiles = pass.tile_end - pass.tile_begin;
      pass.visits > 1 ? add(0, tiles) : Step(work, tiles, 16, add);  // a row several times: by one thread
    } else {
      for (int g = 0; g < groups; ++g) {
        BackwardGroup(work, pass, g);
        AddRowGradients(work, pass, g, pass.tile_begin, pass.tile_end);
      }
    }
    AddAllColumnGradients(work, pass);
  }
  FinishFillBackward(work);
}

// Works on copies of the rows and of their gradients, where the unit does.
void RunBackward(UnitWork& work) {
  if (!CopiesRows(*work.unit)) {
    AddUpGradients(work);
    return;
  }
  const UnitTensor<float> query = work.grad_query, key = work.grad_key, value = work.grad_value;
  CopyInputs(work);
  const UnitTensor<float> out = RoomForRows(work, Slot::kUnitOut);
  CopyRows(work, work.out, out);
  work.out = out;
  work.grad_out = Copied(work, work.grad_out, Slot::kUnitGradOut);
  work.grad_query = RoomForRows(work, Slot::kUnitGradQuery);
  work.grad_key = RoomForRows(work, Slot::kUnitGradKey);
  work.grad_value = RoomForRows(work, Slot::kUnitGradValue);
  AddUpGradients(work);
  CopyRows(work, work.grad_query, query);
  CopyRows(work, work.grad_key, key);
  CopyRows(work, work.grad_value, value);
}

void Require(Operands operands) {
  if (!Supports(operands))
    Fail("attention: {} operands need AMX{}; the instruction set is {}", Name(operands),
         operands == Operands::kBFloat16 ? ", or AVX-512 with AVX512_BF16" : "", ActiveIsa());
}

}  // namespace

void RunAttentionForward(const AttentionForward& call) {
  Require(call.operands);
  const bool rounds = call.operands == Operands::kBFloat16;
  if ((call.rounded_query.data || call.rounded_out.data) && !rounds)
    Fail("attention: rows in bfloat16 are for products of bfloat16");
  if (call.rounded_out.data && AmxTilesOf(call.operands) == AmxTiles::kNone)
    Fail("attention: results in bfloat16 are for products in AMX tiles");
  ForEachUnit(call, nullptr, RunForward);
}

void RunAttentionBackward(const AttentionBackward& call) {
  Require(call.forward.operands);
  ForEachUnit(call.forward, &call, RunBackward);
}

namespace {

// Of a forward: passes that hold columns for a few tiles hold no more, but every thread that works on the unit has one.
int64_t MostColumnsHeld(const AttentionPlan& plan, const Unit& unit, bool shared) {
  int64_t most = 0;
  for (int32_t p = unit.pass_begin; p < unit.pass_end; ++p) {
    const int64_t held = ColumnsHeld(plan, plan.passes[p]);
    most = std::max<int64_t>(most, held > 0 ? held * (shared ? Threads() : 1) : plan.passes[p].columns);
  }
  return most;
}

// Floats of work memory of one unit.
int64_t UnitFloats(const AttentionPlan& plan, const Unit& unit, int64_t padded, bool shared, bool backward,
                   Operands operands) {
  // Columns, their dropout words, key scales and whether they are finite; row sums and the fill's scores.
  const bool in_amx_tiles = AmxTilesOf(operands) != AmxTiles::kNone;
  const int64_t held = backward ? MostColumns(plan, unit) : MostColumnsHeld(plan, unit, shared);
  const int64_t columns = in_amx_tiles ? held + 3 * kAmxPadding * (shared ? Threads() : 1) : held;
  const int kinds = in_amx_tiles && backward ? 3 : 2;  // of vectors: operands, values, panels of the operands
  const int64_t vectors = kinds * padded * BytesOf(operands) / BytesOf(Operands::kFloat32);
  int64_t floats = columns * (vectors + 4) + 2 * int64_t{unit.length};
  if (!backward) floats += Visits(plan, unit) * (padded + 2);
  if (CopiesRows(unit)) floats += (backward ? 8 : 4) * unit.length * padded;
  // Gradients of columns and of rows, their sums, the fill's weights.
  if (backward) {
    const int64_t parts = shared ? ColumnGroups(unit.length) : 1;
    floats += columns * 2 * padded + MostRows(plan, unit) * parts * (padded + 1) + 2 * int64_t{unit.length};
  }
  if (unit.fill != Fill::kNone) {
    const TilePass& pass = plan.passes[unit.pass_begin];
    floats += padded * (pass.run_end - pass.run_begin + 5);  // floats; two rows of doubles
  }
  return floats;
}

// Of a thread, for the rows of a tile and a block of columns.
int64_t TileFloats(int64_t padded, bool backward, Operands operands) {
  int64_t of_row = backward ? 5 * padded + 2 * kBlockColumns : 3 * padded + kBlockColumns;
  if (operands == Operands::kBFloat16) of_row += padded + kBlockColumns;  // pairs of rows, columns, weights
  // Further parts of rows, of weights.
  of_row += (Parts(operands) - 1) * (backward ? 3 * padded + 2 * kBlockColumns : 2 * padded + kBlockColumns);
  // Rows to be turned round, sums; more weights.
  if (AmxTilesOf(operands) != AmxTiles::kNone) of_row += 2 * padded + kBlockColumns;
  return kTileRows * of_row;
}

int64_t PlanAndWorkBytes(const PlannedAttention& planned, bool backward, Operands operands) {
  const AttentionPlan& plan = *planned.plan;
  int64_t bytes =
      static_cast<int64_t>(sizeof(int32_t) * (plan.orders.size() + plan.query_buckets.size() + plan.key_buckets.size() +
                                              plan.seen.size() + plan.chunks.size() + plan.key_chunks.size()) +
                           sizeof(Tile) * plan.tiles.size() + sizeof(Segment) * plan.segments.size() +
                           sizeof(BucketRun) * plan.runs.size() + sizeof(TilePass) * plan.passes.size() +
                           sizeof(Unit) * plan.units.size() + sizeof(int32_t) * plan.cu_seqlens.size());
  if (planned.centroids) bytes += planned.centroids->Bytes();
  int64_t total = 0;
  for (const Unit& unit : plan.units) total += Cost(unit);
  std::vector<int64_t> units;  // work memory of each unit that a thread takes alone
  int64_t largest_shared = 0;
  const int64_t padded = PaddedHeadDim(plan.head_dim, AmxTilesOf(operands) != AmxTiles::kNone);
  for (const Unit& unit : plan.units) {
    const bool shared = IsShared(unit, total, Threads());
    const int64_t floats = UnitFloats(plan, unit, padded, shared, backward, operands);
    if (shared) {
      largest_shared = std::max(largest_shared, floats);
    } else {
      units.push_back(floats);
    }
  }
  std::sort(units.rbegin(), units.rend());
  units.resize(std::min<size_t>(units.size(), Threads()));
  const int64_t floats = std::max(largest_shared, std::accumulate(units.begin(), units.end(), int64_t{0})) +
                         Threads() * TileFloats(padded, backward, operands);
  return bytes + static_cast<int64_t>(sizeof(float)) * floats;
}

}  // namespace

int64_t WorkBytes(const PlannedAttention& planned, Operands operands) {
  return std::max(PlanAndWorkBytes(planned, false, operands), PlanAndWorkBytes(planned, true, operands));
}
int64_t ForwardWorkBytes(const PlannedAttention& planned, Operands operands) {
  return PlanAndWorkBytes(planned, false, operands);
}

}  // namespace lshformer
