#include "ops/lstm.h"

#include <array>

#include "base/error.h"
#include "kernels/lstm.h"
#include "kernels/matmul.h"
#include "kernels/rows.h"
#include "ops/saved_for_backward.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kDirections = 2;

// sums = x·Wᵀ + bias. x: [T, in], w: [4d, in], sums: [T, 4d].
void InputSums(const torch::Tensor& x, const torch::Tensor& w, const torch::Tensor& bias, const torch::Tensor& sums) {
  Multiply({.rows = x.size(0),
            .columns = w.size(0),
            .inner = w.size(1),
            .a = {x.data_ptr<float>(), x.size(1), 1},
            .b = {w.data_ptr<float>(), 1, w.size(1)},
            .bias = bias.data_ptr<float>(),
            .c = sums.data_ptr<float>(),
            .c_stride = w.size(0)});
}

// grad_x (+)= grad_sums·W.
void InputGradient(const torch::Tensor& grad_sums, const torch::Tensor& w, bool accumulate, torch::Tensor& grad_x) {
  Multiply({.rows = grad_sums.size(0),
            .columns = w.size(1),
            .inner = w.size(0),
            .a = {grad_sums.data_ptr<float>(), w.size(0), 1},
            .b = {w.data_ptr<float>(), w.size(1), 1},
            .c = grad_x.data_ptr<float>(),
            .c_stride = w.size(1),
            .accumulate = accumulate});
}

// grad_sumsᵀ·factor: the gradient by the weights that multiply `factor` [T, in].
torch::Tensor WeightGradient(const torch::Tensor& grad_sums, const torch::Tensor& factor) {
  const int64_t rows = grad_sums.size(1), columns = factor.size(1);
  torch::Tensor grad = torch::empty({rows, columns}, factor.options());
  Multiply({.rows = rows,
            .columns = columns,
            .inner = factor.size(0),
            .a = {grad_sums.data_ptr<float>(), 1, rows},
            .b = {factor.data_ptr<float>(), columns, 1},
            .c = grad.data_ptr<float>(),
            .c_stride = columns,
            .inner_is_tokens = true});
  return grad;
}

// [T, d] of y [T, 2d].
torch::Tensor Before(const torch::Tensor& y, int64_t direction, const std::vector<int32_t>& cu_seqlens) {
  const int64_t units = y.size(1) / kDirections;
  torch::Tensor before = torch::empty({y.size(0), units}, y.options());
  HiddenBefore(y.data_ptr<float>() + direction * units, y.size(1), units, /*from_last_row=*/direction == 1, cu_seqlens,
               before.data_ptr<float>());
  return before;
}

torch::Tensor SumOfRows(const torch::Tensor& x) {
  torch::Tensor sums = torch::empty({x.size(1)}, x.options());
  SumRows(x.data_ptr<float>(), x.size(1), x.size(0), x.size(1), sums.data_ptr<float>());
  return sums;
}

// Weights of one direction in the order of the arguments: input, recurrent, bias.
struct BiLstmOp : torch::autograd::Function<BiLstmOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const torch::Tensor& forward_input,
                               const torch::Tensor& forward_recurrent, const torch::Tensor& forward_bias,
                               const torch::Tensor& backward_input, const torch::Tensor& backward_recurrent,
                               const torch::Tensor& backward_bias, const std::vector<int32_t>& cu_seqlens, bool keep) {
    const std::array inputs{forward_input, backward_input}, recurrents{forward_recurrent, backward_recurrent};
    const std::array biases{forward_bias, backward_bias};
    const int64_t rows = x.size(0), units = forward_recurrent.size(1);
    torch::Tensor gates = torch::empty({kDirections, rows, 4 * units}, x.options()), cells;
    if (keep) cells = torch::empty({kDirections, rows, units}, x.options());
    torch::Tensor y = torch::empty({rows, kDirections * units}, x.options());
    std::array<LstmDirection, kDirections> calls;
    for (size_t d = 0; d < kDirections; ++d) {
      const int64_t direction = static_cast<int64_t>(d);
      InputSums(x, inputs[d], biases[d], gates[direction]);
      calls[d] = {.units = units,
                  .from_last_row = d == 1,
                  .recurrent = recurrents[d].data_ptr<float>(),
                  .gates = gates[direction].data_ptr<float>(),
                  .cells = keep ? cells[direction].data_ptr<float>() : nullptr,
                  .hidden = y.data_ptr<float>() + direction * units,
                  .hidden_stride = y.size(1)};
    }
    RunLstm(calls, cu_seqlens);
    if (keep) {
      context->save_for_backward(
          {x, y, gates, cells, forward_input, forward_recurrent, backward_input, backward_recurrent});
      Keep(context, cu_seqlens);
    }
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor &x = saved[0], &y = saved[1], &gates = saved[2], &cells = saved[3];
    const torch::Tensor grad_y = grads[0].contiguous();
    const auto& cu_seqlens = GetKept<std::vector<int32_t>>(context);
    const int64_t units = cells.size(2);
    const torch::Tensor grad_sums = torch::empty_like(gates);
    std::array<LstmDirectionGradient, kDirections> calls;
    for (size_t d = 0; d < kDirections; ++d) {
      const int64_t direction = static_cast<int64_t>(d);
      calls[d] = {.units = units,
                  .from_last_row = d == 1,
                  .recurrent = saved[5 + 2 * d].data_ptr<float>(),
                  .gates = gates[direction].data_ptr<float>(),
                  .cells = cells[direction].data_ptr<float>(),
                  .grad_hidden = grad_y.data_ptr<float>() + direction * units,
                  .hidden_stride = y.size(1),
                  .grad_sums = grad_sums[direction].data_ptr<float>()};
    }
    RunLstmGradient(calls, cu_seqlens);
    const bool wants_x = context->needs_input_grad(0);
    torch::Tensor grad_x;
    if (wants_x) grad_x = torch::empty_like(x);
    variable_list result{grad_x};
    for (int64_t direction = 0; direction < kDirections; ++direction) {
      const torch::Tensor sums = grad_sums[direction];
      if (wants_x) InputGradient(sums, saved[static_cast<size_t>(4 + 2 * direction)], direction > 0, grad_x);
      result.push_back(WeightGradient(sums, x));
      result.push_back(WeightGradient(sums, Before(y, direction, cu_seqlens)));
      result.push_back(SumOfRows(sums));
    }
    result.insert(result.end(), {torch::Tensor(), torch::Tensor()});
    return result;
  }
};

torch::Tensor BiasOf(const LstmWeights& w) {
  return (w.recurrent_bias.defined() ? w.input_bias + w.recurrent_bias : w.input_bias).contiguous();
}

void CheckWeights(const torch::Tensor& x, const LstmWeights& w, int64_t units) {
  const int64_t gates = 4 * units;
  const auto is_bias = [&](const torch::Tensor& bias) { return bias.dim() == 1 && bias.size(0) == gates; };
  if (x.dim() != 2 || w.input.dim() != 2 || w.input.size(0) != gates || w.input.size(1) != x.size(1) ||
      w.recurrent.dim() != 2 || w.recurrent.size(0) != gates || w.recurrent.size(1) != units ||
      !is_bias(w.input_bias) || (w.recurrent_bias.defined() && !is_bias(w.recurrent_bias)))
    Fail("LSTM of {} units: input {}, weights {} and {}, biases {}", units, c10::str(x.sizes()),
         c10::str(w.input.sizes()), c10::str(w.recurrent.sizes()), c10::str(w.input_bias.sizes()));
}

void Check(const torch::Tensor& x, const std::vector<int32_t>& cu_seqlens, const LstmWeights& forward,
           const LstmWeights& backward) {
  const int64_t units = forward.recurrent.size(-1);
  CheckWeights(x, forward, units);
  CheckWeights(x, backward, units);
  if (cu_seqlens.empty() || cu_seqlens.front() != 0 || cu_seqlens.back() != x.size(0))
    Fail("LSTM: {} rows, but the sequences have {}", x.size(0), cu_seqlens.empty() ? 0 : cu_seqlens.back());
}

}  // namespace

torch::Tensor BiLstm(const torch::Tensor& x, const std::vector<int32_t>& cu_seqlens, const LstmWeights& forward,
                     const LstmWeights& backward) {
  Check(x, cu_seqlens, forward, backward);
  return BiLstmOp::apply(x.contiguous(), forward.input.contiguous(), forward.recurrent.contiguous(), BiasOf(forward),
                         backward.input.contiguous(), backward.recurrent.contiguous(), BiasOf(backward), cu_seqlens,
                         torch::GradMode::is_enabled());
}

torch::Tensor BiLstmReference(const torch::Tensor& x, const std::vector<int32_t>& cu_seqlens,
                              const LstmWeights& forward, const LstmWeights& backward) {
  Check(x, cu_seqlens, forward, backward);
  const int64_t units = forward.recurrent.size(1);
  std::vector<torch::Tensor> parameters;
  for (const LstmWeights* w : {&forward, &backward}) {
    const torch::Tensor second = w->recurrent_bias.defined() ? w->recurrent_bias : torch::zeros_like(w->input_bias);
    parameters.insert(parameters.end(), {w->input, w->recurrent, w->input_bias, second});
  }
  const torch::Tensor zero = torch::zeros({2, 1, units}, x.options());
  std::vector<torch::Tensor> rows{torch::zeros({0, 2 * units}, x.options())};
  for (size_t b = 0; b + 1 < cu_seqlens.size(); ++b) {
    const int64_t count = cu_seqlens[b + 1] - cu_seqlens[b];
    if (count == 0) continue;
    const torch::Tensor sequence = x.narrow(0, cu_seqlens[b], count).unsqueeze(1);  // [n, 1, in]
    constexpr bool kBiases = true, kTrain = false, kBidirectional = true, kBatchFirst = false;
    rows.push_back(std::get<0>(at::lstm(sequence, {zero, zero}, parameters, kBiases, /*num_layers=*/1, /*dropout=*/0.0,
                                        kTrain, kBidirectional, kBatchFirst))
                       .squeeze(1));
  }
  return torch::cat(rows);
}

}  // namespace lshformer
