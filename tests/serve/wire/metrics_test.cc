#include "serve/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

namespace lshformer {
namespace {

using ::testing::HasSubstr;

TEST(HistogramTest, BucketsAreCumulativeAndEndWithAll) {
  Histogram histogram({1, 2, 4});
  for (const double value : {0.5, 1.0, 1.5, 4.0, 100.0}) histogram.Add(value);
  std::string text;
  histogram.Write("x", "help", text);
  EXPECT_EQ(text,
            "# HELP x help\n# TYPE x histogram\nx_bucket{le=\"1\"} 2\nx_bucket{le=\"2\"} 3\nx_bucket{le=\"4\"} 4\n"
            "x_bucket{le=\"+Inf\"} 5\nx_sum 107\nx_count 5\n");
}

TEST(ServeMetricsTest, HasTheNamesThatDashboardsAskFor) {
  ServeMetrics metrics;
  metrics.Request(false);
  metrics.Request(true);
  metrics.Success(true, {.total = 0.01, .tokenization = 0.001, .queue = 0.002, .inference = 0.005});
  metrics.Failure("overloaded");
  metrics.Input(12);
  metrics.Batch(3, 36, 1000);
  const std::string text = metrics.Text({.waiting = 7, .running = 2, .connections = 1});
  for (const char* line :
       {"te_request_count{method=\"single\"} 1\n", "te_request_count{method=\"batch\"} 1\n",
        "te_request_success{method=\"single\"} 0\n", "te_request_success{method=\"batch\"} 1\n",
        "te_request_failure{err=\"overloaded\"} 1\n", "te_request_duration_count 1\n", "te_request_duration_sum 0.01\n",
        "te_request_tokenization_duration_count 1\n", "te_request_queue_duration_count 1\n",
        "te_request_inference_duration_count 1\n", "te_request_input_length_sum 12\n", "te_batch_next_size_sum 3\n",
        "te_batch_next_tokens_sum 36\n", "te_queue_size 7\n", "lshformer_attention_pairs_total 1000\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

// Every line is a comment or a name with a number, and no series is there twice.
TEST(ServeMetricsTest, IsTextThatPrometheusReads) {
  ServeMetrics metrics;
  metrics.Failure("validation");
  std::istringstream lines(metrics.Text({}));
  std::set<std::string> series;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) continue;
    const size_t space = line.rfind(' ');
    ASSERT_NE(space, std::string::npos) << line;
    EXPECT_TRUE(series.insert(line.substr(0, space)).second) << line;
    size_t read = 0;
    EXPECT_NO_THROW(std::stod(line.substr(space + 1), &read)) << line;
    EXPECT_EQ(read, line.size() - space - 1) << line;
  }
  EXPECT_GT(series.size(), 100U);
  EXPECT_LT(series.size(), 250U);
}

}  // namespace
}  // namespace lshformer
