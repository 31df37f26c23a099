#include "ops/segment_max.h"

#include "base/error.h"
#include "kernels/sequences.h"
#include "ops/saved_for_backward.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SegmentMaxOp : torch::autograd::Function<SegmentMaxOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const std::vector<int32_t>& cu_segments) {
    const int64_t segments = std::ssize(cu_segments) - 1;
    torch::Tensor y = torch::empty({segments, x.size(1)}, x.options());
    torch::Tensor rows = torch::empty({segments, x.size(1)}, torch::kInt32);
    MaxOfSegments(cu_segments, x.size(1), x.data_ptr<float>(), y.data_ptr<float>(), rows.data_ptr<int32_t>());
    context->save_for_backward({rows});
    context->saved_data["rows"] = x.size(0);
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const torch::Tensor rows = context->get_saved_variables()[0], grad_y = grads[0].contiguous();
    torch::Tensor grad_x = torch::zeros({context->saved_data["rows"].toInt(), grad_y.size(1)}, grad_y.options());
    MaxOfSegmentsGradient(grad_y.size(0), grad_y.size(1), grad_y.data_ptr<float>(), rows.data_ptr<int32_t>(),
                          grad_x.data_ptr<float>());
    return {grad_x, {}};
  }
};

void Check(const torch::Tensor& x, const std::vector<int32_t>& cu_segments) {
  if (x.dim() != 2 || cu_segments.empty() || cu_segments.front() != 0 || cu_segments.back() != x.size(0))
    Fail("segment maximum: input {}, but the segments have {} rows", c10::str(x.sizes()),
         cu_segments.empty() ? 0 : cu_segments.back());
  for (size_t s = 0; s + 1 < cu_segments.size(); ++s)
    if (cu_segments[s + 1] <= cu_segments[s]) Fail("segment maximum: segment {} has no row", s);
}

}  // namespace

torch::Tensor SegmentMax(const torch::Tensor& x, const std::vector<int32_t>& cu_segments) {
  Check(x, cu_segments);
  return SegmentMaxOp::apply(x.contiguous(), cu_segments);
}

torch::Tensor SegmentMaxReference(const torch::Tensor& x, const std::vector<int32_t>& cu_segments) {
  Check(x, cu_segments);
  std::vector<torch::Tensor> rows{torch::zeros({0, x.size(1)}, x.options())};
  for (size_t s = 0; s + 1 < cu_segments.size(); ++s) {
    const torch::Tensor segment = x.narrow(0, cu_segments[s], cu_segments[s + 1] - cu_segments[s]);
    const torch::Tensor is_largest = segment.detach().eq(segment.detach().amax(0, true));
    const torch::Tensor is_first = is_largest.logical_and(is_largest.cumsum(0).eq(1));
    rows.push_back(torch::where(is_first, segment, torch::zeros_like(segment)).sum(0, true));
  }
  return torch::cat(rows);
}

}  // namespace lshformer
