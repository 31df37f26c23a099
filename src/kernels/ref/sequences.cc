#include "kernels/ref/sequences.h"

#include <algorithm>
#include <cmath>

namespace lshformer::ref {
namespace {

// Calls visit(t, j, other) for each row t and each tap j that meets a row, `other`, of t's sequence.
template <class Visit>
void ForTaps(const Convolution& in, const Visit& visit) {
  for (size_t b = 0; b + 1 < in.cu_seqlens.size(); ++b)
    for (int64_t t = in.cu_seqlens[b]; t < in.cu_seqlens[b + 1]; ++t)
      for (int64_t j = 0; j < in.width; ++j) {
        const int64_t other = t + j - (in.width - 1) / 2;
        if (other >= in.cu_seqlens[b] && other < in.cu_seqlens[b + 1]) visit(t, j, other);
      }
}

// The softmax of the scores of a sequence.
std::vector<double> Probabilities(const PoolingInputs& in, size_t b) {
  std::vector<double> p(in.scores.begin() + in.cu_seqlens[b], in.scores.begin() + in.cu_seqlens[b + 1]);
  const double largest = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& v : p) sum += v = std::exp(v - largest);
  for (double& v : p) v /= sum;
  return p;
}

}  // namespace

std::vector<double> Convolve(const Convolution& in) {
  std::vector<double> y(in.x.size());
  ForTaps(in, [&](int64_t t, int64_t j, int64_t other) {
    for (int64_t c = 0; c < in.channels; ++c)
      y[t * in.channels + c] += in.taps[j * in.channels + c] * in.x[other * in.channels + c];
  });
  return y;
}

ConvolutionGradients ConvolveGradient(const Convolution& in, std::span<const double> grad_y) {
  ConvolutionGradients grads{std::vector<double>(in.x.size()), std::vector<double>(in.taps.size())};
  ForTaps(in, [&](int64_t t, int64_t j, int64_t other) {
    for (int64_t c = 0; c < in.channels; ++c) {
      grads.x[other * in.channels + c] += in.taps[j * in.channels + c] * grad_y[t * in.channels + c];
      grads.taps[j * in.channels + c] += in.x[other * in.channels + c] * grad_y[t * in.channels + c];
    }
  });
  return grads;
}

SegmentMaxima MaxOfSegments(std::span<const int32_t> cu_segments, int64_t columns, std::span<const double> x) {
  SegmentMaxima maxima;
  for (size_t s = 0; s + 1 < cu_segments.size(); ++s) {
    for (int64_t c = 0; c < columns; ++c) {
      int32_t best = cu_segments[s];
      for (int32_t row = best + 1; row < cu_segments[s + 1]; ++row)
        if (x[row * columns + c] > x[best * columns + c]) best = row;
      maxima.y.push_back(x[best * columns + c]);
      maxima.rows.push_back(best);
    }
  }
  return maxima;
}

std::vector<double> SoftmaxPooling(const PoolingInputs& in) {
  std::vector<double> y((in.cu_seqlens.size() - 1) * in.columns);
  for (size_t b = 0; b + 1 < in.cu_seqlens.size(); ++b) {
    const std::vector<double> p = Probabilities(in, b);
    for (size_t i = 0; i < p.size(); ++i)
      for (int64_t c = 0; c < in.columns; ++c)
        y[b * in.columns + c] += p[i] * in.x[(in.cu_seqlens[b] + i) * in.columns + c];
  }
  return y;
}

PoolingGradients SoftmaxPoolingGradient(const PoolingInputs& in, std::span<const double> grad_y) {
  PoolingGradients grads;
  for (size_t b = 0; b + 1 < in.cu_seqlens.size(); ++b) {
    const std::vector<double> p = Probabilities(in, b);
    std::vector<double> products(p.size());  // grad_y_b · x_t
    double mean = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      for (int64_t c = 0; c < in.columns; ++c) {
        products[i] += grad_y[b * in.columns + c] * in.x[(in.cu_seqlens[b] + i) * in.columns + c];
        grads.x.push_back(p[i] * grad_y[b * in.columns + c]);
      }
      mean += p[i] * products[i];
    }
    for (size_t i = 0; i < p.size(); ++i) grads.scores.push_back(p[i] * (products[i] - mean));
  }
  return grads;
}

}  // namespace lshformer::ref
