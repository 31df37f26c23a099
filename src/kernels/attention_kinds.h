// What each kind of attention brings to the kernels, an overload on its struct; the functions of the same name in
// kernels/attention.h find it by the kind of a spec. A kind that lacks one does not compile.
#pragma once
#include "kernels/attention.h"

namespace lshformer {

// What a call has from its caller.
struct PlanInputs {
  const AttentionSpec& spec;
  const AttentionShape& shape;
  HeadTensor<const float> query, key;  // no key where the kind shares keys
  const Projections& projections;
};

Projections DrawProjections(const DenseAttention&, const AttentionSpec& spec, const AttentionShape& shape,
                            uint32_t layer, uint64_t step);
Projections DrawProjections(const SimHashAttention&, const AttentionSpec& spec, const AttentionShape& shape,
                            uint32_t layer, uint64_t step);
Projections DrawProjections(const ReformerAttention&, const AttentionSpec& spec, const AttentionShape& shape,
                            uint32_t layer, uint64_t step);
Projections DrawProjections(const ClusteredAttention&, const AttentionSpec& spec, const AttentionShape& shape,
                            uint32_t layer, uint64_t step);

bool Suffice(const DenseAttention&, const AttentionSpec& spec, const Projections& projections,
             const AttentionShape& shape);
bool Suffice(const SimHashAttention& simhash, const AttentionSpec& spec, const Projections& projections,
             const AttentionShape& shape);
bool Suffice(const ReformerAttention& reformer, const AttentionSpec& spec, const Projections& projections,
             const AttentionShape& shape);
bool Suffice(const ClusteredAttention& clustered, const AttentionSpec& spec, const Projections& projections,
             const AttentionShape& shape);

AttentionPlanPtr Plan(const DenseAttention&, const PlanInputs& in);
AttentionPlanPtr Plan(const SimHashAttention&, const PlanInputs& in);
AttentionPlanPtr Plan(const ReformerAttention&, const PlanInputs& in);
AttentionPlanPtr Plan(const ClusteredAttention&, const PlanInputs& in);

}  // namespace lshformer
