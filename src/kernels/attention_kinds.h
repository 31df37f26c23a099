// What each kind of attention brings to the kernels, an overload on its struct; the functions of the same name in
// kernels/hashing.h and BuildPlan find it by the kind of a spec. A kind that lacks one does not compile.
#pragma once
#include "kernels/plan.h"

namespace lshformer {

// What a call has from its caller.
struct PlanInputs {
  const AttentionSpec& spec;
  const AttentionShape& shape;
  HeadTensor<const float> query, key;  // no key where the kind shares keys
};

Projections DrawProjections(const DenseAttention&, const AttentionSpec& spec, const AttentionShape& shape,
                            uint32_t layer, uint64_t step);
Projections DrawProjections(const LocalAttention&, const AttentionSpec& spec, const AttentionShape& shape,
                            uint32_t layer, uint64_t step);
Projections DrawProjections(const SimHashAttention&, const AttentionSpec& spec, const AttentionShape& shape,
                            uint32_t layer, uint64_t step);
Projections DrawProjections(const ReformerAttention&, const AttentionSpec& spec, const AttentionShape& shape,
                            uint32_t layer, uint64_t step);
Projections DrawProjections(const ClusteredAttention&, const AttentionSpec& spec, const AttentionShape& shape,
                            uint32_t layer, uint64_t step);

bool Suffice(const DenseAttention&, const AttentionSpec& spec, const Projections& projections,
             const AttentionShape& shape);
bool Suffice(const LocalAttention&, const AttentionSpec& spec, const Projections& projections,
             const AttentionShape& shape);
bool Suffice(const SimHashAttention& simhash, const AttentionSpec& spec, const Projections& projections,
             const AttentionShape& shape);
bool Suffice(const ReformerAttention& reformer, const AttentionSpec& spec, const Projections& projections,
             const AttentionShape& shape);
bool Suffice(const ClusteredAttention& clustered, const AttentionSpec& spec, const Projections& projections,
             const AttentionShape& shape);

Buckets FindBuckets(const DenseAttention&, const PlanInputs& in, const Projections& projections);
Buckets FindBuckets(const LocalAttention&, const PlanInputs& in, const Projections& projections);
Buckets FindBuckets(const SimHashAttention&, const PlanInputs& in, const Projections& projections);
Buckets FindBuckets(const ReformerAttention&, const PlanInputs& in, const Projections& projections);
Buckets FindBuckets(const ClusteredAttention&, const PlanInputs& in, const Projections& projections);

PlannedAttention Plan(const DenseAttention&, const PlanInputs& in, const Projections& projections);
PlannedAttention Plan(const LocalAttention&, const PlanInputs& in, const Projections& projections);
PlannedAttention Plan(const SimHashAttention&, const PlanInputs& in, const Projections& projections);
PlannedAttention Plan(const ReformerAttention&, const PlanInputs& in, const Projections& projections);
PlannedAttention Plan(const ClusteredAttention&, const PlanInputs& in, const Projections& projections);

PlannedAttention Plan(const DenseAttention&, const PlanInputs& in, const Buckets& buckets);
PlannedAttention Plan(const LocalAttention&, const PlanInputs& in, const Buckets& buckets);
PlannedAttention Plan(const SimHashAttention&, const PlanInputs& in, const Buckets& buckets);
PlannedAttention Plan(const ReformerAttention&, const PlanInputs& in, const Buckets& buckets);
PlannedAttention Plan(const ClusteredAttention&, const PlanInputs& in, const Buckets& buckets);

}  // namespace lshformer
