// Attention between a context and a question in both directions, without a tensor [n, m, 3d] or [n, n].
//
// Per sequence, with C [n, d] the rows of its context and Q [m, d] those of its question:
//
//   S_tj = w_c·c_t + w_q·q_j + w_cq·(c_t∘q_j) + b           [n, m]
//   S̄ = softmax of each row of S (over the question),   A = S̄·Q
//   kDoubleSoftmax:  S̿ = softmax of each column of S (over the context),   B = S̄·(S̿ᵀ·C)
//   kMaximum:        b = softmax over t of max_j S_tj,   h̃ = Σ_t b_t c_t,   B = h̃ in every row
//
// b, which published models have, is the same number in all of S and changes no softmax: nothing depends on it, and its
// gradient is 0. kMaximum is BiDAF's (Seo et al. 2017), where the gradient of a maximum goes to the first j that has
// it; kDoubleSoftmax is that of Dynamic Coattention Networks (Xiong et al. 2017) and of QANet (Yu et al. 2018).
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
