#include "ops/gated.h"

#include "base/error.h"
#include "kernels/gated.h"
#include "ops/row_ops.h"
#include "ops/saved_for_backward.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct GatedProductOp : torch::autograd::Function<GatedProductOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input, UnaryFunction function) {
    const torch::Tensor x = input.contiguous();
    torch::Tensor y = torch::empty({x.size(0), x.size(1) / 2}, x.options());
    GateRows(function, x.data_ptr<float>(), y.size(0), y.size(1), y.data_ptr<float>());
    context->save_for_backward({x});
    Keep(context, function);
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const torch::Tensor x = context->get_saved_variables()[0], grad_y = grads[0].contiguous();
    torch::Tensor grad_x = torch::empty_like(x);
    GateRowsGradient(GetKept<UnaryFunction>(context), x.data_ptr<float>(), grad_y.data_ptr<float>(), grad_y.size(0),
                     grad_y.size(1), grad_x.data_ptr<float>());
    return {grad_x, {}};
  }
};

void Check(const torch::Tensor& x) {
  if (x.dim() != 2 || x.size(1) % 2 != 0)
    Fail("gated product: expected [rows, 2 · columns], got {}", c10::str(x.sizes()));
}

}  // namespace

torch::Tensor GatedProduct(UnaryFunction function, const torch::Tensor& x) {
  Check(x);
  if (x.scalar_type() != torch::kFloat32) Fail("gated product: expected float32, got {}", x.toString());
  return GatedProductOp::apply(x, function);
}

torch::Tensor GatedProductReference(UnaryFunction function, const torch::Tensor& x) {
  Check(x);
  const std::vector<torch::Tensor> halves = x.chunk(2, 1);
  return ApplyReference(function, halves[0]) * halves[1];
}

}  // namespace lshformer
