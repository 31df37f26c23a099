#include "ops/attentive_pooling.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/saved_for_backward.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void Check(const torch::Tensor& scores, const torch::Tensor& x, const std::vector<int32_t>& cu_seqlens) {
  if (x.dim() != 2 || scores.dim() != 1 || scores.size(0) != x.size(0) || cu_seqlens.back() != x.size(0))
    Fail("attentive pooling: scores {} and rows {} of {} tokens", c10::str(scores.sizes()), c10::str(x.sizes()),
         cu_seqlens.back());
  for (size_t b = 0; b + 1 < cu_seqlens.size(); ++b)
    if (cu_seqlens[b + 1] <= cu_seqlens[b]) Fail("attentive pooling: sequence {} is empty", b);
}

// Calls body(sequence, first row, rows behind the last) for each sequence.
template <class Body>
void ForSequences(const std::vector<int32_t>& cu_seqlens, const Body& body) {
  ParallelFor(static_cast<int64_t>(cu_seqlens.size()) - 1, 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) body(b, cu_seqlens[b], cu_seqlens[b + 1]);
  });
}

// p of the rows [begin, end).
void Softmax(const float* scores, int64_t begin, int64_t end, float* p) {
  const double largest = *std::max_element(scores + begin, scores + end);
  double sum = 0;
  for (int64_t t = begin; t < end; ++t) sum += std::exp(scores[t] - largest);
  for (int64_t t = begin; t < end; ++t) p[t] = static_cast<float>(std::exp(scores[t] - largest) / sum);
}

struct AttentivePoolingOp : torch::autograd::Function<AttentivePoolingOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& scores, const torch::Tensor& rows,
                               const std::vector<int32_t>& cu_seqlens) {
    const torch::Tensor s = scores.contiguous(), x = rows.contiguous();
    const int64_t columns = x.size(1);
    torch::Tensor p = torch::empty_like(s);
    torch::Tensor y = torch::empty({static_cast<int64_t>(cu_seqlens.size()) - 1, columns}, x.options());
    const float *from = x.data_ptr<float>(), *score = s.data_ptr<float>();
    float *probability = p.data_ptr<float>(), *to = y.data_ptr<float>();
    ForSequences(cu_seqlens, [&](int64_t b, int64_t begin, int64_t end) {
      Softmax(score, begin, end, probability);
      std::vector<double> sum(static_cast<size_t>(columns), 0.0);
      for (int64_t t = begin; t < end; ++t)
        for (int64_t c = 0; c < columns; ++c) sum[c] += double{probability[t]} * from[t * columns + c];
      for (int64_t c = 0; c < columns; ++c) to[b * columns + c] = static_cast<float>(sum[c]);
    });
    context->save_for_backward({x, p});
    Keep(context, cu_seqlens);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor &x = saved[0], &p = saved[1], grad = grads[0].contiguous();
    const int64_t columns = x.size(1);
    torch::Tensor grad_scores = torch::empty_like(p), grad_x = torch::empty_like(x);
    const float *rows = x.data_ptr<float>(), *probability = p.data_ptr<float>(), *g = grad.data_ptr<float>();
    float *to_scores = grad_scores.data_ptr<float>(), *to_x = grad_x.data_ptr<float>();
    ForSequences(GetKept<std::vector<int32_t>>(context), [&](int64_t b, int64_t begin, int64_t end) {
      std::vector<double> products(static_cast<size_t>(end - begin), 0.0);  // g·x_t
      double mean = 0;
      for (int64_t t = begin; t < end; ++t) {
        for (int64_t c = 0; c < columns; ++c) {
          products[t - begin] += double{g[b * columns + c]} * rows[t * columns + c];
          to_x[t * columns + c] = probability[t] * g[b * columns + c];
        }
        mean += probability[t] * products[t - begin];
      }
      for (int64_t t = begin; t < end; ++t)
        to_scores[t] = static_cast<float>(probability[t] * (products[t - begin] - mean));
    });
    return {grad_scores, grad_x, {}};
  }
};

}  // namespace

torch::Tensor AttentivePooling(const torch::Tensor& scores, const torch::Tensor& x,
                               const std::vector<int32_t>& cu_seqlens) {
  Check(scores, x, cu_seqlens);
  return AttentivePoolingOp::apply(scores, x, cu_seqlens);
}

torch::Tensor AttentivePoolingReference(const torch::Tensor& scores, const torch::Tensor& x,
                                        const std::vector<int32_t>& cu_seqlens) {
  Check(scores, x, cu_seqlens);
  std::vector<torch::Tensor> pooled;
  for (size_t b = 0; b + 1 < cu_seqlens.size(); ++b) {
    const auto rows = [&](const torch::Tensor& all) { return all.slice(0, cu_seqlens[b], cu_seqlens[b + 1]); };
    pooled.push_back((torch::softmax(rows(scores), 0).unsqueeze(1) * rows(x)).sum(0));
  }
  return torch::stack(pooled);
}

}  // namespace lshformer
