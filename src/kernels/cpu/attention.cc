// Shares the units of a plan out to threads and picks the instruction set.
#include "kernels/attention.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/parallel.h"
#include "kernels/cpu/executor.h"

namespace lshformer {

Workspace& ThreadWorkspace() {
  thread_local Workspace workspace;
  return workspace;
}

namespace {

constexpr size_t kKeptBytes = size_t{1} << 24;   // of work memory per buffer and thread between calls
constexpr int64_t kPairsWorthAThread = 100'000;  // about 0.1 ms; less is not worth waking one

// The most expensive units first, so that the last ones to end are short.
std::vector<int32_t> UnitsByCost(const AttentionPlan& plan) {
  std::vector<int32_t> order(plan.units.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&plan](int32_t a, int32_t b) { return plan.units[a].visited_pairs > plan.units[b].visited_pairs; });
  return order;
}

template <class Run>
void ForEachUnit(const AttentionForward& call, const Run& run) {
  const AttentionPlan& plan = *call.plan;
  const std::vector<int32_t> order = UnitsByCost(plan);
  int64_t pairs = 0;
  for (const Unit& unit : plan.units) pairs += unit.visited_pairs + unit.length;
  const auto units = static_cast<int64_t>(order.size());
  const int64_t grain = pairs < kPairsWorthAThread ? units : 1;
  ParallelFor(units, grain, [&](int64_t begin, int64_t end) {
    Workspace& memory = ThreadWorkspace();
    for (int64_t u = begin; u < end; ++u) {
      const Unit& unit = plan.units[order[u]];
      UnitWork work{.call = &call, .plan = &plan, .unit = &unit, .memory = &memory};
      if (call.dropout.probability > 0) {
        const uint64_t id =
            call.dropout.sequence_ids.empty() ? unit.sequence : call.dropout.sequence_ids[unit.sequence];
        work.dropout_key = DropoutHeadKey(call.dropout.key, id, unit.head);
      }
      PrepareFill(work);
      run(work);
    }
    memory.Trim(kKeptBytes);
  });
}

void Clear(HeadTensor<float> tensor, const AttentionShape& shape) {
  for (int64_t token = 0; token < shape.tokens(); ++token) {
    for (int head = 0; head < shape.heads; ++head)
      std::memset(tensor.at(token, head), 0, sizeof(float) * shape.head_dim);
  }
}

}  // namespace

void RunAttentionForward(const AttentionForward& call) {
  ForEachUnit(call, [](UnitWork& work) {
    work.row_sum = work.memory->Get<float>(Slot::kRowSum, work.unit->length);
    DispatchForwardUnit(work);
  });
}

void RunAttentionBackward(const AttentionBackward& call) {
  Clear(call.grad_query, call.forward.shape);
  Clear(call.grad_key, call.forward.shape);
  Clear(call.grad_value, call.forward.shape);
  ForEachUnit(call.forward, [&call](UnitWork& forward) {
    BackwardUnitWork work{.forward = forward, .call = &call};
    PrepareFillBackward(work);
    DispatchBackwardUnit(work);
    FinishFillBackward(work);
  });
}

int64_t WorkBytes(const AttentionPlan& plan) {
  int64_t plan_bytes = static_cast<int64_t>(
      sizeof(int32_t) * (plan.orders.size() + plan.query_buckets.size() + plan.key_buckets.size() + plan.seen.size()) +
      sizeof(Tile) * plan.tiles.size() + sizeof(Segment) * plan.segments.size() + sizeof(BucketRun) * plan.runs.size() +
      sizeof(Pass) * plan.passes.size() + sizeof(Unit) * plan.units.size());
  const int64_t padded = (plan.head_dim + 15) / 16 * 16;
  std::vector<int32_t> lengths;
  for (const Unit& unit : plan.units) lengths.push_back(unit.length);
  std::sort(lengths.rbegin(), lengths.rend());
  const size_t threads = std::min<size_t>(lengths.size(), Threads());
  for (size_t t = 0; t < threads; ++t) {
    const int64_t columns = 4 * padded * lengths[t] + 5 * int64_t{lengths[t]};
    const int64_t tile = 3 * kTileRows * padded + 2 * kTileRows * padded + 2 * kTileRows * kBlockColumns;
    plan_bytes += static_cast<int64_t>(sizeof(float)) * (columns + tile);
  }
  return plan_bytes;
}

}  // namespace lshformer
