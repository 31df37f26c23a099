#include "ops/context_query_attention.h"

#include "base/error.h"
#include "kernels/context_query.h"
#include "ops/saved_for_backward.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Borders {
  std::vector<int32_t> context, query;
  QueryToContext kind;
};

// Arguments in this order; the bias, [1], has a gradient of 0 and no other part in this.
struct ContextQueryOp : torch::autograd::Function<ContextQueryOp> {
  static ContextQuery Call(const variable_list& arguments, const Borders& borders) {
    return {.columns = arguments[0].size(1),
            .cu_context = borders.context,
            .cu_query = borders.query,
            .context = arguments[0].data_ptr<float>(),
            .query = arguments[1].data_ptr<float>(),
            .context_weight = arguments[2].data_ptr<float>(),
            .query_weight = arguments[3].data_ptr<float>(),
            .product_weight = arguments[4].data_ptr<float>(),
            .kind = borders.kind};
  }
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& c, const torch::Tensor& q,
                               const torch::Tensor& context_weight, const torch::Tensor& query_weight,
                               const torch::Tensor& product_weight, const torch::Tensor& bias, Borders borders) {
    const variable_list arguments{c, q, context_weight, query_weight, product_weight};
    torch::Tensor out = torch::empty({c.size(0), 4 * c.size(1)}, c.options());
    RunContextQuery(Call(arguments, borders), out.data_ptr<float>());
    context->save_for_backward(arguments);
    Keep(context, std::move(borders));
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list arguments = context->get_saved_variables();
    const torch::Tensor grad_out = grads[0].contiguous();
    torch::Tensor grad_c = torch::empty_like(arguments[0]), grad_q = torch::empty_like(arguments[1]);
    torch::Tensor weights = torch::empty({3, arguments[0].size(1)}, grad_out.options());
    RunContextQueryGradient({.forward = Call(arguments, GetKept<Borders>(context)),
                             .grad_out = grad_out.data_ptr<float>(),
                             .grad_context = grad_c.data_ptr<float>(),
                             .grad_query = grad_q.data_ptr<float>(),
                             .grad_weights = weights.data_ptr<float>()});
    return {grad_c, grad_q, weights[0], weights[1], weights[2], torch::zeros({1}, weights.options()), {}};
  }
};

void CheckRows(const torch::Tensor& x, const std::vector<int32_t>& cu_seqlens, const ContextQueryWeights& weights,
               const char* what) {
  for (const torch::Tensor* w : {&weights.context, &weights.query, &weights.product})
    if (x.dim() != 2 || w->dim() != 1 || w->size(0) != x.size(1))
      Fail("context-query attention: {} {}, weights {}", what, c10::str(x.sizes()), c10::str(w->sizes()));
  if (cu_seqlens.empty() || cu_seqlens.front() != 0 || cu_seqlens.back() != x.size(0))
    Fail("context-query attention: {} has {} rows, but its sequences have {}", what, x.size(0),
         cu_seqlens.empty() ? 0 : cu_seqlens.back());
  for (size_t b = 0; b + 1 < cu_seqlens.size(); ++b)
    if (cu_seqlens[b + 1] <= cu_seqlens[b]) Fail("context-query attention: {} of sequence {} is empty", what, b);
}

void Check(const torch::Tensor& context, const std::vector<int32_t>& context_cu_seqlens, const torch::Tensor& query,
           const std::vector<int32_t>& query_cu_seqlens, const ContextQueryWeights& weights) {
  CheckRows(context, context_cu_seqlens, weights, "context");
  CheckRows(query, query_cu_seqlens, weights, "query");
  if (context_cu_seqlens.size() != query_cu_seqlens.size())
    Fail("context-query attention: {} contexts, {} queries", context_cu_seqlens.size() - 1,
         query_cu_seqlens.size() - 1);
  if (weights.bias.defined() && weights.bias.numel() != 1)
    Fail("context-query attention: a bias of {} numbers, expected 1", weights.bias.numel());
}

}  // namespace

torch::Tensor ContextQueryAttention(const torch::Tensor& context, const std::vector<int32_t>& context_cu_seqlens,
                                    const torch::Tensor& query, const std::vector<int32_t>& query_cu_seqlens,
                                    const ContextQueryWeights& weights, QueryToContext kind) {
  Check(context, context_cu_seqlens, query, query_cu_seqlens, weights);
  const torch::Tensor bias = weights.bias.defined() ? weights.bias.view({1}) : torch::zeros({1}, context.options());
  return ContextQueryOp::apply(context.contiguous(), query.contiguous(), weights.context.contiguous(),
                               weights.query.contiguous(), weights.product.contiguous(), bias,
                               Borders{context_cu_seqlens, query_cu_seqlens, kind});
}

torch::Tensor ContextQueryAttentionReference(const torch::Tensor& context,
                                             const std::vector<int32_t>& context_cu_seqlens, const torch::Tensor& query,
                                             const std::vector<int32_t>& query_cu_seqlens,
                                             const ContextQueryWeights& weights, QueryToContext kind) {
  Check(context, context_cu_seqlens, query, query_cu_seqlens, weights);
  std::vector<torch::Tensor> rows{torch::zeros({0, 4 * context.size(1)}, context.options())};
  for (size_t b = 0; b + 1 < context_cu_seqlens.size(); ++b) {
    const torch::Tensor c = context.narrow(0, context_cu_seqlens[b], context_cu_seqlens[b + 1] - context_cu_seqlens[b]);
    const torch::Tensor q = query.narrow(0, query_cu_seqlens[b], query_cu_seqlens[b + 1] - query_cu_seqlens[b]);
    torch::Tensor scores = torch::matmul(c, weights.context).unsqueeze(1) +
                           torch::matmul(q, weights.query).unsqueeze(0) + torch::matmul(c * weights.product, q.t());
    if (weights.bias.defined()) scores = scores + weights.bias;  // [n, m]
    const torch::Tensor over_query = torch::softmax(scores, 1), a = torch::matmul(over_query, q);
    torch::Tensor to_context;  // B
    if (kind == QueryToContext::kDoubleSoftmax) {
      to_context = torch::matmul(over_query, torch::matmul(torch::softmax(scores, 0).t(), c));
    } else {
      to_context = torch::matmul(torch::softmax(std::get<0>(scores.max(1)), 0).unsqueeze(0), c);  // [1, d]
    }
    rows.push_back(torch::cat({c, a, c * a, c * to_context}, 1));
  }
  return torch::cat(rows);
}

}  // namespace lshformer
