// The oracle of kernels/context_query.h in double, sequence by sequence, with every matrix of the formulas in full.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/context_query.h"

namespace lshformer::ref {

struct ContextQueryInputs {
  int64_t columns = 0;
  std::span<const int32_t> cu_context, cu_query;
  std::span<const double> context, query, context_weight, query_weight, product_weight;
  QueryToContext kind = QueryToContext::kDoubleSoftmax;
};
std::vector<double> RunContextQuery(const ContextQueryInputs& in);  // [T, 4d]

struct ContextQueryGradients {
  std::vector<double> context, query, context_weight, query_weight, product_weight;
};
// Of Σ out · grad_out.
ContextQueryGradients RunContextQueryGradient(const ContextQueryInputs& in, std::span<const double> grad_out);

}  // namespace lshformer::ref
