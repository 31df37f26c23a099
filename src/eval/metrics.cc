#include "eval/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"

namespace lshformer {
namespace {

template <class T>
void CheckSizes(std::span<const T> predictions, std::span<const T> labels) {
  if (predictions.size() != labels.size() || labels.empty()) {
    Fail("a score needs as many predictions as labels and at least one, got {} and {}", predictions.size(),
         labels.size());
  }
}

// From 1; equal values share the mean of their ranks.
std::vector<double> Ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [values](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    for (end = begin + 1; end < order.size() && values[order[end]] == values[order[begin]];) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end + 1) / 2;
  }
  return ranks;
}

// Less their mean, and of length 1; empty if they are all equal.
std::vector<double> Direction(std::span<const double> values) {
  if (std::all_of(values.begin(), values.end(), [values](double x) { return x == values[0]; })) return {};
  // As distances from one of them: far from zero a mean of the values themselves would be off by as much as they
  // differ.
  const long double origin = values[0];
  long double mean = 0;
  for (const double x : values) mean += (x - origin) / static_cast<long double>(values.size());
  std::vector<double> direction;
  direction.reserve(values.size());
  for (const double x : values) direction.push_back(static_cast<double>((x - origin) - mean));
  double largest = 0, square = 0;
  for (const double x : direction) largest = std::max(largest, std::abs(x));
  for (double& x : direction) square += (x / largest) * (x / largest);  // no overflow whatever the size
  for (double& x : direction) x = x / largest / std::sqrt(square);
  return direction;
}

}  // namespace

double Matthews(std::span<const int32_t> predictions, std::span<const int32_t> labels) {
  CheckSizes(predictions, labels);
  std::map<int32_t, std::pair<double, double>> counts;  // class → predicted, actual
  double correct = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    ++counts[predictions[i]].first;
    ++counts[labels[i]].second;
    correct += predictions[i] == labels[i];
  }
  double both = 0, predicted = 0, actual = 0;
  for (const auto& [id, count] : counts) {
    both += count.first * count.second;
    predicted += count.first * count.first;
    actual += count.second * count.second;
  }
  const double n = static_cast<double>(labels.size()), scale = (n * n - predicted) * (n * n - actual);
  return scale == 0 ? 0 : (n * correct - both) / std::sqrt(scale);
}

double Pearson(std::span<const double> x, std::span<const double> y) {
  CheckSizes(x, y);
  const std::vector<double> a = Direction(x), b = Direction(y);
  if (a.empty() || b.empty()) return std::numeric_limits<double>::quiet_NaN();
  if (a.size() == 2) return a[0] * b[0] > 0 ? 1 : -1;  // two points lie on a line, as SciPy has it too
  return std::clamp(std::inner_product(a.begin(), a.end(), b.begin(), 0.0), -1.0, 1.0);
}

double Spearman(std::span<const double> x, std::span<const double> y) {
  CheckSizes(x, y);
  return Pearson(Ranks(x), Ranks(y));
}

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

FlagScores ScoreFlags(std::span<const uint8_t> predictions, std::span<const uint8_t> truth, int64_t labels) {
  CheckSizes(predictions, truth);
  const auto width = static_cast<size_t>(labels), rows = truth.size() / width;
  struct Counts {
    int64_t both = 0, either = 0;  // true positives; predicted plus actual ones
    double f1() const { return either == 0 ? 0 : 2.0 * static_cast<double>(both) / static_cast<double>(either); }
  };
  std::vector<Counts> counts(width);
  int64_t exact = 0;
  for (size_t row = 0; row < rows; ++row) {
    bool same = true;
    for (size_t label = 0; label < width; ++label) {
      const uint8_t predicted = predictions[row * width + label], actual = truth[row * width + label];
      counts[label].both += predicted & actual;
      counts[label].either += predicted + actual;
      same &= predicted == actual;
    }
    exact += same;
  }
  Counts all;
  double sum = 0;
  for (const Counts& label : counts) {
    all.both += label.both;
    all.either += label.either;
    sum += label.f1();
  }
  return {all.f1(), sum / static_cast<double>(width), static_cast<double>(exact) / static_cast<double>(rows)};
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
