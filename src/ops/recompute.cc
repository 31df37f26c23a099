#include "ops/recompute.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "ops/saved_for_backward.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using FunctionPtr = std::shared_ptr<const RowFunction>;

// Calls visit(begin, end) for each block of `rows` rows; once where there is no row.
template <class Visit>
void ForEachBlock(const RowFunction& function, int64_t rows, const Visit& visit) {
  const int64_t block = function.chunk > 0 ? function.chunk : std::max<int64_t>(1, rows);
  int64_t begin = 0;
  do {
    const int64_t end = std::min(rows, begin + block);
    visit(begin, end);
    begin = end;
  } while (begin < rows);
}

// Puts what came of the rows from `begin` to `end` into `whole`; what came of all of them becomes it.
void Place(const torch::Tensor& block, int64_t begin, int64_t end, int64_t rows, torch::Tensor& whole) {
  if (begin == 0 && end == rows) {
    whole = block;
    return;
  }
  if (!whole.defined()) whole = torch::empty({rows, block.size(1)}, block.options());
  whole.slice(0, begin, begin + block.size(0)).copy_(block);
}

void AddBlock(const variable_list& block, RowGradients& sum) {
  if (sum.parameters.empty()) {
    sum.parameters.assign(block.begin() + 1, block.end());
    return;
  }
  for (size_t i = 1; i < block.size(); ++i)
    if (block[i].defined()) sum.parameters[i - 1].add_(block[i]);
}

struct RecomputedOp : torch::autograd::Function<RecomputedOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, at::TensorList, FunctionPtr function) {
    const torch::AutoGradMode as_later(true);
    const torch::Tensor y = Evaluate(*function, x);
    context->save_for_backward({x});
    Keep(context, std::move(function));
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const RowFunction& function = *GetKept<FunctionPtr>(context);
    RowGradients gradients =
        Differentiate(function, context->get_saved_variables()[0], std::move(grads[0]).contiguous());
    variable_list result{gradients.x};
    result.insert(result.end(), gradients.parameters.begin(), gradients.parameters.end());
    result.emplace_back();  // of `function`
    return result;
  }
};

}  // namespace

torch::Tensor Evaluate(const RowFunction& function, const torch::Tensor& x) {
  const torch::Tensor rows = x.detach();
  torch::Tensor y;
  ForEachBlock(function, rows.size(0), [&](int64_t begin, int64_t end) {
    Place(function.run(rows.slice(0, begin, end), {begin, /*again=*/false}).detach(), begin, end, rows.size(0), y);
  });
  return y;
}

RowGradients Differentiate(const RowFunction& function, const torch::Tensor& x, const torch::Tensor& grad) {
  for (const torch::Tensor& parameter : function.parameters)
    if (!parameter.requires_grad()) Fail("a parameter of {} has no gradient", c10::str(parameter.sizes()));
  const int64_t rows = x.size(0);
  RowGradients result;
  ForEachBlock(function, rows, [&](int64_t begin, int64_t end) {
    variable_list inputs{x.detach().slice(0, begin, end).requires_grad_(true)}, blocks;
    inputs.insert(inputs.end(), function.parameters.begin(), function.parameters.end());
    torch::Tensor y;
    {
      const torch::AutoGradMode on(true);
      y = function.run(inputs[0], {begin, /*again=*/true});
      if (y.requires_grad())
        blocks = torch::autograd::grad({y}, inputs, {end - begin == rows ? grad : grad.slice(0, begin, end)},
                                       /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
      else
        blocks.resize(inputs.size());  // it used none of them: a constant
    }
    const torch::NoGradGuard no_grad;
    Place(y.detach(), begin, end, rows, result.value);
    Place(blocks[0].defined() ? blocks[0] : torch::zeros_like(inputs[0]), begin, end, rows, result.x);
    AddBlock(blocks, result);
  });
  return result;
}

torch::Tensor Recomputed(RowFunction function, const torch::Tensor& x) {
  if (!torch::GradMode::is_enabled()) return Evaluate(function, x);
  const auto shared = std::make_shared<const RowFunction>(std::move(function));
  return RecomputedOp::apply(x, at::TensorList(shared->parameters), shared);
}

}  // namespace lshformer
