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

}  // namespace
}  // namespace lshformer
