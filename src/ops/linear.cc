#include "ops/linear.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/amx_linear.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/low_precision.h"
#include "kernels/matmul_precision.h"
#include "kernels/packed_linear.h"
#include "kernels/split_linear.h"
#include "kernels/work_memory.h"
#include "ops/row_ops.h"

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
MatrixOf<T> RowMajor(const torch::Tensor& x) {
  return {static_cast<const T*>(x.data_ptr()), x.size(1), 1};
}
template <class T>
MatrixOf<T> Transposed(const torch::Tensor& x) {
  return {static_cast<const T*>(x.data_ptr()), 1, x.size(1)};
}

void Run(const MatrixProduct& product) { MultiplyInParts(product); }
void Run(const ProductOf<BFloat16>& product) { MultiplyRounded(product); }

// The three products of a linear map with factors of type T. x: [rows, in], w: [out, in], grad_y: [rows, out].
template <class T>
void Forward(const torch::Tensor& x, const torch::Tensor& w, const torch::Tensor& bias, torch::Tensor& y) {
  Run(ProductOf<T>{.rows = x.size(0),
                   .columns = w.size(0),
                   .inner = w.size(1),
                   .a = RowMajor<T>(x),
                   .b = Transposed<T>(w),
                   .bias = bias.data_ptr<float>(),
                   .c = y.data_ptr<float>(),
                   .c_stride = w.size(0)});
}
template <class T>
void InputGradient(const torch::Tensor& grad_y, const torch::Tensor& w, torch::Tensor& grad_x) {
  Run(ProductOf<T>{.rows = grad_y.size(0),
                   .columns = w.size(1),
                   .inner = w.size(0),
                   .a = RowMajor<T>(grad_y),
                   .b = RowMajor<T>(w),
                   .c = grad_x.data_ptr<float>(),
                   .c_stride = w.size(1)});
}
template <class T>
void WeightGradient(const torch::Tensor& grad_y, const torch::Tensor& x, torch::Tensor& grad_w) {
  Run(ProductOf<T>{.rows = grad_y.size(1),
                   .columns = x.size(1),
                   .inner = x.size(0),
                   .a = Transposed<T>(grad_y),
                   .b = RowMajor<T>(x),
                   .c = grad_w.data_ptr<float>(),
                   .c_stride = x.size(1),
                   .inner_is_tokens = true});
}

torch::Tensor Rounded(const torch::Tensor& x) {
  torch::Tensor rounded = torch::empty(x.sizes(), x.options().dtype(torch::kBFloat16));
  RoundRows(x.data_ptr<float>(), x.size(1), x.size(0), x.size(1), static_cast<BFloat16*>(rounded.data_ptr()));
  return rounded;
}

// x: rows of X, y: of Y, one of them in bfloat16.
template <class X, class Y>
void RunRounded(const PackedLinear& map, const torch::Tensor& x, const torch::Tensor& y,
                std::optional<UnaryFunction> function) {
  ForPiecesOfRows(x.size(0), /*tiles=*/true, [&](int64_t begin, int64_t count) {
    map.rounded()->Run(count, static_cast<const X*>(x.data_ptr()) + begin * x.size(1),
                       static_cast<Y*>(y.data_ptr()) + begin * y.size(1), function);
  });
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input, const torch::Tensor& weight,
                               const torch::Tensor& bias, bool bf16) {
    torch::Tensor x = input.contiguous(), w = weight.contiguous();
    torch::Tensor y = torch::empty({x.size(0), w.size(0)}, x.options());
    if (bf16) {
      x = Rounded(x), w = Rounded(w);
      Forward<BFloat16>(x, w, bias, y);
    } else {
      Forward<float>(x, w, bias, y);
    }
    context->save_for_backward({x, w});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor &x = saved[0], &w = saved[1], grad_y = grads[0].contiguous();
    const bool bf16 = x.scalar_type() == torch::kBFloat16;
    const torch::Tensor factor = bf16 ? Rounded(grad_y) : grad_y;
    torch::Tensor grad_x;
    if (context->needs_input_grad(0)) {
      grad_x = torch::empty({x.size(0), x.size(1)}, grad_y.options());
      bf16 ? InputGradient<BFloat16>(factor, w, grad_x) : InputGradient<float>(factor, w, grad_x);
    }
    const int64_t rows = x.size(0), in = w.size(1), out = w.size(0);
    torch::Tensor grad_w = torch::empty({out, in}, grad_y.options()), grad_b;
    bf16 ? WeightGradient<BFloat16>(factor, x, grad_w) : WeightGradient<float>(factor, x, grad_w);
    if (context->needs_input_grad(2)) {  // a map without bias has a constant 0
      grad_b = torch::empty({out}, grad_y.options());
      SumRows(grad_y.data_ptr<float>(), out, rows, out, grad_b.data_ptr<float>());
    }
    return {grad_x, grad_w, grad_b, {}};
  }
};

torch::Tensor Joined(const std::vector<torch::Tensor>& parts) {
  return parts.size() == 1 ? parts[0] : torch::cat(parts);
}

}  // namespace

struct Linear::Packed {
  Precision precision;
  AmxTiles tiles;                                        // that were active
  MatmulPrecision matmul_precision;                      // alike
  std::vector<std::pair<const void*, uint32_t>> source;  // storage and version of every weight and bias
  std::shared_ptr<const PackedLinear> linear;
};

struct Linear::Cache {
  std::mutex mutex;
  std::shared_ptr<const Packed> packed;
};

Linear::Linear(std::vector<torch::Tensor> weights, std::vector<torch::Tensor> biases)
    : weights_(std::move(weights)), biases_(std::move(biases)), cache_(std::make_shared<Cache>()) {}

std::shared_ptr<const Linear::Packed> Linear::FindPacked(Precision precision) const {
  std::vector<std::pair<const void*, uint32_t>> source;
  for (const auto* group : {&weights_, &biases_})
    for (const torch::Tensor& part : *group) source.emplace_back(part.data_ptr(), part._version());
  const std::lock_guard lock(cache_->mutex);
  const auto& known = cache_->packed;
  const AmxTiles tiles = ActiveAmxTiles();
  const MatmulPrecision matmul_precision = ActiveMatmulPrecision();
  if (known && known->precision == precision && known->tiles == tiles && known->matmul_precision == matmul_precision &&
      known->source == source)
    return known;
  const torch::Tensor weight = Joined(weights_).contiguous(), bias = Joined(biases_).contiguous();
  auto packed = std::make_shared<Packed>();
  packed->precision = precision;
  packed->tiles = tiles;
  packed->matmul_precision = matmul_precision;
  packed->source = std::move(source);
  packed->linear = std::make_shared<const PackedLinear>(precision, weight.data_ptr<float>(), bias.data_ptr<float>(),
                                                        weight.size(0), weight.size(1));
  cache_->packed = packed;
  return packed;
}

std::shared_ptr<const PackedLinear> Linear::packed() const {
  const std::lock_guard lock(cache_->mutex);
  return cache_->packed ? cache_->packed->linear : nullptr;
}

torch::Tensor Linear::WithGradients(const torch::Tensor& x, Precision precision) const {
  if (precision == Precision::kInt8) Fail("int8 is for inference: its rounding has no gradient");
  {
    const std::lock_guard lock(cache_->mutex);
    cache_->packed.reset();  // an optimizer may write the weights next
  }
  return LinearFunction::apply(x, Joined(weights_), Joined(biases_), precision == Precision::kBFloat16);
}

torch::ScalarType RowType(Precision precision) {
  const bool rounded =
      !torch::GradMode::is_enabled() && precision == Precision::kBFloat16 && ActiveAmxTiles() != AmxTiles::kNone;
  return rounded ? torch::kBFloat16 : torch::kFloat32;
}

torch::Tensor Linear::Infer(const torch::Tensor& x, Precision precision, std::optional<UnaryFunction> function,
                            torch::ScalarType type) const {
  const auto packed = FindPacked(precision);
  const PackedLinear& map = *packed->linear;
  const torch::Tensor from = x.contiguous();
  torch::Tensor y = torch::empty({from.size(0), map.out()}, from.options().dtype(type));
  if (from.scalar_type() == torch::kBFloat16) {
    RunRounded<BFloat16, float>(map, from, y, function);
  } else if (type == torch::kBFloat16) {
    RunRounded<float, BFloat16>(map, from, y, function);
  } else {
    map.Run(from.size(0), from.data_ptr<float>(), y.data_ptr<float>(), function);
  }
  return y;
}

torch::Tensor Linear::operator()(const torch::Tensor& x, Precision precision, torch::ScalarType type) const {
  CheckRows(x, weights_[0].size(1), precision);
  if (type != torch::kFloat32 && (type != RowType(precision) || x.scalar_type() != torch::kFloat32))
    Fail("linear: results in {} are for float32 rows and bfloat16 in matrix tiles, without gradients",
         c10::toString(type));
  return torch::GradMode::is_enabled() ? WithGradients(x, precision) : Infer(x, precision, {}, type);
}

torch::Tensor Linear::Then(UnaryFunction function, const torch::Tensor& x, Precision precision) const {
  CheckRows(x, weights_[0].size(1), precision);
  return torch::GradMode::is_enabled() ? Apply(function, WithGradients(x, precision)) : Infer(x, precision, function);
}

torch::Tensor Linear::Then(UnaryFunction function, const Linear& second, const torch::Tensor& x,
                           Precision precision) const {
  if (torch::GradMode::is_enabled()) return second(Then(function, x, precision), precision);
  CheckRows(x, weights_[0].size(1), Precision::kFloat32);
  const auto one = FindPacked(precision), two = second.FindPacked(precision);
  const int64_t rows = x.size(0), in = x.size(1), width = one->linear->out(), out = two->linear->out();
  if (second.weights_[0].size(1) != width)
    Fail("linear: {} outputs for a map of {} inputs", width, second.weights_[0].size(1));
  const torch::Tensor from = x.contiguous();
  torch::Tensor y = torch::empty({rows, out}, from.options());
  const RoundedAmxLinear *first_rounded = one->linear->rounded(), *second_rounded = two->linear->rounded();
  ForPiecesOfRows(rows, one->linear->in_amx_tiles(), [&](int64_t begin, int64_t count) {
    const float* x_rows = from.data_ptr<float>() + begin * in;
    float *y_rows = y.data_ptr<float>() + begin * out,
          *inner = WorkspaceOf(WorkspaceUse::kInner, count * width * sizeof(float));
    if (first_rounded != nullptr && second_rounded != nullptr) {
      auto* rounded = reinterpret_cast<BFloat16*>(inner);
      first_rounded->Run(count, x_rows, rounded, function);
      second_rounded->Run(count, rounded, y_rows, {});
    } else {
      one->linear->Run(count, x_rows, inner, function);
      two->linear->Run(count, inner, y_rows, {});
    }
  });
  return y;
}

torch::Tensor LinearReference(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias) {
  return torch::matmul(x, weight.t()) + bias;
}

}  // namespace lshformer
