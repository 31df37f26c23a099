// What attention costs by its spec and the shape of its input alone: floating-point operations and bytes, counted
// before anything runs. A multiply-add is two.
#pragma once
#include <cstdint>

#include "attention/spec.h"

namespace lshformer {

// Probability that a query and a key at angle theta share a bucket under at least one hash function. With p = (1 −
// θ/π)^bands two different sign patterns still meet with probability 1/m, so P = p + (1 − p)/m per function and 1 − (1
// − P)^hashes over all.
double CollisionProbability(double theta, int bands, int table_size, int hashes);

struct AttentionCost {
  // 2 · bands · d · 2n · hashes · heads, the only part that the BERT-LSH paper counts; Reformer: 2 · rotations · d · n
  // · rounds · heads
  double selection_flops = 0;
  double score_flops = 0;   // 2 · d per computed product q·k
  double value_flops = 0;   // softmax (about 5 per pair: scale, maximum, exp, sum, divide) and 2 · d per pair for P·V
  double dot_products = 0;  // computed q·k
  double pairs = 0;         // (query, key) whose value is summed pair by pair
  double pairs_total = 0;   // heads · n²
  double full_flops() const { return selection_flops + score_flops + value_flops; }
  double paper_flops()
      const;  // selection_flops for SimHash, score_flops for dense, as in the paper's Table 1 and Figure 1
  double share() const { return pairs_total > 0 ? pairs / pairs_total : 0; }
  AttentionCost& operator+=(const AttentionCost& more) {
    selection_flops += more.selection_flops;
    score_flops += more.score_flops;
    value_flops += more.value_flops;
    dot_products += more.dot_products;
    pairs += more.pairs;
    pairs_total += more.pairs_total;
    return *this;
  }
};

// One layer on one sequence of `length` tokens. Reformer's pairs are those of all rounds' windows. For SimHash the
// number of pairs is the expectation for orthogonal queries and keys (θ = π/2: random vectors in many dimensions)
// unless `share`, a measured pairs_computed / pairs_total (counts.h), is ≥ 0. Pairs that are always seen come on top as
// if the hash missed them by chance.
AttentionCost CostOfAttention(const AttentionSpec& spec, int heads, int head_dim, int64_t length, double share = -1);

// The paper's count for any grid, in thousands: hashing, and all products q·k of dense attention.
double PaperHashKflops(int bands, int head_dim, int64_t length, int hashes, int heads);
double PaperDenseKflops(int head_dim, int64_t length, int heads);

// Plan and work memory of a forward and backward call on one sequence, as WorkBytes states it, for queries and keys
// that have nothing to do with each other; beyond 65,536 tokens in proportion.
double AttentionWorkBytes(const AttentionSpec& spec, int heads, int head_dim, int64_t length);

}  // namespace lshformer
