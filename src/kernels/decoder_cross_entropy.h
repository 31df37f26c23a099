// The masked-LM loss without keeping logits: decoder and softmax cross-entropy together.
//
//   loss = 1/n Σ_i (logsumexp(z_i) − z_i[label_i]),   z_i = W · hidden_i + bias
//
// hidden: [n, H]; W: [V, H] (the tied word embeddings); bias: [V]; labels in [0, V), one per row; all contiguous. n =
// 0: loss 0. Gradients are formed at once, in place of the logits: of n × V numbers only one block of at most
// kCrossEntropyRows rows is ever held, which is the work memory.
//
// T: float, or numbers that the caller has rounded to bfloat16: products then take hidden, W and the gradient of z
// rounded; sums, the softmax and all results are float32. Products are those of kernels/linear.h, and so is what a
// result depends on. Throws nothing: shapes and labels are checked one level up.
#pragma once
#include <cstdint>
#include <span>

namespace lshformer {

inline constexpr int64_t kCrossEntropyRows = 1024;  // 131 MB for 32,000 words

template <class T>  // float, BFloat16
struct DecoderLoss {
  const T* hidden = nullptr;
  const T* weight = nullptr;
  const float* bias = nullptr;
  int64_t columns = 0, words = 0;  // H, V
  std::span<const int32_t> labels;
};
struct DecoderGradients {
  float* hidden = nullptr;  // [n, H], as the others overwritten
  float* weight = nullptr;  // [V, H]
  float* bias = nullptr;    // [V]
};
// Returns the loss; gradients: nullptr where they are not wanted.
template <class T>
double RunDecoderLoss(const DecoderLoss<T>& call, const DecoderGradients* gradients);

}  // namespace lshformer
