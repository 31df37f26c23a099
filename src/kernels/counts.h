// What a call of attention computed, for reports and for the metadata of `attention`.
#pragma once
#include <cstdint>

namespace lshformer {

struct AttentionPlan;

struct AttentionCounts {
  int64_t pairs_total = 0;     // heads · Σ n²
  int64_t pairs_computed = 0;  // distinct (i, j) whose q_i·k_j was needed, and centroids that a query was scored with
  // What choosing the pairs takes: 2 · bands · head_dim · (queries + keys) · hashes · heads, 2 · rotations · head_dim ·
  // queries · rounds · heads, or of clusters 2 · (directions of keys and of queries + (2 + levels) · groups) · head_dim
  // · queries · heads, summed over the sequences that need it. "hash_flops" in outputs.
  int64_t selection_flops = 0;
  int64_t attention_flops = 0;  // forward, all that the tiles computed: 4 · head_dim per visited pair

  AttentionCounts& operator+=(const AttentionCounts& more) {
    pairs_total += more.pairs_total;
    pairs_computed += more.pairs_computed;
    selection_flops += more.selection_flops;
    attention_flops += more.attention_flops;
    return *this;
  }
};

// Pairs that the plan itself did not need counted are counted here: as much work as a plan.
AttentionCounts Counts(const AttentionPlan& plan);

}  // namespace lshformer
