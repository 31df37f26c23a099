#include "ops/linear.h"

#include <mutex>

#include "base/error.h"
#include "base/signals.h"
#include "kernels/linear.h"
#include "kernels/low_precision.h"
#include "kernels/matmul_precision.h"
#include "kernels/packed_linear.h"
#include "kernels/rows.h"
#include "ops/gated.h"
#include "ops/row_ops.h"
#include "ops/saved_for_backward.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void CheckRows(const torch::Tensor& x, int64_t columns, Precision precision) {
  const bool known = x.scalar_type() == torch::kFloat32 || x.scalar_type() == RowType(precision);
  if (x.dim() != 2 || x.size(1) != columns || !known)
    Fail("linear: the input is {} {}, expected float32 [rows, {}]", x.toString(), c10::str(x.sizes()), columns);
}

template <class T>
const T* Data(const torch::Tensor& x) {
  return static_cast<const T*>(x.data_ptr());
}

torch::Tensor Rounded(const torch::Tensor& x) {
  torch::Tensor rounded = torch::empty(x.sizes(), x.options().dtype(torch::kBFloat16));
  RoundRows(x.data_ptr<float>(), x.size(1), x.size(0), x.size(1), static_cast<BFloat16*>(rounded.data_ptr()));
  return rounded;
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input, const torch::Tensor& weight,
                               const torch::Tensor& bias, bool bf16, const TokenSplitPtr& split) {
    torch::Tensor x = input.contiguous(), w = weight.contiguous();
    torch::Tensor y = torch::empty({x.size(0), w.size(0)}, x.options());
    if (bf16) x = Rounded(x), w = Rounded(w);
    const LinearShape shape{x.size(0), w.size(1), w.size(0)};
    const float* b = bias.data_ptr<float>();
    float* to = y.data_ptr<float>();
    bf16 ? LinearForward(shape, Data<BFloat16>(x), Data<BFloat16>(w), b, to)
         : LinearForward(shape, Data<float>(x), Data<float>(w), b, to);
    context->save_for_backward({x, w});
    Keep(context, split);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor &x = saved[0], &w = saved[1], grad_y = grads[0].contiguous();
    const bool bf16 = x.scalar_type() == torch::kBFloat16;
    const torch::Tensor factor = bf16 ? Rounded(grad_y) : grad_y;
    const LinearShape shape{x.size(0), w.size(1), w.size(0)};
    torch::Tensor grad_x;
    if (context->needs_input_grad(0)) {
      grad_x = torch::empty({shape.rows, shape.in}, grad_y.options());
      float* to = grad_x.data_ptr<float>();
      bf16 ? LinearInputGradient(shape, Data<BFloat16>(factor), Data<BFloat16>(w), to)
           : LinearInputGradient(shape, Data<float>(factor), Data<float>(w), to);
    }
    const bool has_bias = context->needs_input_grad(2);  // a map without one has a constant 0
    const int64_t weights = shape.out * shape.in, count = weights + (has_bias ? shape.out : 0);
    // Both side by side, of the rows [begin, end).
    const auto sum = [&](int64_t begin, int64_t end, float* to) {
      const LinearShape part{end - begin, shape.in, shape.out};
      bf16 ? LinearWeightGradient(part, Data<BFloat16>(factor) + begin * shape.out,
                                  Data<BFloat16>(x) + begin * shape.in, to)
           : LinearWeightGradient(part, Data<float>(factor) + begin * shape.out, Data<float>(x) + begin * shape.in, to);
      if (has_bias)
        SumRows(grad_y.data_ptr<float>() + begin * shape.out, shape.out, part.rows, shape.out, to + weights);
    };
    torch::Tensor sums;
    if (const TokenSplitPtr& split = GetKept<TokenSplitPtr>(context)) {
      sums = SumOverBlocks(*split, shape.rows, count, sum);
    } else {
      sums = torch::empty({count}, grad_y.options());
      sum(0, shape.rows, sums.data_ptr<float>());
    }
    return {grad_x,
            sums.narrow(0, 0, weights).view({shape.out, shape.in}),
            has_bias ? sums.narrow(0, weights, shape.out) : torch::Tensor(),
            {},
            {}};
  }
};

torch::Tensor Joined(const std::vector<torch::Tensor>& parts) {
  return parts.size() == 1 ? parts[0] : torch::cat(parts);
}

}  // namespace

struct Linear::Packed {
  Precision precision;
  std::vector<std::pair<const void*, uint32_t>> source;  // storage and version of every weight and bias
  std::shared_ptr<const PackedLinear> linear;
};

struct Linear::Cache {
  std::mutex mutex;
  std::shared_ptr<const Packed> packed;
};

Linear::Linear(std::vector<torch::Tensor> weights, std::vector<torch::Tensor> biases)
    : weights_(std::move(weights)), biases_(std::move(biases)), cache_(std::make_shared<Cache>()) {}

int64_t Linear::out() const {
  int64_t out = 0;
  for (const torch::Tensor& weight : weights_) out += weight.size(0);
  return out;
}

std::shared_ptr<const Linear::Packed> Linear::FindPacked(Precision precision) const {
  std::vector<std::pair<const void*, uint32_t>> source;
  for (const auto* group : {&weights_, &biases_})
    for (const torch::Tensor& part : *group) source.emplace_back(part.data_ptr(), part._version());
  const std::lock_guard lock(cache_->mutex);
  const auto& known = cache_->packed;
  if (known && known->precision == precision && known->source == source && known->linear->up_to_date()) return known;
  const torch::Tensor weight = Joined(weights_).contiguous(), bias = Joined(biases_).contiguous();
  auto packed = std::make_shared<Packed>();
  packed->precision = precision;
  packed->source = std::move(source);
  packed->linear = std::make_shared<const PackedLinear>(precision, weight.data_ptr<float>(), bias.data_ptr<float>(),
                                                        weight.size(0), weight.size(1));
  cache_->packed = packed;
  // What lies in a file that is mapped was read for this alone: a model's memory is that of its packed weights.
  for (const torch::Tensor& part : weights_) GuardedMapping::Forget(part.data_ptr(), part.nbytes());
  return packed;
}

std::shared_ptr<const PackedLinear> Linear::packed() const {
  const std::lock_guard lock(cache_->mutex);
  return cache_->packed ? cache_->packed->linear : nullptr;
}

torch::Tensor Linear::WithGradients(const torch::Tensor& x, Precision precision, const TokenSplitPtr& split) const {
  if (precision == Precision::kInt8) Fail("int8 is for inference: its rounding has no gradient");
  {
    const std::lock_guard lock(cache_->mutex);
    cache_->packed.reset();  // an optimizer may write the weights next
  }
  return LinearFunction::apply(x, Joined(weights_), Joined(biases_), precision == Precision::kBFloat16, split);
}

torch::ScalarType RowType(Precision precision) {
  const bool rounded = !torch::GradMode::is_enabled() && precision == Precision::kBFloat16 && AmxTilesAreActive();
  return rounded ? torch::kBFloat16 : torch::kFloat32;
}

torch::Tensor Linear::Infer(const torch::Tensor& x, Precision precision, std::optional<UnaryFunction> function,
                            torch::ScalarType type) const {
  const auto packed = FindPacked(precision);
  const PackedLinear& map = *packed->linear;
  const torch::Tensor from = x.contiguous();
  torch::Tensor y = torch::empty({from.size(0), map.out()}, from.options().dtype(type));
  const int64_t rows = from.size(0);
  if (from.scalar_type() == torch::kBFloat16) {
    map.Run(rows, Data<BFloat16>(from), y.data_ptr<float>(), function);
  } else if (type == torch::kBFloat16) {
    map.Run(rows, from.data_ptr<float>(), static_cast<BFloat16*>(y.data_ptr()), function);
  } else {
    map.Run(rows, from.data_ptr<float>(), y.data_ptr<float>(), function);
  }
  return y;
}

torch::Tensor Linear::operator()(const torch::Tensor& x, Precision precision, torch::ScalarType type,
                                 const TokenSplitPtr& split) const {
  CheckRows(x, weights_[0].size(1), precision);
  const bool gradients = torch::GradMode::is_enabled();
  const bool rounds = type == torch::kBFloat16 && !gradients && x.scalar_type() == torch::kFloat32;
  if (type != torch::kFloat32 && !rounds)
    Fail("linear: results in {} are for float32 rows without gradients", c10::toString(type));
  return gradients ? WithGradients(x, precision, split) : Infer(x, precision, {}, type);
}

torch::Tensor Linear::Then(UnaryFunction function, const torch::Tensor& x, Precision precision,
                           const TokenSplitPtr& split) const {
  CheckRows(x, weights_[0].size(1), precision);
  return torch::GradMode::is_enabled() ? Apply(function, WithGradients(x, precision, split))
                                       : Infer(x, precision, function);
}

template <class Run>
torch::Tensor Linear::InferBoth(const Linear& second, int64_t inner, const torch::Tensor& x, Precision precision,
                                const Run& run) const {
  CheckRows(x, weights_[0].size(1), Precision::kFloat32);
  const auto one = FindPacked(precision), two = second.FindPacked(precision);
  const PackedLinear &first = *one->linear, &last = *two->linear;
  if (last.in() != inner) Fail("linear: {} outputs for a map of {} inputs", first.out(), last.in());
  const torch::Tensor from = x.contiguous();
  torch::Tensor y = torch::empty({from.size(0), last.out()}, from.options());
  run(first, last, from.size(0), from.data_ptr<float>(), y.data_ptr<float>());
  return y;
}

torch::Tensor Linear::Then(UnaryFunction function, const Linear& second, const torch::Tensor& x, Precision precision,
                           const TokenSplitPtr& split) const {
  if (torch::GradMode::is_enabled())
    return second(Then(function, x, precision, split), precision, torch::kFloat32, split);
  return InferBoth(second, out(), x, precision,
                   [=](const PackedLinear& first, const PackedLinear& last, int64_t rows, const float* from,
                       float* to) { RunBoth(first, function, last, rows, from, to); });
}

torch::Tensor Linear::ThenGated(UnaryFunction function, const Linear& second, const torch::Tensor& x,
                                Precision precision, const TokenSplitPtr& split) const {
  if (torch::GradMode::is_enabled())
    return second(GatedProduct(function, (*this)(x, precision, torch::kFloat32, split)), precision, torch::kFloat32,
                  split);
  return InferBoth(second, out() / 2, x, precision,
                   [=](const PackedLinear& first, const PackedLinear& last, int64_t rows, const float* from,
                       float* to) { RunBothGated(first, function, last, rows, from, to); });
}

torch::Tensor LinearReference(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias) {
  return torch::matmul(x, weight.t()) + bias;
}

}  // namespace lshformer
