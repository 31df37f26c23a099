#include "ops/row_ops.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "kernels/gather.h"
#include "kernels/rows.h"
#include "ops/saved_for_backward.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::span<const float> Values(const torch::Tensor& x) { return {x.data_ptr<float>(), static_cast<size_t>(x.numel())}; }

RowDropout Kernel(const DropoutSpec& dropout) {
  if (dropout.probability <= 0) return {};
  return {static_cast<float>(dropout.probability), dropout.key, dropout.rows->sequence_ids, dropout.rows->positions};
}

void CheckDropout(const DropoutSpec& dropout, int64_t rows) {
  if (dropout.probability <= 0) return;
  if (dropout.probability >= 1) Fail("dropout: expected a probability below 1, got {}", dropout.probability);
  if (!dropout.rows || static_cast<int64_t>(dropout.rows->sequence_ids.size()) != rows ||
      static_cast<int64_t>(dropout.rows->positions.size()) != rows)
    Fail("dropout: the {} rows have no identity", rows);
}

struct ApplyOp : torch::autograd::Function<ApplyOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input, UnaryFunction function) {
    const torch::Tensor x = input.contiguous();
    torch::Tensor y = torch::empty_like(x);
    ApplyFunction(function, Values(x), y.data_ptr<float>());
    context->save_for_backward({x});
    Keep(context, function);
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const torch::Tensor x = context->get_saved_variables()[0], grad_y = grads[0].contiguous();
    torch::Tensor grad_x = torch::empty_like(x);
    ApplyDerivative(GetKept<UnaryFunction>(context), Values(x), grad_y.data_ptr<float>(), grad_x.data_ptr<float>());
    return {grad_x, {}};
  }
};

struct DropoutOp : torch::autograd::Function<DropoutOp> {
  static torch::Tensor Run(const torch::Tensor& x, const DropoutSpec& dropout) {
    torch::Tensor y = torch::empty_like(x);
    ApplyDropout(Kernel(dropout), x.data_ptr<float>(), x.size(0), x.size(1), y.data_ptr<float>());
    return y;
  }
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const DropoutSpec& dropout) {
    Keep(context, dropout);
    return Run(x.contiguous(), dropout);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {Run(grads[0].contiguous(), GetKept<DropoutSpec>(context)), {}};
  }
};

struct NormSettings {
  float eps;
  bool has_residual;  // else `residual` is a stand-in: torch's Function takes no undefined tensor
  DropoutSpec dropout;
  TokenSplitPtr split;
};

// The rows [begin, end) of a call.
DropoutAddNorm RowsOf(DropoutAddNorm call, int64_t begin, int64_t end) {
  call.rows = end - begin;
  if (call.dropout.probability > 0) {
    call.dropout.sequence_ids = call.dropout.sequence_ids.subspan(begin, call.rows);
    call.dropout.positions = call.dropout.positions.subspan(begin, call.rows);
  }
  call.sum += begin * call.columns;
  call.mean += begin;
  call.inverse_deviation += begin;
  return call;
}

DropoutAddNorm NormCall(const NormSettings& settings, const torch::Tensor& sum, const torch::Tensor& gamma,
                        const torch::Tensor& mean, const torch::Tensor& inverse_deviation) {
  return {.rows = sum.size(0),
          .columns = sum.size(1),
          .gamma = gamma.data_ptr<float>(),
          .eps = settings.eps,
          .dropout = Kernel(settings.dropout),
          .sum = sum.data_ptr<float>(),
          .mean = mean.data_ptr<float>(),
          .inverse_deviation = inverse_deviation.data_ptr<float>()};
}

struct DropoutAddNormOp : torch::autograd::Function<DropoutAddNormOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const torch::Tensor& residual,
                               const torch::Tensor& gamma, const torch::Tensor& beta, NormSettings settings) {
    torch::Tensor sum = torch::empty_like(x), y = torch::empty_like(x);
    torch::Tensor mean = torch::empty({x.size(0)}, x.options()), inverse_deviation = torch::empty_like(mean);
    DropoutAddNorm call = NormCall(settings, sum, gamma, mean, inverse_deviation);
    call.x = x.data_ptr<float>(), call.y = y.data_ptr<float>(), call.beta = beta.data_ptr<float>();
    call.residual = settings.has_residual ? residual.data_ptr<float>() : nullptr;
    RunDropoutAddNorm(call);
    context->save_for_backward({sum, gamma, mean, inverse_deviation});
    Keep(context, std::move(settings));
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor &sum = saved[0], &gamma = saved[1], grad_y = grads[0].contiguous();
    const NormSettings& settings = GetKept<NormSettings>(context);
    const bool has_residual = settings.has_residual;
    torch::Tensor grad_x = torch::empty_like(sum), grad_residual;
    if (has_residual) grad_residual = settings.dropout.probability > 0 ? torch::empty_like(sum) : grad_x;
    const DropoutAddNorm forward = NormCall(settings, sum, gamma, saved[2], saved[3]);
    const int64_t columns = forward.columns;
    // γ's gradient and β's side by side, of the rows [begin, end), and those of the rows themselves.
    const auto run = [&](int64_t begin, int64_t end, float* to) {
      const int64_t place = begin * columns;
      RunDropoutAddNormGradient({.forward = RowsOf(forward, begin, end),
                                 .grad_y = grad_y.data_ptr<float>() + place,
                                 .grad_x = grad_x.data_ptr<float>() + place,
                                 .grad_residual = has_residual ? grad_residual.data_ptr<float>() + place : nullptr,
                                 .grad_gamma = to,
                                 .grad_beta = to + columns});
    };
    torch::Tensor sums;
    if (settings.split != nullptr) {
      sums = SumOverBlocks(*settings.split, forward.rows, 2 * columns, run);
    } else {
      sums = torch::empty({2 * columns}, gamma.options());
      run(0, forward.rows, sums.data_ptr<float>());
    }
    return {grad_x, grad_residual, sums.narrow(0, 0, columns), sums.narrow(0, columns, columns), {}};
  }
};

torch::Tensor IndexTensor(const std::vector<int32_t>& indices) {
  return torch::tensor(std::vector<int64_t>(indices.begin(), indices.end()), torch::kInt64);
}

using IndicesPtr = std::shared_ptr<const EmbeddingIndices>;

// The sums of the rows of `grad` that went to each of `rows` rows of a table.
torch::Tensor RowSums(const torch::Tensor& grad, std::span<const int32_t> targets, int64_t rows) {
  torch::Tensor sums = torch::zeros({rows, grad.size(1)}, grad.options());
  AddRowsAt(grad.data_ptr<float>(), grad.size(1), targets, sums.data_ptr<float>());
  return sums;
}

// The rows of a word table's gradient that are not zero, in torch's sparse layout: the words of the batch, ascending
// and each once, and their sums.
torch::Tensor WordGradient(const torch::Tensor& grad, const std::vector<int32_t>& ids, int32_t padding, int64_t words) {
  const UsedRows used = FindUsedRows(ids, padding);
  const torch::Tensor sums = RowSums(grad, used.places, std::ssize(used.rows)),
                      rows = IndexTensor(used.rows).unsqueeze(0);
  torch::Tensor gradient =
      at::_sparse_coo_tensor_unsafe(rows, sums, {words, grad.size(1)}, grad.options().layout(torch::kSparse));
  return gradient._coalesced_(true);
}

struct EmbeddingSumOp : torch::autograd::Function<EmbeddingSumOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& words, const torch::Tensor& positions,
                               const torch::Tensor& types, IndicesPtr indices) {
    const int64_t rows = static_cast<int64_t>(indices->words.size()), columns = words.size(1);
    torch::Tensor sum = torch::empty({rows, columns}, words.options());
    SumEmbeddings({columns, words.data_ptr<float>(), Table(types), Table(positions)},
                  {indices->words, indices->types, indices->positions}, sum.data_ptr<float>());
    context->saved_data["rows"] = std::vector<int64_t>{words.size(0), positions.size(0), types.size(0)};
    Keep(context, std::move(indices));
    return sum;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const torch::Tensor grad = grads[0].contiguous();
    const EmbeddingIndices& indices = *GetKept<IndicesPtr>(context);
    const auto rows = context->saved_data["rows"].toIntVector();
    return {WordGradient(grad, indices.words, indices.padding_word, rows[0]),
            rows[1] == 0 ? torch::Tensor()
                         : RowSums(grad, WithoutRow(indices.positions, indices.padding_position), rows[1]),
            rows[2] == 0 ? torch::Tensor() : RowSums(grad, indices.types, rows[2]),
            {}};
  }

 private:
  // torch's Function takes no undefined tensor: a table without rows stands for one that there is not.
  static const float* Table(const torch::Tensor& table) {
    return table.size(0) == 0 ? nullptr : table.data_ptr<float>();
  }
  // What no row takes where a token is of row `row`.
  static std::vector<int32_t> WithoutRow(std::vector<int32_t> targets, int32_t row) {
    if (row >= 0) std::replace(targets.begin(), targets.end(), row, -1);
    return targets;
  }
};

struct LookedUp {
  std::vector<int32_t> ids;
  int32_t padding;
  int64_t table_rows;
};

struct LookUpOp : torch::autograd::Function<LookUpOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& table, LookedUp looked_up) {
    torch::Tensor found = torch::empty({std::ssize(looked_up.ids), table.size(1)}, table.options());
    PickRows(table.data_ptr<float>(), table.size(1), looked_up.ids, found.data_ptr<float>());
    Keep(context, std::move(looked_up));
    return found;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const LookedUp& kept = GetKept<LookedUp>(context);
    return {WordGradient(grads[0].contiguous(), kept.ids, kept.padding, kept.table_rows), {}};
  }
};

}  // namespace

torch::Tensor Apply(UnaryFunction function, const torch::Tensor& x) { return ApplyOp::apply(x, function); }

torch::Tensor ApplyReference(UnaryFunction function, const torch::Tensor& x) {
  switch (function) {
    case UnaryFunction::kGelu:
      return x * 0.5 * (1.0 + torch::erf(x * std::sqrt(0.5)));
    case UnaryFunction::kGeluNew:
      return x * 0.5 * (1.0 + torch::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * torch::pow(x, 3))));
    case UnaryFunction::kRelu:
      return torch::relu(x);
    case UnaryFunction::kTanh:
      return torch::tanh(x);
    case UnaryFunction::kSilu:
      return x * torch::sigmoid(x);
    case UnaryFunction::kSigmoid:
      return torch::sigmoid(x);
  }
  Fail("unknown activation function {}", static_cast<int>(function));
}

torch::Tensor Dropout(const torch::Tensor& x, const DropoutSpec& dropout) {
  if (dropout.probability <= 0) return x;
  CheckDropout(dropout, x.size(0));
  return DropoutOp::apply(x, dropout);
}

torch::Tensor DropoutFactorsReference(const DropoutSpec& dropout, int64_t columns) {
  CheckDropout(dropout, static_cast<int64_t>(dropout.rows->positions.size()));
  return DropoutOp::Run(torch::ones({static_cast<int64_t>(dropout.rows->positions.size()), columns}), dropout);
}

torch::Tensor DropoutAddLayerNorm(torch::Tensor x, const torch::Tensor& residual, const torch::Tensor& gamma,
                                  const torch::Tensor& beta, double eps, const DropoutSpec& dropout,
                                  const TokenSplitPtr& split) {
  if (gamma.numel() != x.size(1) || beta.numel() != x.size(1) || (residual.defined() && residual.sizes() != x.sizes()))
    Fail("layer norm: {} columns, gamma has {}, beta has {}", x.size(1), gamma.numel(), beta.numel());
  CheckDropout(dropout, x.size(0));
  const bool own = x.use_count() == 1 && x.storage().use_count() == 1;
  const torch::Tensor rows = x.contiguous();
  if (!torch::GradMode::is_enabled() && dropout.probability <= 0) {  // the sum is needed no longer than its row
    torch::Tensor y = own && rows.is_same(x) ? rows : torch::empty_like(rows);
    const torch::Tensor added = residual.defined() ? residual.contiguous() : residual;
    RunDropoutAddNorm({.rows = x.size(0),
                       .columns = x.size(1),
                       .x = rows.data_ptr<float>(),
                       .residual = added.defined() ? added.data_ptr<float>() : nullptr,
                       .gamma = gamma.contiguous().data_ptr<float>(),
                       .beta = beta.contiguous().data_ptr<float>(),
                       .eps = static_cast<float>(eps),
                       .sum = y.data_ptr<float>(),
                       .y = y.data_ptr<float>()});
    return y;
  }
  return DropoutAddNormOp::apply(rows, residual.defined() ? residual.contiguous() : rows, gamma.contiguous(),
                                 beta.contiguous(),
                                 NormSettings{static_cast<float>(eps), residual.defined(), dropout, split});
}

torch::Tensor DropoutAddLayerNormReference(const torch::Tensor& x, const torch::Tensor& residual,
                                           const torch::Tensor& gamma, const torch::Tensor& beta, double eps,
                                           const torch::Tensor& factors) {
  torch::Tensor sum = factors.defined() ? x * factors : x;
  if (residual.defined()) sum = sum + residual;
  const torch::Tensor centred = sum - sum.mean(-1, true);
  const torch::Tensor variance = centred.square().mean(-1, true);
  return centred * torch::rsqrt(variance + eps) * gamma + beta;
}

torch::Tensor EmbeddingSum(const torch::Tensor& words, const torch::Tensor& positions, const torch::Tensor& types,
                           IndicesPtr indices) {
  const auto fits = [&](const torch::Tensor& table, const std::vector<int32_t>& rows) {
    return !table.defined() || rows.size() == indices->words.size();
  };
  if (!fits(positions, indices->positions) || !fits(types, indices->types))
    Fail("embeddings: {} words, {} positions, {} types", indices->words.size(), indices->positions.size(),
         indices->types.size());
  const auto table = [&](const torch::Tensor& given) {
    return given.defined() ? given.contiguous() : torch::empty({0, words.size(1)}, words.options());
  };
  return EmbeddingSumOp::apply(words.contiguous(), table(positions), table(types), std::move(indices));
}

torch::Tensor EmbeddingSumReference(const torch::Tensor& words, const torch::Tensor& positions,
                                    const torch::Tensor& types, const EmbeddingIndices& indices) {
  torch::Tensor sum = torch::embedding(words, IndexTensor(indices.words), indices.padding_word);
  if (types.defined()) sum = sum + torch::embedding(types, IndexTensor(indices.types));
  if (!positions.defined()) return sum;
  return sum + torch::embedding(positions, IndexTensor(indices.positions), indices.padding_position);
}

torch::Tensor LookUp(const torch::Tensor& table, std::vector<int32_t> ids, int32_t padding) {
  const int64_t rows = table.size(0);
  return LookUpOp::apply(table.contiguous(), LookedUp{std::move(ids), padding, rows});
}

torch::Tensor LookUpReference(const torch::Tensor& table, const std::vector<int32_t>& ids, int32_t padding) {
  return torch::embedding(table, IndexTensor(ids), padding);
}

}  // namespace lshformer
