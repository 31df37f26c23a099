#include <vector>

#include "base/philox.h"
#include "kernels/attention.h"

namespace lshformer {

SimHashPlanes DrawSimHashPlanes(const AttentionSpec& spec, int heads, int head_dim, uint32_t layer, uint64_t step) {
  if (spec.resample == Resample::kNever) step = 0;
  SimHashPlanes drawn;
  drawn.planes.reserve(static_cast<size_t>(heads) * spec.hashes * spec.bands * head_dim);
  for (int head = 0; head < heads; ++head) {
    PhiloxStream normals(StreamKey(spec.seed, step, layer, head, Purpose::kPlanes));
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
