#include "kernels/attention_kinds.h"

#include <algorithm>

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

AttentionPlanPtr BuildPlan(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                           HeadTensor<const float> key, const Projections& projections) {
  const PlanInputs in{spec, shape, query, key, projections};
  return std::visit([&](const auto& kind) { return Plan(kind, in); }, spec.kind);
}

Projections DrawProjections(const DenseAttention&, const AttentionSpec&, const AttentionShape&, uint32_t, uint64_t) {
  return {};
}

bool Suffice(const DenseAttention&, const AttentionSpec&, const Projections&, const AttentionShape&) { return true; }

AttentionPlanPtr Plan(const DenseAttention&, const PlanInputs& in) { return BuildDensePlan(in.shape); }

}  // namespace lshformer
