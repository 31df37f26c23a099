#include "ops/cross_entropy.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/amx_linear.h"
#include "kernels/low_precision.h"
#include "kernels/matmul.h"
#include "kernels/rows.h"
#include "kernels/split_linear.h"
#include "kernels/work_memory.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Words per product: a block of logits and its part of W stay in the cache between the three products that use it.
constexpr int64_t kWordBlock = 2048;

struct Gradients {
  torch::Tensor hidden, weight, bias;
};

void Run(const MatrixProduct& product) { MultiplyInParts(product); }
void Run(const ProductOf<BFloat16>& product) { MultiplyRounded(product); }

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

// hidden and weight in the type that is multiplied; both contiguous.
template <class T>
struct DecoderFactors {
  const T* hidden;
  const T* weight;
  const float* bias;
  int64_t columns, words;
};

// Logits of `rows` rows from row `first` on.
template <class T>
void Logits(const DecoderFactors<T>& factors, int64_t first, int64_t rows, float* logits) {
  const int64_t columns = factors.columns, words = factors.words;
  for (int64_t word = 0; word < words; word += kWordBlock) {
    Run(ProductOf<T>{.rows = rows,
                     .columns = std::min(kWordBlock, words - word),
                     .inner = columns,
                     .a = {factors.hidden + first * columns, columns, 1},
                     .b = {factors.weight + word * columns, 1, columns},
                     .bias = factors.bias + word,
                     .c = logits + word,
                     .c_stride = words});
  }
}

// Rows [first, first + rows): adds to the loss and, where `gradients` is given, fills them in.
template <class T>
double Block(const DecoderFactors<T>& factors, const int32_t* labels, int64_t first, int64_t rows, float scale,
             float* logits, Gradients* gradients) {
  const int64_t columns = factors.columns, words = factors.words;
  Logits(factors, first, rows, logits);
  std::vector<float> loss(rows), lse(rows);
  CrossEntropy(logits, rows, words, labels + first, loss.data(), lse.data());
  double total = 0;
  for (const float l : loss) total += l;
  if (gradients == nullptr) return total;
  std::vector<float> bias_part(kWordBlock);
  std::vector<T> low;
  for (int64_t word = 0; word < words; word += kWordBlock) {
    const int64_t count = std::min(kWordBlock, words - word);
    CrossEntropyGradient(logits, words, rows, word, count, labels + first, lse.data(), scale);
    const MatrixOf<T> factor = GradientFactor(logits + word, words, rows, count, low);
    Run(ProductOf<T>{.rows = rows,
                     .columns = columns,
                     .inner = count,
                     .a = factor,
                     .b = {factors.weight + word * columns, columns, 1},
                     .c = gradients->hidden.data_ptr<float>() + first * columns,
                     .c_stride = columns,
                     .accumulate = word > 0});
    Run(ProductOf<T>{.rows = count,
                     .columns = columns,
                     .inner = rows,
                     .a = {factor.data, 1, factor.row_stride},
                     .b = {factors.hidden + first * columns, columns, 1},
                     .c = gradients->weight.data_ptr<float>() + word * columns,
                     .c_stride = columns,
                     .accumulate = first > 0,
                     .inner_is_tokens = true});
    SumRows(logits + word, words, rows, count, bias_part.data());
    float* sums = gradients->bias.data_ptr<float>() + word;
    for (int64_t i = 0; i < count; ++i) sums[i] = (first > 0 ? sums[i] : 0.0f) + bias_part[i];
  }
  return total;
}

template <class T>
double AllBlocks(const DecoderFactors<T>& factors, const std::vector<int32_t>& labels, Gradients* gradients) {
  const auto rows = static_cast<int64_t>(labels.size());
  const int64_t block = std::min(rows, kCrossEntropyRows);
  float* logits = WorkspaceOf(WorkspaceUse::kLogits, block * factors.words * sizeof(float));
  double total = 0;
  for (int64_t first = 0; first < rows; first += block)
    total += Block(factors, labels.data(), first, std::min(block, rows - first), 1.0f / static_cast<float>(rows),
                   logits, gradients);
  return total;
}

std::vector<BFloat16> Rounded(const torch::Tensor& x) {
  std::vector<BFloat16> rounded(static_cast<size_t>(x.numel()));
  RoundRows(x.data_ptr<float>(), x.size(1), x.size(0), x.size(1), rounded.data());
  return rounded;
}

struct DecoderCrossEntropyOp : torch::autograd::Function<DecoderCrossEntropyOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& hidden, const torch::Tensor& weight,
                               const torch::Tensor& bias, const std::vector<int32_t>& labels, bool wants_gradients,
                               bool bf16) {
    const int64_t rows = hidden.size(0), columns = hidden.size(1), words = weight.size(0);
    Gradients gradients;
    if (wants_gradients) {
      gradients = {torch::empty_like(hidden), torch::empty_like(weight), torch::empty_like(bias)};
      if (rows == 0) gradients.weight.zero_(), gradients.bias.zero_();
    }
    Gradients* wanted = wants_gradients ? &gradients : nullptr;
    double total = 0;
    if (bf16) {
      const std::vector<BFloat16> h = Rounded(hidden), w = Rounded(weight);
      total = AllBlocks<BFloat16>({h.data(), w.data(), bias.data_ptr<float>(), columns, words}, labels, wanted);
    } else {
      total = AllBlocks<float>(
          {hidden.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), columns, words}, labels, wanted);
    }
    if (wants_gradients) context->save_for_backward({gradients.hidden, gradients.weight, gradients.bias});
    return torch::full({}, rows == 0 ? 0.0 : total / static_cast<double>(rows), hidden.options());
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const float scale = grads[0].item<float>();
    if (scale == 1.0f) return {saved[0], saved[1], saved[2], {}, {}, {}};
    return {saved[0] * scale, saved[1] * scale, saved[2] * scale, {}, {}, {}};
  }
};

torch::Tensor IndexTensor(const std::vector<int32_t>& labels) {
  return torch::tensor(std::vector<int64_t>(labels.begin(), labels.end()), torch::kInt64);
}

}  // namespace

torch::Tensor DecoderCrossEntropy(const torch::Tensor& hidden, const torch::Tensor& weight, const torch::Tensor& bias,
                                  const std::vector<int32_t>& labels, Precision precision) {
  if (precision == Precision::kInt8) Fail("cross-entropy: int8 has no gradients");
  if (static_cast<int64_t>(labels.size()) != hidden.size(0) || weight.size(1) != hidden.size(1) ||
      bias.numel() != weight.size(0))
    Fail("cross-entropy: {} labels, hidden {}, weight {}", labels.size(), c10::str(hidden.sizes()),
         c10::str(weight.sizes()));
  for (const int32_t label : labels)
    if (label < 0 || label >= weight.size(0)) Fail("label {}: expected 0 to {}", label, weight.size(0) - 1);
  const bool wants_gradients =
      torch::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad() || bias.requires_grad());
  return DecoderCrossEntropyOp::apply(hidden.contiguous(), weight.contiguous(), bias.contiguous(), labels,
                                      wants_gradients, precision == Precision::kBFloat16);
}

torch::Tensor DecoderCrossEntropyReference(const torch::Tensor& hidden, const torch::Tensor& weight,
                                           const torch::Tensor& bias, const std::vector<int32_t>& labels) {
  const torch::Tensor logits = torch::matmul(hidden, weight.t()) + bias;
  const torch::Tensor chosen = logits.gather(1, IndexTensor(labels).unsqueeze(1)).squeeze(1);
  return (torch::logsumexp(logits, 1) - chosen).mean();
}

double CrossEntropyLoss(const torch::Tensor& logits, const std::vector<int32_t>& labels) {
  const torch::Tensor rows = logits.contiguous();
  std::vector<float> loss(labels.size()), lse(labels.size());
  CrossEntropy(rows.data_ptr<float>(), rows.size(0), rows.size(1), labels.data(), loss.data(), lse.data());
  double total = 0;
  int64_t counted = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0) continue;
    total += loss[i];
    ++counted;
  }
  return counted == 0 ? 0.0 : total / static_cast<double>(counted);
}

}  // namespace lshformer
