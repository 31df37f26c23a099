// The oracle of kernels/cross_entropy.h and kernels/decoder_cross_entropy.h in double.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lshformer::ref {

double LogSumExp(std::span<const double> x);

// Of one row; label < 0: 0.
double CrossEntropy(std::span<const double> logits, int32_t label);
std::vector<double> CrossEntropyGradient(std::span<const double> logits, int32_t label);

struct SpanLabels {
  std::span<const int32_t> cu_seqlens, starts, ends;
};
// logits: [T, 2]
double SpanCrossEntropy(std::span<const double> logits, const SpanLabels& labels);
std::vector<double> SpanCrossEntropyGradient(std::span<const double> logits, const SpanLabels& labels);

struct DecoderInputs {
  int64_t columns = 0, words = 0;
  std::span<const double> hidden, weight, bias;
  std::span<const int32_t> labels;
};
struct DecoderResult {
  double loss = 0;
  std::vector<double> hidden, weight, bias;  // gradients of the loss
};
DecoderResult DecoderCrossEntropy(const DecoderInputs& in);

}  // namespace lshformer::ref
