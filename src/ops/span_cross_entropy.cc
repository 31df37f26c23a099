#include "ops/span_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kColumns = 2;  // start, end

// The rows of one sequence and the one that is wanted, relative to the first; −1: ignored.
struct Rows {
  int64_t begin, count, wanted;
};

std::vector<Rows> RowsOf(const std::vector<int32_t>& cu_seqlens, const std::vector<int32_t>& positions) {
  std::vector<Rows> rows;
  for (size_t b = 0; b < positions.size(); ++b) {
    const int64_t count = cu_seqlens[b + 1] - cu_seqlens[b], position = std::max(0, positions[b]);
    rows.push_back({cu_seqlens[b], count, position < count ? position : -1});
  }
  return rows;
}

int64_t CountWanted(const std::vector<Rows>& rows) {
  return std::count_if(rows.begin(), rows.end(), [](const Rows& one) { return one.wanted >= 0; });
}

// Of one column: its part of the loss; adds to `gradient` [T, 2] where given.
double Column(const float* logits, const std::vector<Rows>& sequences, float* gradient) {
  const int64_t wanted = CountWanted(sequences);
  if (wanted == 0) return 0;
  const double scale = 1.0 / (kColumns * static_cast<double>(wanted));
  double total = 0;
  for (const Rows& rows : sequences) {
    if (rows.wanted < 0) continue;
    const float* z = logits + rows.begin * kColumns;
    double largest = z[0], sum = 0;
    for (int64_t i = 1; i < rows.count; ++i) largest = std::max<double>(largest, z[i * kColumns]);
    for (int64_t i = 0; i < rows.count; ++i) sum += std::exp(z[i * kColumns] - largest);
    total += (largest - z[rows.wanted * kColumns]) + std::log(sum);
    if (gradient == nullptr) continue;
    float* g = gradient + rows.begin * kColumns;
    for (int64_t i = 0; i < rows.count; ++i) {
      const double probability = std::exp(z[i * kColumns] - largest) / sum;
      g[i * kColumns] = static_cast<float>(scale * (probability - (i == rows.wanted ? 1 : 0)));
    }
  }
  return total * scale;
}

struct SpanCrossEntropyOp : torch::autograd::Function<SpanCrossEntropyOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& logits,
                               const std::vector<int32_t>& cu_seqlens, const std::vector<int32_t>& starts,
                               const std::vector<int32_t>& ends, bool wants_gradient) {
    torch::Tensor gradient;
    if (wants_gradient) gradient = torch::zeros_like(logits);
    double loss = 0;
    for (int64_t column = 0; column < kColumns; ++column) {
      const std::vector<Rows> rows = RowsOf(cu_seqlens, column == 0 ? starts : ends);
      loss += Column(logits.data_ptr<float>() + column, rows,
                     wants_gradient ? gradient.data_ptr<float>() + column : nullptr);
    }
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
  for (int64_t column = 0; column < kColumns; ++column) {
    const std::vector<Rows> rows = RowsOf(cu_seqlens, column == 0 ? starts : ends);
    for (const Rows& one : rows) {
      if (one.wanted < 0) continue;
      const torch::Tensor z = logits.select(1, column).narrow(0, one.begin, one.count);
      loss = loss - torch::log_softmax(z, 0)[one.wanted] / static_cast<double>(kColumns * CountWanted(rows));
    }
  }
  return loss;
}

}  // namespace lshformer
