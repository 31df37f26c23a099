#include "ops/attentive_pooling.h"

#include "base/error.h"
#include "kernels/sequences.h"
#include "ops/saved_for_backward.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void Check(const torch::Tensor& scores, const torch::Tensor& x, const std::vector<int32_t>& cu_seqlens) {
  if (x.dim() != 2 || scores.dim() != 1 || scores.size(0) != x.size(0) || cu_seqlens.back() != x.size(0))
    Fail("attentive pooling: scores {} and rows {} of {} tokens", c10::str(scores.sizes()), c10::str(x.sizes()),
         cu_seqlens.back());
  for (size_t b = 0; b + 1 < cu_seqlens.size(); ++b)
    if (cu_seqlens[b + 1] <= cu_seqlens[b]) Fail("attentive pooling: sequence {} is empty", b);
}

SoftmaxPooling Call(const torch::Tensor& x, const torch::Tensor& p, const std::vector<int32_t>& cu_seqlens) {
  return {.cu_seqlens = cu_seqlens, .columns = x.size(1), .x = x.data_ptr<float>(), .p = p.data_ptr<float>()};
}

struct AttentivePoolingOp : torch::autograd::Function<AttentivePoolingOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& scores, const torch::Tensor& rows,
                               const std::vector<int32_t>& cu_seqlens) {
    const torch::Tensor s = scores.contiguous(), x = rows.contiguous(), p = torch::empty_like(s);
    torch::Tensor y = torch::empty({static_cast<int64_t>(cu_seqlens.size()) - 1, x.size(1)}, x.options());
    SoftmaxPooling call = Call(x, p, cu_seqlens);
    call.scores = s.data_ptr<float>();
    RunSoftmaxPooling(call, y.data_ptr<float>());
    context->save_for_backward({x, p});
    Keep(context, cu_seqlens);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor &x = saved[0], &p = saved[1], grad = grads[0].contiguous();
    torch::Tensor grad_scores = torch::empty_like(p), grad_x = torch::empty_like(x);
    RunSoftmaxPoolingGradient(Call(x, p, GetKept<std::vector<int32_t>>(context)), grad.data_ptr<float>(),
                              grad_scores.data_ptr<float>(), grad_x.data_ptr<float>());
    return {grad_scores, grad_x, {}};
  }
};

}  // namespace

torch::Tensor AttentivePooling(const torch::Tensor& scores, const torch::Tensor& x,
                               const std::vector<int32_t>& cu_seqlens) {
  Check(scores, x, cu_seqlens);
  return AttentivePoolingOp::apply(scores, x, cu_seqlens);
}

torch::Tensor AttentivePoolingReference(const torch::Tensor& scores, const torch::Tensor& x,
                                        const std::vector<int32_t>& cu_seqlens) {
  Check(scores, x, cu_seqlens);
  std::vector<torch::Tensor> pooled;
  for (size_t b = 0; b + 1 < cu_seqlens.size(); ++b) {
    const auto rows = [&](const torch::Tensor& all) { return all.slice(0, cu_seqlens[b], cu_seqlens[b + 1]); };
    pooled.push_back((torch::softmax(rows(scores), 0).unsqueeze(1) * rows(x)).sum(0));
  }
  return torch::stack(pooled);
}

}  // namespace lshformer
