#include "kernels/ref/cross_entropy.h"

#include <algorithm>
#include <cmath>

namespace lshformer::ref {
namespace {

// The logits of sequence b in one column.
std::vector<double> SpanColumn(std::span<const double> logits, const SpanLabels& labels, size_t b, int column) {
  std::vector<double> z;
  for (int32_t t = labels.cu_seqlens[b]; t < labels.cu_seqlens[b + 1]; ++t) z.push_back(logits[2 * t + column]);
  return z;
}

// The row of sequence b that is wanted, −1 where it is ignored.
int32_t Wanted(const SpanLabels& labels, size_t b, int column) {
  const int32_t position = std::max(0, (column == 0 ? labels.starts : labels.ends)[b]);
  return position < labels.cu_seqlens[b + 1] - labels.cu_seqlens[b] ? position : -1;
}

// Calls visit(b, column, weight) for every term of the loss, of which it is weight times.
template <class Visit>
void ForSpanTerms(const SpanLabels& labels, const Visit& visit) {
  for (int column = 0; column < 2; ++column) {
    std::vector<size_t> counted;
    for (size_t b = 0; b < labels.starts.size(); ++b)
      if (Wanted(labels, b, column) >= 0) counted.push_back(b);
    for (const size_t b : counted) visit(b, column, 0.5 / static_cast<double>(counted.size()));
  }
}

}  // namespace

double LogSumExp(std::span<const double> x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const double v : x) sum += std::exp(v - largest);
  return largest + std::log(sum);
}

double CrossEntropy(std::span<const double> logits, int32_t label) {
  return label < 0 ? 0 : LogSumExp(logits) - logits[label];
}

std::vector<double> CrossEntropyGradient(std::span<const double> logits, int32_t label) {
  std::vector<double> gradient(logits.size());
  if (label < 0) return gradient;
  const double lse = LogSumExp(logits);
  for (size_t c = 0; c < logits.size(); ++c) gradient[c] = std::exp(logits[c] - lse);
  gradient[label] -= 1;
  return gradient;
}

double SpanCrossEntropy(std::span<const double> logits, const SpanLabels& labels) {
  double loss = 0;
  ForSpanTerms(labels, [&](size_t b, int column, double weight) {
    loss += weight * CrossEntropy(SpanColumn(logits, labels, b, column), Wanted(labels, b, column));
  });
  return loss;
}

std::vector<double> SpanCrossEntropyGradient(std::span<const double> logits, const SpanLabels& labels) {
  std::vector<double> gradient(logits.size());
  ForSpanTerms(labels, [&](size_t b, int column, double weight) {
    const auto own = CrossEntropyGradient(SpanColumn(logits, labels, b, column), Wanted(labels, b, column));
    for (size_t i = 0; i < own.size(); ++i) gradient[2 * (labels.cu_seqlens[b] + i) + column] += weight * own[i];
  });
  return gradient;
}

DecoderResult DecoderCrossEntropy(const DecoderInputs& in) {
  const int64_t columns = in.columns, rows = std::ssize(in.labels);
  DecoderResult result{0, std::vector<double>(in.hidden.size()), std::vector<double>(in.weight.size()),
                       std::vector<double>(in.bias.size())};
  for (int64_t row = 0; row < rows; ++row) {
    const double* hidden = in.hidden.data() + row * columns;
    std::vector<double> logits(in.bias.begin(), in.bias.end());
    for (int64_t word = 0; word < in.words; ++word)
      for (int64_t c = 0; c < columns; ++c) logits[word] += in.weight[word * columns + c] * hidden[c];
    result.loss += CrossEntropy(logits, in.labels[row]) / static_cast<double>(rows);
    const std::vector<double> gradient = CrossEntropyGradient(logits, in.labels[row]);
    for (int64_t word = 0; word < in.words; ++word) {
      const double g = gradient[word] / static_cast<double>(rows);
      result.bias[word] += g;
      for (int64_t c = 0; c < columns; ++c) {
        result.hidden[row * columns + c] += g * in.weight[word * columns + c];
        result.weight[word * columns + c] += g * hidden[c];
      }
    }
  }
  return result;
}

}  // namespace lshformer::ref
