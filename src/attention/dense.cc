#include "attention/dense.h"

#include "attention/spec_options.h"

namespace lshformer {

const AttentionTable& Options(const DenseAttention&) {
  static const AttentionTable table{{SeedOption()}, nullptr, {.kind = DenseAttention{}}, ""};
  return table;
}

int64_t ShortestSparse(const DenseAttention&) { return kNeverSparse; }

int64_t ShortestToPlan(const DenseAttention&) { return kNeverSparse; }

double ScaleOfScores(const DenseAttention&, int head_dim) { return RootScale(head_dim); }

}  // namespace lshformer
