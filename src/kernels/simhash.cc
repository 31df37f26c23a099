#include <algorithm>
#include <vector>

#include "base/philox.h"
#include "kernels/attention_kinds.h"

namespace lshformer {

namespace {

// A plane and its coefficient have a stream of their own: how many bands the longest sequence takes changes none.
void DrawOfOneHead(const SimHashAttention& simhash, int head_dim, uint64_t key, SimHashPlanes& drawn) {
  for (int hash = 0; hash < simhash.hashes; ++hash) {
    for (int band = 0; band < drawn.bands; ++band) {
      PhiloxStream normals(key, static_cast<uint64_t>(hash) << 32 | static_cast<uint64_t>(band));
      for (int d = 0; d < head_dim; ++d) drawn.planes.push_back(static_cast<float>(normals.Normal()));
      drawn.coefficients.push_back(int32_t{1} << band);
    }
  }
}

}  // namespace

SimHashPlanes DrawSimHashPlanes(const AttentionSpec& spec, int heads, int head_dim, uint32_t layer, uint64_t step,
                                int64_t longest, int first_head) {
  if (spec.resample == Resample::kNever) step = 0;
  const auto& simhash = As<SimHashAttention>(spec);
  SimHashPlanes drawn;
  drawn.bands = BandsOf(simhash, longest);
  drawn.planes.reserve(static_cast<size_t>(heads) * simhash.hashes * drawn.bands * head_dim);
  for (int head = first_head; head < first_head + heads; ++head) {
    const uint64_t key = StreamKey(spec.seed, step, layer, head, Purpose::kPlanes);
    if (SignPatternsAreBuckets(simhash)) {
      DrawOfOneHead(simhash, head_dim, key, drawn);
      continue;
    }
    PhiloxStream normals(key);
    PhiloxStream integers(StreamKey(spec.seed, step, layer, head, Purpose::kCoefficients));
    for (int64_t i = 0; i < int64_t{simhash.hashes} * simhash.bands * head_dim; ++i) {
      drawn.planes.push_back(static_cast<float>(normals.Normal()));
    }
    for (int i = 0; i < simhash.hashes * simhash.bands; ++i) {
      drawn.coefficients.push_back(static_cast<int32_t>(integers.Below(simhash.table_size)));
    }
  }
  return drawn;
}

Projections DrawProjections(const SimHashAttention&, const AttentionSpec& spec, const AttentionShape& shape,
                            uint32_t layer, uint64_t step) {
  return DrawSimHashPlanes(spec, shape.heads, shape.head_dim, layer, step, shape.longest(), shape.first_head);
}

bool Suffice(const SimHashAttention& simhash, const AttentionSpec&, const Projections& projections,
             const AttentionShape& shape) {
  const auto* planes = std::get_if<SimHashPlanes>(&projections);
  return planes != nullptr && planes->bands >= BandsOf(simhash, shape.longest());
}

Buckets FindBuckets(const SimHashAttention&, const PlanInputs& in, const Projections& projections) {
  return HashQueriesAndKeys(in.spec, in.shape, in.query, in.key, std::get<SimHashPlanes>(projections));
}

PlannedAttention Plan(const SimHashAttention& simhash, const PlanInputs& in, const Projections& projections) {
  if (!AnySparse(in.spec, in.shape)) return {BuildDensePlan(in.shape)};
  return Plan(simhash, in, FindBuckets(simhash, in, projections));
}

PlannedAttention Plan(const SimHashAttention&, const PlanInputs& in, const Buckets& buckets) {
  return {BuildSimHashPlan(in.spec, in.shape, buckets.query, buckets.key)};
}

}  // namespace lshformer
