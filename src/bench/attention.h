// The attention operator on random input, timed.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "attention/spec_changes.h"
#include "jobs/measure.h"
#include "kernels/execution.h"

namespace lshformer {

struct BenchAttentionOptions {
  std::vector<int> lengths{128, 512, 2048};
  int heads = 12, head_dim = 64, batch = 1, runs = 7;
  bool forward = true, forward_backward = true;            // what a run does; one row each
  std::vector<std::string> attention{"dense", "simhash"};  // each a variant: a type or a JSON object
  AttentionChanges lsh = {};
  std::vector<Operands> operands{Operands::kFloat32};
  bool probe_machine = true;
  uint64_t seed = 42;
};

// One row a length, direction and variant, in the order of the options: "name", "attention", "spec", "direction",
// "dtype", "batch", "heads", "head_dim", "length", the timing (AddTiming), "gflops" of the pairs asked for,
// "pairs_fraction", "work_bytes", of one sequence forward "dot_products", "hash_flops", "score_flops", "value_flops"
// and "paper_flops" (AttentionCost), and the shares of AddRoofline. Variants take turns; hash planes are drawn before
// the clock runs. UsageError: too many tokens, an attention that cannot be.
BenchResult RunBenchAttention(const BenchAttentionOptions& options);

}  // namespace lshformer
