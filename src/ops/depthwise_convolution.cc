#include "ops/depthwise_convolution.h"

#include "base/error.h"
#include "kernels/sequences.h"
#include "ops/saved_for_backward.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct DepthwiseConvolutionOp : torch::autograd::Function<DepthwiseConvolutionOp> {
  static torch::Tensor Run(const torch::Tensor& x, const torch::Tensor& taps, const std::vector<int32_t>& cu_seqlens) {
    torch::Tensor y = torch::empty_like(x);
    Convolve(cu_seqlens, taps.size(1), taps.size(0), x.data_ptr<float>(), taps.data_ptr<float>(), y.data_ptr<float>());
    return y;
  }
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const torch::Tensor& weight,
                               const std::vector<int32_t>& cu_seqlens) {
    const torch::Tensor taps = weight.t().contiguous();  // [k, d]
    context->save_for_backward({x, taps});
    Keep(context, cu_seqlens);
    return Run(x, taps, cu_seqlens);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor &x = saved[0], &taps = saved[1], grad_y = grads[0].contiguous();
    const auto& cu_seqlens = GetKept<std::vector<int32_t>>(context);
    torch::Tensor grad_x, grad_taps = torch::empty_like(taps);
    if (context->needs_input_grad(0)) grad_x = Run(grad_y, taps.flip(0), cu_seqlens);
    ConvolveTapGradient(cu_seqlens, taps.size(1), taps.size(0), x.data_ptr<float>(), grad_y.data_ptr<float>(),
                        grad_taps.data_ptr<float>());
    return {grad_x, grad_taps.t().contiguous(), {}};
  }
};

void CheckConvolution(const torch::Tensor& x, const torch::Tensor& weight, const std::vector<int32_t>& cu_seqlens) {
  if (x.dim() != 2 || weight.dim() != 2 || weight.size(0) != x.size(1) || weight.size(1) % 2 == 0)
    Fail("depthwise convolution: input {}, weight {}, expected [rows, d] and [d, odd width]", c10::str(x.sizes()),
         c10::str(weight.sizes()));
  if (cu_seqlens.empty() || cu_seqlens.front() != 0 || cu_seqlens.back() != x.size(0))
    Fail("depthwise convolution: {} rows, but the sequences have {}", x.size(0),
         cu_seqlens.empty() ? 0 : cu_seqlens.back());
}

}  // namespace

torch::Tensor DepthwiseConvolution(const torch::Tensor& x, const torch::Tensor& weight,
                                   const std::vector<int32_t>& cu_seqlens) {
  CheckConvolution(x, weight, cu_seqlens);
  return DepthwiseConvolutionOp::apply(x.contiguous(), weight, cu_seqlens);
}

torch::Tensor DepthwiseConvolutionReference(const torch::Tensor& x, const torch::Tensor& weight,
                                            const std::vector<int32_t>& cu_seqlens) {
  CheckConvolution(x, weight, cu_seqlens);
  const int64_t channels = weight.size(0), width = weight.size(1);
  std::vector<torch::Tensor> rows{torch::zeros({0, channels}, x.options())};
  for (size_t b = 0; b + 1 < cu_seqlens.size(); ++b) {
    const int64_t count = cu_seqlens[b + 1] - cu_seqlens[b];
    if (count == 0) continue;
    const torch::Tensor sequence = x.narrow(0, cu_seqlens[b], count).t().unsqueeze(0);  // [1, d, n]
    const torch::Tensor y = at::conv1d(sequence, weight.unsqueeze(1), {}, /*stride=*/1, /*padding=*/(width - 1) / 2,
                                       /*dilation=*/1, /*groups=*/channels);
    rows.push_back(y.squeeze(0).t());
  }
  return torch::cat(rows);
}

}  // namespace lshformer
