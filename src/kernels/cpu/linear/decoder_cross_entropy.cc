#include "kernels/decoder_cross_entropy.h"

#include <algorithm>
#include <vector>

#include "kernels/cross_entropy.h"
#include "kernels/linear.h"
#include "kernels/low_precision.h"
#include "kernels/rows.h"
#include "kernels/work_memory.h"

namespace lshformer {
namespace {

// Words per product: a block of logits and its part of W stay in the cache between the three products that use it.
constexpr int64_t kWordBlock = 2048;

// The gradient of a block of logits as a factor: itself, or rounded.
MatrixView GradientFactor(const float* gradient, int64_t words, int64_t, int64_t, std::vector<float>&) {
  return {gradient, words, 1};
}
MatrixOf<BFloat16> GradientFactor(const float* gradient, int64_t words, int64_t rows, int64_t count,
                                  std::vector<BFloat16>& rounded) {
  rounded.resize(static_cast<size_t>(rows * count));
  RoundRows(gradient, words, rows, count, rounded.data());
  return {rounded.data(), count, 1};
}

// Logits of `rows` rows from row `first` on.
template <class T>
void Logits(const DecoderLoss<T>& call, int64_t first, int64_t rows, float* logits) {
  const int64_t columns = call.columns, words = call.words;
  for (int64_t word = 0; word < words; word += kWordBlock) {
    MultiplyInTraining(ProductOf<T>{.rows = rows,
                                    .columns = std::min(kWordBlock, words - word),
                                    .inner = columns,
                                    .a = {call.hidden + first * columns, columns, 1},
                                    .b = {call.weight + word * columns, 1, columns},
                                    .bias = call.bias + word,
                                    .c = logits + word,
                                    .c_stride = words});
  }
}

// Rows [first, first + rows): returns their losses' sum and, where `gradients` is given, fills them in.
template <class T>
double Block(const DecoderLoss<T>& call, int64_t first, int64_t rows, float scale, float* logits,
             const DecoderGradients* gradients) {
  const int64_t columns = call.columns, words = call.words;
  const int32_t* labels = call.labels.data() + first;
  Logits(call, first, rows, logits);
  std::vector<float> loss(rows), lse(rows);
  CrossEntropy(logits, rows, words, labels, loss.data(), lse.data());
  double total = 0;
  for (const float l : loss) total += l;
  if (gradients == nullptr) return total;
  std::vector<float> bias_part(kWordBlock);
  std::vector<T> low;
  for (int64_t word = 0; word < words; word += kWordBlock) {
    const int64_t count = std::min(kWordBlock, words - word);
    CrossEntropyGradient(logits, words, rows, word, count, labels, lse.data(), scale);
    const MatrixOf<T> factor = GradientFactor(logits + word, words, rows, count, low);
    MultiplyInTraining(ProductOf<T>{.rows = rows,
                                    .columns = columns,
                                    .inner = count,
                                    .a = factor,
                                    .b = {call.weight + word * columns, columns, 1},
                                    .c = gradients->hidden + first * columns,
                                    .c_stride = columns,
                                    .accumulate = word > 0});
    MultiplyInTraining(ProductOf<T>{.rows = count,
                                    .columns = columns,
                                    .inner = rows,
                                    .a = {factor.data, 1, factor.row_stride},
                                    .b = {call.hidden + first * columns, columns, 1},
                                    .c = gradients->weight + word * columns,
                                    .c_stride = columns,
                                    .accumulate = first > 0,
                                    .inner_is_tokens = true});
    SumRows(logits + word, words, rows, count, bias_part.data());
    float* sums = gradients->bias + word;
    for (int64_t i = 0; i < count; ++i) sums[i] = (first > 0 ? sums[i] : 0.0f) + bias_part[i];
  }
  return total;
}

}  // namespace

template <class T>
double RunDecoderLoss(const DecoderLoss<T>& call, const DecoderGradients* gradients) {
  const int64_t rows = std::ssize(call.labels), block = std::min(rows, kCrossEntropyRows);
  if (rows == 0) {
    if (gradients != nullptr) {
      std::fill_n(gradients->weight, call.words * call.columns, 0.0f);
      std::fill_n(gradients->bias, call.words, 0.0f);
    }
    return 0;
  }
  float* logits = WorkspaceOf(WorkspaceUse::kLogits, block * call.words * sizeof(float));
  double total = 0;
  for (int64_t first = 0; first < rows; first += block)
    total += Block(call, first, std::min(block, rows - first), 1.0f / static_cast<float>(rows), logits, gradients);
  return total / static_cast<double>(rows);
}

template double RunDecoderLoss(const DecoderLoss<float>&, const DecoderGradients*);
template double RunDecoderLoss(const DecoderLoss<BFloat16>&, const DecoderGradients*);

}  // namespace lshformer
