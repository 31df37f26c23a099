#include <algorithm>

#include "base/parallel.h"
#include "base/philox.h"
#include "kernels/attention_kinds.h"

namespace lshformer {
namespace {

// Of the sequence that takes the most.
int Columns(const ReformerAttention& reformer, const AttentionShape& shape) {
  int columns = 0;
  for (int b = 0; b < shape.sequences(); ++b)
    columns = std::max(columns, RotationColumns(reformer, shape.cu_seqlens[b + 1] - shape.cu_seqlens[b]));
  return columns;
}

}  // namespace

ReformerRotations DrawReformerRotations(const AttentionSpec& spec, const AttentionShape& shape, uint32_t layer,
                                        uint64_t step) {
  if (spec.resample == Resample::kNever) step = 0;
  const auto& reformer = As<ReformerAttention>(spec);
  ReformerRotations drawn;
  drawn.columns = Columns(reformer, shape);
  const int64_t matrix = int64_t{shape.head_dim} * drawn.columns;
  drawn.rotations.resize(static_cast<size_t>(matrix) * shape.heads * reformer.rounds);
  constexpr int64_t kNumbersAtATime = 4096;  // about 0.1 ms
  ParallelFor(int64_t{shape.heads} * reformer.rounds,
              std::max<int64_t>(1, kNumbersAtATime / std::max<int64_t>(1, matrix)), [&](int64_t begin, int64_t end) {
                for (int64_t m = begin; m < end; ++m) {
                  const auto head = static_cast<uint32_t>(shape.first_head + m / reformer.rounds);
                  const auto round = static_cast<uint64_t>(m % reformer.rounds);
                  const uint64_t key = StreamKey(spec.seed, step, layer, head, Purpose::kRotations);
                  for (int column = 0; column < drawn.columns; ++column) {
                    PhiloxStream normals(key, round << 32 | static_cast<uint64_t>(column));
                    float* to = drawn.rotations.data() + m * matrix + column;
                    for (int d = 0; d < shape.head_dim; ++d)
                      to[int64_t{d} * drawn.columns] = static_cast<float>(normals.Normal());
                  }
                }
              });
  return drawn;
}

Projections DrawProjections(const ReformerAttention&, const AttentionSpec& spec, const AttentionShape& shape,
                            uint32_t layer, uint64_t step) {
  return DrawReformerRotations(spec, shape, layer, step);
}

bool Suffice(const ReformerAttention& reformer, const AttentionSpec&, const Projections& projections,
             const AttentionShape& shape) {
  const auto* rotations = std::get_if<ReformerRotations>(&projections);
  return rotations != nullptr && rotations->columns >= Columns(reformer, shape);
}

Buckets FindBuckets(const ReformerAttention&, const PlanInputs& in, const Projections& projections) {
  return {HashByRotation(in.spec, in.shape, in.query, std::get<ReformerRotations>(projections)), {}};
}

PlannedAttention Plan(const ReformerAttention& reformer, const PlanInputs& in, const Projections& projections) {
  Buckets buckets;
  if (AnySparse(in.spec, in.shape))
    buckets.query = HashByRotation(in.spec, in.shape, in.query, std::get<ReformerRotations>(projections),
                                   /*needed_only=*/true);
  return Plan(reformer, in, buckets);
}

PlannedAttention Plan(const ReformerAttention&, const PlanInputs& in, const Buckets& buckets) {
  return {BuildReformerPlan(in.spec, in.shape, buckets.query)};
}

}  // namespace lshformer
