#include "base/metric_direction.h"

#include <gtest/gtest.h>

namespace lshformer {
namespace {

TEST(BetterDirectionTest, ByName) {
  EXPECT_EQ(BetterDirection("eval_accuracy"), 1);
  EXPECT_EQ(BetterDirection("train_samples_per_second"), 1);
  EXPECT_EQ(BetterDirection("eval_mlm_loss"), -1);
  EXPECT_EQ(BetterDirection("perplexity"), -1);
  EXPECT_EQ(BetterDirection("eval_HasAns_exact"), 1);
  EXPECT_EQ(BetterDirection("eval_AvNA"), 1);
  EXPECT_EQ(BetterDirection("eval_best_f1_thresh"), 0);
  EXPECT_EQ(BetterDirection("train_runtime"), -1);
  EXPECT_EQ(BetterDirection("epoch"), 0);
}

// evaluate --compare_exact writes "_exact" behind the names of what exact attention gives.
TEST(BetterDirectionTest, OfExactAttentionAsOfTheFigureItself) {
  EXPECT_EQ(BetterDirection("eval_loss_exact"), -1);
  EXPECT_EQ(BetterDirection("eval_loss_mm_exact"), -1);
  EXPECT_EQ(BetterDirection("perplexity_exact"), -1);
  EXPECT_EQ(BetterDirection("eval_accuracy_exact"), 1);
  EXPECT_EQ(BetterDirection("eval_exact"), 1);
  EXPECT_EQ(BetterDirection("eval_exact_exact"), 1);
  EXPECT_EQ(BetterDirection("eval_best_exact"), 1);
  EXPECT_EQ(BetterDirection("eval_best_exact_thresh_exact"), 0);
  EXPECT_EQ(BetterDirection("eval_cosine_to_exact_mean"), 1);
  EXPECT_EQ(BetterDirection("eval_cosine_to_exact_worst"), 1);
}

}  // namespace
}  // namespace lshformer
