// The attention operator alone, on tensors from any framework: a file in, a file out.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention.h"

namespace lshformer {

// What the input file holds, checked.
struct OperatorInput {
  int64_t tokens = 0;
  int heads = 0, head_dim = 0;
  // [tokens, heads, head_dim]; grad_output may be empty, key is where queries are the keys
  std::vector<float> query, key, value, grad_output;
  std::vector<int32_t> cu_seqlens;
  Projections projections;         // of the file, else none
  std::optional<Buckets> buckets;  // of queries alone where those are the keys

  AttentionShape shape() const { return {cu_seqlens, heads, head_dim}; }
};

struct OperatorOutput {
  std::vector<float> out, lse, grad_query, grad_key, grad_value;
  Buckets buckets;
  AttentionCounts counts;
};

// The tensors of a safetensors file: "query", "key" (not for Reformer), "value" f32 [tokens, heads, head_dim],
// "cu_seqlens" i32 [sequences + 1] (default: one sequence), "grad_output", and instead of seeded hashing "planes" with
// "coefficients", "rotations", or ready "query_buckets" and "key_buckets". Error naming the tensor.
OperatorInput ReadOperatorInput(const std::string& path, const AttentionSpec& spec);

// With the fast kernels in float32. Gradients where there is a grad_output.
OperatorOutput RunOperator(const OperatorInput& in, const AttentionSpec& spec);
// With the readable double-precision oracle, in time and memory of tokens².
OperatorOutput RunReferenceOperator(const OperatorInput& in, const AttentionSpec& spec);

// "output", "lse", the buckets used, the gradients; the counts as decimal strings in the metadata.
void WriteOperatorOutput(const std::string& path, const OperatorInput& in, const AttentionSpec& spec,
                         const OperatorOutput& result);

}  // namespace lshformer
