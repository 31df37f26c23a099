#include "kernels/attention_kinds.h"

#include <algorithm>

#include "kernels/execution.h"

namespace lshformer {

int64_t AttentionShape::longest() const {
  int64_t longest = 0;
  for (int b = 0; b < sequences(); ++b) longest = std::max<int64_t>(longest, cu_seqlens[b + 1] - cu_seqlens[b]);
  return longest;
}

bool AnySparse(const AttentionSpec& spec, const AttentionShape& shape) {
  for (int b = 0; b < shape.sequences(); ++b) {
    if (IsSparseAt(spec, shape.cu_seqlens[b + 1] - shape.cu_seqlens[b])) return true;
  }
  return false;
}

bool OnlyMultiplies(const AttentionSpec& spec, const AttentionShape& shape) {
  return !SharesKeys(spec) && !AnySparse(spec, shape);
}

Projections DrawProjections(const AttentionSpec& spec, const AttentionShape& shape, uint32_t layer, uint64_t step) {
  return std::visit([&](const auto& kind) { return DrawProjections(kind, spec, shape, layer, step); }, spec.kind);
}

bool Suffice(const Projections& projections, const AttentionSpec& spec, const AttentionShape& shape) {
  return std::visit([&](const auto& kind) { return Suffice(kind, spec, projections, shape); }, spec.kind);
}

Buckets FindBuckets(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                    HeadTensor<const float> key, const Projections& projections) {
  const PlanInputs in{spec, shape, query, key};
  return std::visit([&](const auto& kind) { return FindBuckets(kind, in, projections); }, spec.kind);
}

PlannedAttention BuildPlan(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                           HeadTensor<const float> key, const Projections& projections) {
  const PlanInputs in{spec, shape, query, key};
  return std::visit([&](const auto& kind) { return Plan(kind, in, projections); }, spec.kind);
}

PlannedAttention BuildPlan(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                           HeadTensor<const float> key, const Buckets& buckets) {
  const PlanInputs in{spec, shape, query, key};
  return std::visit([&](const auto& kind) { return Plan(kind, in, buckets); }, spec.kind);
}

Projections DrawProjections(const DenseAttention&, const AttentionSpec&, const AttentionShape&, uint32_t, uint64_t) {
  return {};
}

bool Suffice(const DenseAttention&, const AttentionSpec&, const Projections&, const AttentionShape&) { return true; }

Buckets FindBuckets(const DenseAttention&, const PlanInputs&, const Projections&) { return {}; }

PlannedAttention Plan(const DenseAttention&, const PlanInputs& in, const Projections&) {
  return {BuildDensePlan(in.shape)};
}

PlannedAttention Plan(const DenseAttention&, const PlanInputs& in, const Buckets&) {
  return {BuildDensePlan(in.shape)};
}

Projections DrawProjections(const LocalAttention&, const AttentionSpec&, const AttentionShape&, uint32_t, uint64_t) {
  return {};
}

bool Suffice(const LocalAttention&, const AttentionSpec&, const Projections&, const AttentionShape&) { return true; }

Buckets FindBuckets(const LocalAttention&, const PlanInputs&, const Projections&) { return {}; }

PlannedAttention Plan(const LocalAttention&, const PlanInputs& in, const Projections&) {
  return {BuildLocalPlan(in.spec, in.shape)};
}

PlannedAttention Plan(const LocalAttention&, const PlanInputs& in, const Buckets&) {
  return {BuildLocalPlan(in.spec, in.shape)};
}

}  // namespace lshformer
