#include <algorithm>

#include "base/parallel.h"
#include "base/philox.h"
#include "kernels/attention.h"

namespace lshformer {

ReformerRotations DrawReformerRotations(const AttentionSpec& spec, const AttentionShape& shape, uint32_t layer,
                                        uint64_t step) {
  if (spec.resample == Resample::kNever) step = 0;
  ReformerRotations drawn;
  for (int b = 0; b < shape.sequences(); ++b) {
    const int64_t length = shape.cu_seqlens[b + 1] - shape.cu_seqlens[b];
    drawn.columns = std::max(drawn.columns, RotationColumns(spec, length));
  }
  const int64_t matrix = int64_t{shape.head_dim} * drawn.columns;
  drawn.rotations.resize(static_cast<size_t>(matrix) * shape.heads * spec.rounds);
  constexpr int64_t kNumbersAtATime = 4096;  // about 0.1 ms
  ParallelFor(int64_t{shape.heads} * spec.rounds, std::max<int64_t>(1, kNumbersAtATime / std::max<int64_t>(1, matrix)),
              [&](int64_t begin, int64_t end) {
                for (int64_t m = begin; m < end; ++m) {
                  const auto head = static_cast<uint32_t>(m / spec.rounds);
                  const auto round = static_cast<uint64_t>(m % spec.rounds);
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

HashNumbers DrawHashNumbers(const AttentionSpec& spec, const AttentionShape& shape, uint32_t layer, uint64_t step) {
  HashNumbers numbers;
  if (spec.type == AttentionType::kSimHash)
    numbers.planes = DrawSimHashPlanes(spec, shape.heads, shape.head_dim, layer, step, shape.longest());
  if (spec.type == AttentionType::kReformer) numbers.rotations = DrawReformerRotations(spec, shape, layer, step);
  return numbers;
}

}  // namespace lshformer
