#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/sequences.h"

namespace lshformer {
namespace {

// Calls body(sequence, first row, rows behind the last) for each sequence.
template <class Body>
void ForSequences(std::span<const int32_t> cu_seqlens, const Body& body) {
  ParallelFor(std::ssize(cu_seqlens) - 1, 1, [&](int64_t first, int64_t last) {
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

}  // namespace

void RunSoftmaxPooling(const SoftmaxPooling& call, float* y) {
  const int64_t columns = call.columns;
  ForSequences(call.cu_seqlens, [&](int64_t b, int64_t begin, int64_t end) {
    Softmax(call.scores, begin, end, call.p);
    std::vector<double> sum(static_cast<size_t>(columns), 0.0);
    for (int64_t t = begin; t < end; ++t)
      for (int64_t c = 0; c < columns; ++c) sum[c] += double{call.p[t]} * call.x[t * columns + c];
    for (int64_t c = 0; c < columns; ++c) y[b * columns + c] = static_cast<float>(sum[c]);
  });
}

void RunSoftmaxPoolingGradient(const SoftmaxPooling& call, const float* grad_y, float* grad_scores, float* grad_x) {
  const int64_t columns = call.columns;
  const float* p = call.p;
  ForSequences(call.cu_seqlens, [&](int64_t b, int64_t begin, int64_t end) {
    const float* g = grad_y + b * columns;
    std::vector<double> products(static_cast<size_t>(end - begin), 0.0);  // g·x_t
    double mean = 0;
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t c = 0; c < columns; ++c) {
        products[t - begin] += double{g[c]} * call.x[t * columns + c];
        grad_x[t * columns + c] = p[t] * g[c];
      }
      mean += p[t] * products[t - begin];
    }
    for (int64_t t = begin; t < end; ++t) grad_scores[t] = static_cast<float>(p[t] * (products[t - begin] - mean));
  });
}

}  // namespace lshformer
