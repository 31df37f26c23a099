#include "attention/local.h"

#include <algorithm>

#include "attention/spec_options.h"

namespace lshformer {
namespace {

constexpr int kWindow = 64;  // on each side: ModernBERT's local_attention of 128

}  // namespace

const AttentionTable& Options(const LocalAttention&) {
  static const AttentionTable table{{WindowOption()},
                                    nullptr,
                                    {.kind = LocalAttention{}, .window = kWindow},
                                    "Local attention (changes the model's own; default of a new local: window 64)"};
  return table;
}

int64_t ShortestSparse(const LocalAttention&) { return kNeverSparse; }

int64_t ShortestToPlan(const LocalAttention&) { return kNeverSparse; }

double ScaleOfScores(const LocalAttention&, int head_dim) { return RootScale(head_dim); }

int64_t PairsInWindows(int64_t window, int64_t length) {
  if (length == 0) return 0;
  const int64_t reach = std::min(window, length - 1);  // at each end `reach` rows lack 1, 2, … keys
  return length * (2 * reach + 1) - reach * (reach + 1);
}

}  // namespace lshformer
