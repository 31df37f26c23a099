// The attention operator on random input, to be timed: `bench attention`, `tune`, `quickstart`.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "base/json.h"
#include "kernels/attention.h"
#include "kernels/work_memory.h"

namespace lshformer {

// Random query, key, value and gradient of the output, all float32 [batch · length, heads, head_dim], and the buffers
// of the results. What only a backward needs is made by the first one.
class AttentionOperands {
 public:
  AttentionOperands(int64_t length, int64_t batch, int heads, int head_dim, uint64_t seed);
  AttentionOperands(const AttentionOperands&) = delete;
  AttentionOperands& operator=(const AttentionOperands&) = delete;

  AttentionShape shape() const { return {cu_seqlens_, heads_, head_dim_}; }
  AttentionPlanPtr Plan(const AttentionSpec& spec, const HashProjections& projections) const;
  // Hashes, plans and runs the forward; with `backward` also the backward. `dropout` of the probabilities, 0: none.
  // Products are MultipliedAs(operands).
  void Run(const AttentionSpec& spec, const HashProjections& projections, bool backward, float dropout = 0,
           Operands operands = Operands::kFloat32);

 private:
  int64_t TokenStride() const { return int64_t{heads_} * head_dim_; }
  int64_t Elements() const { return shape().tokens() * TokenStride(); }
  HeadTensor<const float> Input(int i) const { return {FloatsOf(inputs_[i]), TokenStride(), head_dim_}; }
  HeadTensor<float> Output(int i);
  void Draw(int i);
  static float* FloatsOf(const MemoryBlock& block) { return static_cast<float*>(block.memory.get()); }

  int heads_, head_dim_;
  uint64_t seed_;
  std::vector<int32_t> cu_seqlens_;
  // Blocks, as a model's tensors of that size are: in the order of a hash every row is on another page.
  std::array<MemoryBlock, 4> inputs_;   // query, key, value, gradient of the output
  std::array<MemoryBlock, 4> outputs_;  // output, gradients of query, key, value
  std::vector<float> lse_;
};

// What products of attention are made of where a model's are `operands`: on matrix tiles float32 may be made of parts,
// or rounded (kernels/matmul_precision.h).
Operands MultipliedAs(Operands operands);

// Bytes that a run has to move whatever its kernel does: every input read once, every result written once, float32.
// Forward: query, key, value, output and lse; the backward reads all these and the output's gradient and writes three
// gradients. Where keys are shared there is no key.
double LeastBytesMoved(const AttentionSpec& spec, const AttentionShape& shape, bool backward);

// Adds to a row with "median_ms" and "gflops": "gemm_share" = gflops / gemm_gflops, "moved_bytes", and "memory_share" =
// moved_bytes per second / memory_gbps. The shares are null where the machine was not probed.
void AddRoofline(const Json& machine, double moved_bytes, Json& row);

}  // namespace lshformer
