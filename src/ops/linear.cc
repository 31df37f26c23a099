#include "ops/linear.h"

#include <mutex>

#include "base/error.h"
#include "ops/matmul.h"
#include "ops/row_kernels.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void CheckRows(const torch::Tensor& x, int64_t columns) {
  if (x.dim() != 2 || x.size(1) != columns || x.scalar_type() != torch::kFloat32)
    Fail("linear: the input is {} {}, expected float32 [rows, {}]", x.toString(), c10::str(x.sizes()), columns);
}

// [out, in] seen as the [in, out] factor.
MatrixView Transposed(const torch::Tensor& weight) { return {weight.data_ptr<float>(), 1, weight.size(1)}; }
MatrixView RowMajor(const torch::Tensor& x) { return {x.data_ptr<float>(), x.size(1), 1}; }

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input, const torch::Tensor& weight,
                               const torch::Tensor& bias) {
    const torch::Tensor x = input.contiguous(), w = weight.contiguous();
    const int64_t rows = x.size(0), in = w.size(1), out = w.size(0);
    torch::Tensor y = torch::empty({rows, out}, x.options());
    Multiply({.rows = rows,
              .columns = out,
              .inner = in,
              .a = RowMajor(x),
              .b = Transposed(w),
              .bias = bias.data_ptr<float>(),
              .c = y.data_ptr<float>(),
              .c_stride = out});
    context->save_for_backward({x, w});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor &x = saved[0], &w = saved[1], grad_y = grads[0].contiguous();
    const int64_t rows = x.size(0), in = w.size(1), out = w.size(0);
    torch::Tensor grad_x;
    if (context->needs_input_grad(0)) {
      grad_x = torch::empty({rows, in}, x.options());
      Multiply({.rows = rows,
                .columns = in,
                .inner = out,
                .a = RowMajor(grad_y),
                .b = RowMajor(w),
                .c = grad_x.data_ptr<float>(),
                .c_stride = in});
    }
    torch::Tensor grad_w = torch::empty({out, in}, x.options()), grad_b = torch::empty({out}, x.options());
    Multiply({.rows = out,
              .columns = in,
              .inner = rows,
              .a = {grad_y.data_ptr<float>(), 1, out},
              .b = RowMajor(x),
              .c = grad_w.data_ptr<float>(),
              .c_stride = in,
              .inner_is_tokens = true});
    SumRows(grad_y.data_ptr<float>(), out, rows, out, grad_b.data_ptr<float>());
    return {grad_x, grad_w, grad_b};
  }
};

torch::Tensor Joined(const std::vector<torch::Tensor>& parts) {
  return parts.size() == 1 ? parts[0] : torch::cat(parts);
}

}  // namespace

struct Linear::Packed {
  std::vector<std::pair<const void*, uint32_t>> source;  // storage and version of every weight and bias
  std::unique_ptr<PackedMatrix> weight;
  torch::Tensor bias;
};

struct Linear::Cache {
  std::mutex mutex;
  std::shared_ptr<const Packed> packed;
};

Linear::Linear(std::vector<torch::Tensor> weights, std::vector<torch::Tensor> biases)
    : weights_(std::move(weights)), biases_(std::move(biases)), cache_(std::make_shared<Cache>()) {}

std::shared_ptr<const Linear::Packed> Linear::FindPacked() const {
  std::vector<std::pair<const void*, uint32_t>> source;
  for (const auto* group : {&weights_, &biases_})
    for (const torch::Tensor& part : *group) source.emplace_back(part.data_ptr(), part._version());
  const std::lock_guard lock(cache_->mutex);
  if (cache_->packed && cache_->packed->source == source) return cache_->packed;
  const torch::Tensor weight = Joined(weights_).contiguous();
  auto packed = std::make_shared<Packed>();
  packed->source = std::move(source);
  packed->weight = std::make_unique<PackedMatrix>(Transposed(weight), weight.size(1), weight.size(0));
  packed->bias = Joined(biases_).contiguous();
  cache_->packed = packed;
  return packed;
}

torch::Tensor Linear::operator()(const torch::Tensor& x) const {
  CheckRows(x, weights_[0].size(1));
  if (torch::GradMode::is_enabled()) {
    {
      const std::lock_guard lock(cache_->mutex);
      cache_->packed.reset();  // an optimizer may write the weights next
    }
    return LinearFunction::apply(x, Joined(weights_), Joined(biases_));
  }
  const auto packed = FindPacked();
  const torch::Tensor rows = x.contiguous();
  torch::Tensor y = torch::empty({rows.size(0), packed->bias.size(0)}, rows.options());
  packed->weight->Multiply(rows.size(0), rows.data_ptr<float>(), rows.size(1), packed->bias.data_ptr<float>(),
                           y.data_ptr<float>(), y.size(1));
  return y;
}

torch::Tensor LinearReference(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias) {
  return torch::matmul(x, weight.t()) + bias;
}

}  // namespace lshformer
