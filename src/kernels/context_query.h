// Attention between contexts and questions on plain pointers (Highway), forward and backward: the formulas are in
// context_query_attention.h.
//
// A sequence is a task for one thread, so that its results do not depend on the others or on the number of threads,
// bit for bit. Work memory of a thread: a dozen matrices of the size of its sequence's context or of its scores.
#pragma once
#include <cstdint>
#include <span>

namespace lshformer {

struct ContextQuery {
  int64_t columns = 0;                            // d
  std::span<const int32_t> cu_context, cu_query;  // borders of the sequences
  const float* context = nullptr;                 // [T, d]
  const float* query = nullptr;                   // [U, d]
  const float* context_weight = nullptr;          // w_c [d]
  const float* query_weight = nullptr;            // w_q [d]
  const float* product_weight = nullptr;          // w_cq [d]
  bool maximum = false;                           // QueryToContext::kMaximum
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
