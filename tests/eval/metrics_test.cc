#include "eval/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

TEST(Metrics, AgreeWithHandCounts) {
  const Ids labels{1, 1, 1, 0, 0, 1, 0, 1}, predictions{1, 0, 1, 1, 0, 1, 0, 0};
  EXPECT_DOUBLE_EQ(Accuracy(predictions, labels), 5.0 / 8);
  // tp 3, fp 1, fn 2: precision 3/4, recall 3/5.
  EXPECT_DOUBLE_EQ(F1(predictions, labels), 2 * 0.75 * 0.6 / (0.75 + 0.6));
  // As class 0: tp 2, fp 2, fn 1.
  EXPECT_DOUBLE_EQ(F1(predictions, labels, 0), 4.0 / 7);
}

// MRPC dev: 279 of 408 are paraphrases. The majority baseline has F1 2·279 / (279 + 408) = 0.8122 (scikit-learn's
// f1_score).
TEST(Metrics, MajorityBaselineOfMrpc) {
  Ids labels(408, 0);
  std::fill_n(labels.begin(), 279, 1);
  const Ids ones(408, 1);
  EXPECT_NEAR(Accuracy(ones, labels), 0.683824, 1e-6);
  EXPECT_NEAR(F1(ones, labels), 0.812227, 1e-6);
}

TEST(Metrics, UndefinedF1IsZero) {
  EXPECT_EQ(F1(Ids{0, 0}, Ids{0, 0}), 0);
  EXPECT_EQ(F1(Ids{0, 0}, Ids{1, 0}), 0);
  EXPECT_EQ(F1(Ids{1, 0}, Ids{0, 0}), 0);
  EXPECT_EQ(F1(Ids{1}, Ids{1}), 1);
}

// Expected: sklearn.metrics.f1_score with average micro and macro, accuracy_score of the rows.
TEST(Metrics, SetsOfLabels) {
  using Flags = std::vector<uint8_t>;
  const Flags truth{1, 0, 1, 0, /**/ 0, 0, 0, 0, /**/ 1, 1, 0, 0, /**/ 0, 1, 1, 0};
  const Flags predicted{1, 0, 1, 0, /**/ 0, 1, 0, 0, /**/ 1, 0, 0, 0, /**/ 0, 1, 0, 0};
  const FlagScores scores = ScoreFlags(predicted, truth, 4);
  EXPECT_DOUBLE_EQ(scores.accuracy, 1.0 / 4);
  EXPECT_DOUBLE_EQ(scores.f1_micro, 2 * 4.0 / (5 + 6));                // tp 4, predicted 5, actual 6
  EXPECT_DOUBLE_EQ(scores.f1_macro, (1 + 2.0 / 4 + 2.0 / 3 + 0) / 4);  // the last label is nowhere: 0
  const FlagScores none = ScoreFlags(Flags{0, 0}, Flags{0, 0}, 2);
  EXPECT_EQ(none.f1_micro, 0);
  EXPECT_EQ(none.f1_macro, 0);
  EXPECT_EQ(none.accuracy, 1) << "the empty set is a set";
}

// Expected: sklearn.metrics.matthews_corrcoef.
TEST(Metrics, MatthewsOfTwoAndMoreClasses) {
  EXPECT_NEAR(Matthews(Ids{1, 0, 1, 1, 0, 1, 0, 0}, Ids{1, 1, 1, 0, 0, 1, 0, 1}), 0.2581988897471611, 1e-15);
  EXPECT_NEAR(Matthews(Ids{0, 2, 1, 2, 2, 0, 1}, Ids{0, 1, 1, 2, 0, 0, 2}), 0.375, 1e-15);
  EXPECT_NEAR(Matthews(Ids{3, 3, 0, 1}, Ids{0, 1, 0, 1}), 0.4472135954999579, 1e-15);  // a class that no label has
  EXPECT_EQ(Matthews(Ids{1, 1, 1}, Ids{1, 0, 1}), 0);
  EXPECT_EQ(Matthews(Ids{1, 0}, Ids{0, 1}), -1);
  EXPECT_EQ(Matthews(Ids{1}, Ids{1}), 0);
}

// Expected: scipy.stats.pearsonr and spearmanr.
TEST(Metrics, CorrelationsWithTiesAndExtremes) {
  using Values = std::vector<double>;
  const Values x{1, 2, 2, 3.5, -1, 2, 7}, y{0.5, 2, 1, 1, -3, 4, 1};
  EXPECT_NEAR(Pearson(x, y), 0.41068272411694834, 1e-15);
  EXPECT_NEAR(Spearman(x, y), 0.5, 1e-15);
  const Values binary{1, 0, 1, 1, 0, 1, 0, 0}, other{1, 1, 1, 0, 0, 1, 0, 1};
  EXPECT_NEAR(Pearson(binary, other), 0.25819888974716115, 1e-15);
  EXPECT_NEAR(Spearman(binary, other), 0.2581988897471611, 1e-15);
  const Values huge{1e300, -1e300, 5e299}, near{1e9 + 1, 1e9 + 2, 1e9 + 4};
  EXPECT_NEAR(Pearson(huge, near), -0.05241424183609593, 1e-12);
  EXPECT_NEAR(Spearman(Values{1, 2}, Values{5, 9}), 1, 1e-15);
  EXPECT_EQ(Pearson(Values{1, 1 + 1e-15}, Values{0.1, 0.7}), 1);
  EXPECT_EQ(Pearson(Values{1, 2}, Values{0.3, 0.1}), -1);
  Values far;  // x, far from zero in steps that double can just hold
  for (const double value : x) far.push_back(1048576 + std::ldexp(value, -30));
  EXPECT_NEAR(Pearson(far, y), Pearson(x, y), 1e-13);
  EXPECT_TRUE(std::isnan(Pearson(x, Values(7, 0.1))));
  EXPECT_TRUE(std::isnan(Spearman(Values(7, 3), y)));
  EXPECT_TRUE(std::isnan(Pearson(Values{1}, Values{1})));
}

TEST(Metrics, RefuseNothingAndUnequalSizes) {
  EXPECT_THAT(ErrorOf([] { Accuracy(Ids{}, Ids{}); }), HasSubstr("at least one, got 0 and 0"));
  EXPECT_THAT(ErrorOf([] { F1(Ids{1}, Ids{1, 0}); }), HasSubstr("got 1 and 2"));
}

// The BERT-LSH paper's Table 2.
TEST(Metrics, PerplexityOfThePaper) {
  EXPECT_NEAR(Perplexity(5.330834), 206.610, 1e-3);
  EXPECT_NEAR(Perplexity(5.495479), 243.588, 1e-3);
  EXPECT_EQ(Perplexity(0), 1);
  EXPECT_EQ(Perplexity(1e6), std::numeric_limits<double>::infinity());
}

TEST(WeightedMean, WeighsBatchesByTheirItems) {
  WeightedMean mean;
  EXPECT_TRUE(std::isnan(mean.mean()));
  mean.Add(2, 3);
  mean.Add(std::nan(""), 0);  // a batch without labelled items says nothing
  mean.Add(10, 1);
  EXPECT_DOUBLE_EQ(mean.mean(), 4);
  EXPECT_EQ(mean.count(), 4);
}

TEST(WeightedMean, DoesNotLoseSmallTermsBesideALargeOne) {
  WeightedMean mean;
  mean.Add(1e16, 1);
  for (int i = 0; i < 1000000; ++i) mean.Add(1, 1);
  mean.Add(-1e16, 1);
  EXPECT_DOUBLE_EQ(mean.mean() * static_cast<double>(mean.count()), 1e6);
}

TEST(CrossEntropy, IsStable) {
  const std::vector<float> logits{1, 2, 3};
  // torch.nn.functional.cross_entropy(torch.tensor([[1., 2., 3.]]), torch.tensor([0])) = 2.4076059644
  EXPECT_NEAR(CrossEntropy(logits, 0), 2.40760596444438, 1e-12);
  EXPECT_NEAR(CrossEntropy(logits, 2), 0.40760596444438, 1e-12);
  const std::vector<float> huge{1e4f, -1e4f, 1e4f};
  EXPECT_NEAR(CrossEntropy(huge, 0), std::log(2), 1e-12);
  EXPECT_NEAR(CrossEntropy(huge, 1), 2e4 + std::log(2), 1e-9);
  const std::vector<float> one{-5};
  EXPECT_EQ(CrossEntropy(one, 0), 0);
}

TEST(ArgMax, TakesTheFirstOfEquals) {
  const std::vector<float> logits{0, 3, 3, -1};
  EXPECT_EQ(ArgMax(logits), 1);
}

}  // namespace
}  // namespace lshformer
