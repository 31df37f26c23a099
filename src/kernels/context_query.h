// Attention between a context and a question in both directions, without a tensor [n, m, 3d] or [n, n], forward and
// backward.
//
// Per sequence, with C [n, d] the rows of its context and Q [m, d] those of its question:
//
//   S_tj = w_c·c_t + w_q·q_j + w_cq·(c_t∘q_j)               [n, m]
//   S̄ = softmax of each row of S (over the question),   A = S̄·Q
//   kDoubleSoftmax:  S̿ = softmax of each column of S (over the context),   B = S̄·(S̿ᵀ·C)
//   kMaximum:        b = softmax over t of max_j S_tj,   h̃ = Σ_t b_t c_t,   B = h̃ in every row
//   out = [C; A; C∘A; C∘B]                                  [n, 4d]
//
// kMaximum is BiDAF's (Seo et al. 2017), where the gradient of a maximum goes to the first j that has it;
// kDoubleSoftmax is that of Dynamic Coattention Networks (Xiong et al. 2017) and of QANet (Yu et al. 2018).
//
// Rows are contiguous; every sequence has at least one of either kind. A sequence is a task for one thread, so that its
// results do not depend on the others or on the number of threads, bit for bit; gradients by the weights are partial
// sums of each sequence, added in order. Throws nothing: shapes are checked one level up. Work memory of a thread: a
// dozen matrices of the size of its sequence's context or of its scores.
#pragma once
#include <cstdint>
#include <span>

namespace lshformer {

enum class QueryToContext { kDoubleSoftmax, kMaximum };

struct ContextQuery {
  int64_t columns = 0;                            // d
  std::span<const int32_t> cu_context, cu_query;  // borders of the sequences
  const float* context = nullptr;                 // [T, d]
  const float* query = nullptr;                   // [U, d]
  const float* context_weight = nullptr;          // w_c [d]
  const float* query_weight = nullptr;            // w_q [d]
  const float* product_weight = nullptr;          // w_cq [d]
  QueryToContext kind = QueryToContext::kDoubleSoftmax;
};
void RunContextQuery(const ContextQuery& call, float* out);  // [T, 4d]

struct ContextQueryGradient {
  ContextQuery forward;
  const float* grad_out = nullptr;  // [T, 4d]
  float* grad_context = nullptr;    // [T, d]
  float* grad_query = nullptr;      // [U, d]
  float* grad_weights = nullptr;    // [3, d]: by w_c, w_q, w_cq
};
void RunContextQueryGradient(const ContextQueryGradient& call);

}  // namespace lshformer
