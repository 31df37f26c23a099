// Figures of merit on plain arrays.
#pragma once
#include <cstdint>
#include <span>

namespace lshformer {

// correct / n. Both [n], n ≥ 1; Error if the sizes differ or n = 0.
double Accuracy(std::span<const int32_t> predictions, std::span<const int32_t> labels);

// F1 of class `positive`: 2·tp / (2·tp + fp + fn); 0 where undefined, as scikit-learn and the GLUE scripts have it.
double F1(std::span<const int32_t> predictions, std::span<const int32_t> labels, int32_t positive = 1);

// Of sets of labels as flags, both [n, labels]: F1 over all of them together (micro), the mean of each label's F1
// (macro, 0 for a label that is nowhere, as scikit-learn has it), and the share of rows that are right in every label.
struct FlagScores {
  double f1_micro, f1_macro, accuracy;
};
FlagScores ScoreFlags(std::span<const uint8_t> predictions, std::span<const uint8_t> truth, int64_t labels);

// Matthews' correlation of any number of classes (Gorodkin's R_K, as scikit-learn has it): with the confusion matrix C,
// row sums t, column sums p and n items, (n·tr C − t·p) / √((n² − p·p)(n² − t·t)); 0 where that is undefined.
double Matthews(std::span<const int32_t> predictions, std::span<const int32_t> labels);

// Pearson's correlation; Spearman's is that of the ranks, equal values share their mean rank. NaN for fewer than two
// items or where one side is constant.
double Pearson(std::span<const double> x, std::span<const double> y);
double Spearman(std::span<const double> x, std::span<const double> y);

// exp(mean cross-entropy); +inf where that overflows.
double Perplexity(double loss);

// Mean of per-item losses given as batch means: Σ mean_b · count_b / Σ count_b, with compensated summation.
class WeightedMean {
 public:
  void Add(double mean, int64_t count);
  double mean() const;  // NaN if nothing was added
  int64_t count() const { return count_; }

 private:
  double sum_ = 0, compensation_ = 0;
  int64_t count_ = 0;
};

// HF rounds its rates: to `decimals` digits after the point.
double Rounded(double value, int decimals);

// Cross-entropy −log softmax(logits)[label] of one row, through the largest logit. logits: [n], 0 ≤ label < n.
double CrossEntropy(std::span<const float> logits, int32_t label);
int32_t ArgMax(std::span<const float> logits);  // the first of equals

}  // namespace lshformer
