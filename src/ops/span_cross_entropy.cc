#include "ops/span_cross_entropy.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cross_entropy.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kColumns = 2;  // start, end

struct SpanCrossEntropyOp : torch::autograd::Function<SpanCrossEntropyOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& logits,
                               const std::vector<int32_t>& cu_seqlens, const std::vector<int32_t>& starts,
                               const std::vector<int32_t>& ends, bool wants_gradient) {
    torch::Tensor gradient;
    if (wants_gradient) gradient = torch::zeros_like(logits);
    const double loss = RunSpanCrossEntropy({logits.data_ptr<float>(), cu_seqlens, starts, ends},
                                            wants_gradient ? gradient.data_ptr<float>() : nullptr);
    if (wants_gradient) context->save_for_backward({gradient});
    return torch::full({}, loss, logits.options());
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {context->get_saved_variables()[0] * grads[0].item<float>(), {}, {}, {}, {}};
  }
};

void CheckShapes(const torch::Tensor& logits, const std::vector<int32_t>& cu_seqlens,
                 const std::vector<int32_t>& starts, const std::vector<int32_t>& ends) {
  const size_t sequences = cu_seqlens.size() - 1;
  if (logits.dim() != 2 || logits.size(1) != kColumns || logits.size(0) != cu_seqlens.back() ||
      starts.size() != sequences || ends.size() != sequences)
    Fail("span cross-entropy: logits {} with {} sequences of {} tokens, {} starts and {} ends",
         c10::str(logits.sizes()), sequences, cu_seqlens.back(), starts.size(), ends.size());
}

}  // namespace

torch::Tensor SpanCrossEntropy(const torch::Tensor& logits, const std::vector<int32_t>& cu_seqlens,
                               const std::vector<int32_t>& starts, const std::vector<int32_t>& ends) {
  CheckShapes(logits, cu_seqlens, starts, ends);
  const bool wants_gradient = torch::GradMode::is_enabled() && logits.requires_grad();
  return SpanCrossEntropyOp::apply(logits.contiguous(), cu_seqlens, starts, ends, wants_gradient);
}

torch::Tensor SpanCrossEntropyReference(const torch::Tensor& logits, const std::vector<int32_t>& cu_seqlens,
                                        const std::vector<int32_t>& starts, const std::vector<int32_t>& ends) {
  CheckShapes(logits, cu_seqlens, starts, ends);
  torch::Tensor loss = torch::zeros({}, logits.options());
  for (const auto* positions : {&starts, &ends}) {
    std::vector<torch::Tensor> terms;
    for (size_t b = 0; b < positions->size(); ++b) {
      const int64_t count = cu_seqlens[b + 1] - cu_seqlens[b], position = std::max(0, (*positions)[b]);
      if (position >= count) continue;
      const torch::Tensor z = logits.select(1, positions == &starts ? 0 : 1).narrow(0, cu_seqlens[b], count);
      terms.push_back(-torch::log_softmax(z, 0)[position]);
    }
    if (!terms.empty()) loss = loss + torch::stack(terms).mean() / kColumns;
  }
  return loss;
}

}  // namespace lshformer
