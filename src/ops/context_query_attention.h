// Attention between a context and a question in both directions: the formulas of kernels/context_query.h, with the bias
// b of published models added to S. It is the same number in all of S and changes no softmax: nothing depends on it,
// and its gradient is 0.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/context_query.h"
#include "ops/torch.h"

namespace lshformer {

struct ContextQueryWeights {
  torch::Tensor context;  // w_c  [d]
  torch::Tensor query;    // w_q  [d]
  torch::Tensor product;  // w_cq [d]
  torch::Tensor bias;     // b    [1]; undefined: none
};

// context: [T, d], query: [U, d] → [T, 4d]: [C; A; C∘A; C∘B]. float32. Sequence b has the rows cu_seqlens[b] to
// cu_seqlens[b + 1] of each, at least one. A sequence's rows do not depend on the others or on the number of threads,
// bit for bit; no gradient depends on the number of threads. The backward keeps nothing but the arguments and
// computes the rest again.
torch::Tensor ContextQueryAttention(const torch::Tensor& context, const std::vector<int32_t>& context_cu_seqlens,
                                    const torch::Tensor& query, const std::vector<int32_t>& query_cu_seqlens,
                                    const ContextQueryWeights& weights, QueryToContext kind);
// Sequence by sequence with operations of libtorch, for any floating type: the oracle.
torch::Tensor ContextQueryAttentionReference(const torch::Tensor& context,
                                             const std::vector<int32_t>& context_cu_seqlens, const torch::Tensor& query,
                                             const std::vector<int32_t>& query_cu_seqlens,
                                             const ContextQueryWeights& weights, QueryToContext kind);

}  // namespace lshformer
