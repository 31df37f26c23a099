#include "eval/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace lshformer {
namespace {

void CheckSizes(std::span<const int32_t> predictions, std::span<const int32_t> labels) {
  if (predictions.size() != labels.size() || labels.empty()) {
    Fail("a score needs as many predictions as labels and at least one, got {} and {}", predictions.size(),
         labels.size());
  }
}

}  // namespace

double Accuracy(std::span<const int32_t> predictions, std::span<const int32_t> labels) {
  CheckSizes(predictions, labels);
  int64_t correct = 0;
  for (size_t i = 0; i < labels.size(); ++i) correct += predictions[i] == labels[i];
  return static_cast<double>(correct) / static_cast<double>(labels.size());
}

double F1(std::span<const int32_t> predictions, std::span<const int32_t> labels, int32_t positive) {
  CheckSizes(predictions, labels);
  int64_t both = 0, either = 0;  // true positives; predicted plus actual positives
  for (size_t i = 0; i < labels.size(); ++i) {
    both += predictions[i] == positive && labels[i] == positive;
    either += (predictions[i] == positive) + (labels[i] == positive);
  }
  return either == 0 ? 0 : 2.0 * static_cast<double>(both) / static_cast<double>(either);
}

double Rounded(double value, int decimals) {
  const double scale = std::pow(10.0, decimals);
  return std::round(value * scale) / scale;
}

double Perplexity(double loss) { return std::exp(loss); }

void WeightedMean::Add(double mean, int64_t count) {
  if (count == 0) return;
  // Neumaier's summation: the error does not grow with the number of batches.
  const double term = mean * static_cast<double>(count), total = sum_ + term;
  compensation_ += std::abs(sum_) >= std::abs(term) ? (sum_ - total) + term : (term - total) + sum_;
  sum_ = total;
  count_ += count;
}

double WeightedMean::mean() const {
  if (count_ == 0) return std::numeric_limits<double>::quiet_NaN();
  return (sum_ + compensation_) / static_cast<double>(count_);
}

double CrossEntropy(std::span<const float> logits, int32_t label) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return std::log(sum) - (static_cast<double>(logits[label]) - largest);
}

int32_t ArgMax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace lshformer
