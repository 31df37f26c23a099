// The attention operator alone, on tensors from any framework: a file in, a file out. The operator: kernels/operator.h.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/counts.h"
#include "kernels/hashing.h"
#include "kernels/packed_heads.h"

namespace lshformer {

// What the input file holds, checked.
struct AttentionInput {
  int64_t tokens = 0;
  int heads = 0, head_dim = 0;
  std::vector<float> query, key, value;           // [tokens, heads, head_dim]; no key where queries are the keys
  std::optional<std::vector<float>> grad_output;  // the same, where the file has one
  std::vector<int32_t> cu_seqlens;
  std::optional<Projections> projections;  // of the file, or drawn where it has neither them nor buckets
  std::optional<Buckets> buckets;          // of the file; of queries alone where those are the keys

  AttentionShape shape() const { return {cu_seqlens, heads, head_dim}; }
};

struct AttentionOutput {
  std::vector<float> out, lse, grad_query, grad_key, grad_value;
  Buckets buckets;
  AttentionCounts counts;
};

// The tensors of a safetensors file: "query", "key" (not for Reformer), "value" f32 [tokens, heads, head_dim],
// "cu_seqlens" i32 [sequences + 1] (default: one sequence), "grad_output", and instead of seeded hashing "planes" with
// "coefficients", "rotations", or ready "query_buckets" and "key_buckets". Error naming the tensor.
AttentionInput ReadAttentionInput(const std::string& path, const AttentionSpec& spec);

// With the fast kernels in float32. Gradients where there is a grad_output.
AttentionOutput RunAttention(const AttentionInput& in, const AttentionSpec& spec);
// With the readable double-precision oracle, in time and memory of tokens².
AttentionOutput RunReferenceAttention(const AttentionInput& in, const AttentionSpec& spec);

// "output", "lse", the buckets used, the gradients; the counts as decimal strings in the metadata.
void WriteAttentionOutput(const std::string& path, const AttentionInput& in, const AttentionSpec& spec,
                          const AttentionOutput& result);

}  // namespace lshformer
