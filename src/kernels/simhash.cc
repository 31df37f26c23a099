#include <algorithm>
#include <vector>

#include "base/philox.h"
#include "kernels/attention.h"

namespace lshformer {

int64_t AttentionShape::longest() const {
  int64_t longest = 0;
  for (int b = 0; b < sequences(); ++b) longest = std::max<int64_t>(longest, cu_seqlens[b + 1] - cu_seqlens[b]);
  return longest;
}

namespace {

// A plane and its coefficient have a stream of their own: how many bands the longest sequence takes changes none.
void DrawOfOneHead(const AttentionSpec& spec, int head_dim, uint64_t key, SimHashPlanes& drawn) {
  for (int hash = 0; hash < spec.hashes; ++hash) {
    for (int band = 0; band < drawn.bands; ++band) {
      PhiloxStream normals(key, static_cast<uint64_t>(hash) << 32 | static_cast<uint64_t>(band));
      for (int d = 0; d < head_dim; ++d) drawn.planes.push_back(static_cast<float>(normals.Normal()));
      drawn.coefficients.push_back(int32_t{1} << band);
    }
  }
}

}  // namespace

SimHashPlanes DrawSimHashPlanes(const AttentionSpec& spec, int heads, int head_dim, uint32_t layer, uint64_t step,
                                int64_t longest) {
  if (spec.resample == Resample::kNever) step = 0;
  SimHashPlanes drawn;
  drawn.bands = BandsOf(spec, longest);
  drawn.planes.reserve(static_cast<size_t>(heads) * spec.hashes * drawn.bands * head_dim);
  for (int head = 0; head < heads; ++head) {
    const uint64_t key = StreamKey(spec.seed, step, layer, head, Purpose::kPlanes);
    if (SignPatternsAreBuckets(spec)) {
      DrawOfOneHead(spec, head_dim, key, drawn);
      continue;
    }
    PhiloxStream normals(key);
    PhiloxStream integers(StreamKey(spec.seed, step, layer, head, Purpose::kCoefficients));
    for (int64_t i = 0; i < int64_t{spec.hashes} * spec.bands * head_dim; ++i) {
      drawn.planes.push_back(static_cast<float>(normals.Normal()));
    }
    for (int i = 0; i < spec.hashes * spec.bands; ++i) {
      drawn.coefficients.push_back(static_cast<int32_t>(integers.Below(spec.table_size)));
    }
  }
  return drawn;
}

}  // namespace lshformer
