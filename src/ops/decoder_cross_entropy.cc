#include "ops/decoder_cross_entropy.h"

#include "base/error.h"
#include "kernels/cross_entropy.h"
#include "kernels/decoder_cross_entropy.h"
#include "kernels/low_precision.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::vector<BFloat16> Bfloat16Of(const torch::Tensor& x) {
  std::vector<BFloat16> rounded(static_cast<size_t>(x.numel()));
  RoundRows(x.data_ptr<float>(), x.size(1), x.size(0), x.size(1), rounded.data());
  return rounded;
}

struct DecoderCrossEntropyOp : torch::autograd::Function<DecoderCrossEntropyOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& hidden, const torch::Tensor& weight,
                               const torch::Tensor& bias, const std::vector<int32_t>& labels, bool wants_gradients,
                               bool bf16) {
    variable_list kept;
    DecoderGradients gradients;
    if (wants_gradients) {
      kept = {torch::empty_like(hidden), torch::empty_like(weight), torch::empty_like(bias)};
      gradients = {kept[0].data_ptr<float>(), kept[1].data_ptr<float>(), kept[2].data_ptr<float>()};
    }
    const auto run = [&]<class T>(const T* h, const T* w) {
      const DecoderLoss<T> call{h, w, bias.data_ptr<float>(), hidden.size(1), weight.size(0), labels};
      return RunDecoderLoss(call, wants_gradients ? &gradients : nullptr);
    };
    const double loss = bf16 ? run(Bfloat16Of(hidden).data(), Bfloat16Of(weight).data())
                             : run(hidden.data_ptr<float>(), weight.data_ptr<float>());
    context->save_for_backward(kept);
    return torch::full({}, loss, hidden.options());
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const float scale = grads[0].item<float>();
    if (scale == 1.0f) return {saved[0], saved[1], saved[2], {}, {}, {}};
    return {saved[0] * scale, saved[1] * scale, saved[2] * scale, {}, {}, {}};
  }
};

torch::Tensor IndexTensor(const std::vector<int32_t>& labels) {
  return torch::tensor(std::vector<int64_t>(labels.begin(), labels.end()), torch::kInt64);
}

}  // namespace

torch::Tensor DecoderCrossEntropy(const torch::Tensor& hidden, const torch::Tensor& weight, const torch::Tensor& bias,
                                  const std::vector<int32_t>& labels, Precision precision) {
  if (precision == Precision::kInt8) Fail("cross-entropy: int8 has no gradients");
  if (static_cast<int64_t>(labels.size()) != hidden.size(0) || weight.size(1) != hidden.size(1) ||
      bias.numel() != weight.size(0))
    Fail("cross-entropy: {} labels, hidden {}, weight {}", labels.size(), c10::str(hidden.sizes()),
         c10::str(weight.sizes()));
  for (const int32_t label : labels)
    if (label < 0 || label >= weight.size(0)) Fail("label {}: expected 0 to {}", label, weight.size(0) - 1);
  const bool wants_gradients =
      torch::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad() || bias.requires_grad());
  return DecoderCrossEntropyOp::apply(hidden.contiguous(), weight.contiguous(), bias.contiguous(), labels,
                                      wants_gradients, precision == Precision::kBFloat16);
}

torch::Tensor DecoderCrossEntropyReference(const torch::Tensor& hidden, const torch::Tensor& weight,
                                           const torch::Tensor& bias, const std::vector<int32_t>& labels) {
  const torch::Tensor logits = torch::matmul(hidden, weight.t()) + bias;
  const torch::Tensor chosen = logits.gather(1, IndexTensor(labels).unsqueeze(1)).squeeze(1);
  return (torch::logsumexp(logits, 1) - chosen).mean();
}

double CrossEntropyLoss(const torch::Tensor& logits, const std::vector<int32_t>& labels) {
  const torch::Tensor rows = logits.contiguous();
  return MeanCrossEntropy(rows.data_ptr<float>(), rows.size(0), rows.size(1), labels.data());
}

}  // namespace lshformer
