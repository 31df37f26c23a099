// What the runs of one job with several seeds have in common.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "base/json.h"
#include "report/table.h"

namespace lshformer {

struct SeedResult {
  uint64_t seed = 0;
  Json metrics;  // as in all_results.json of its run
};

// What output_dir/all_results.json holds of several runs: "seeds"; for train_loss and every metric of the evaluation
// {"mean", "std", "best", "best_seed", "values"}, values in order of the seeds and std = √(Σ (x − mean)² / (n − 1));
// "metric_for_best_model", and by it "best_seed", "best_metric" and "best_model", the folder of that run. null stands
// for what is undefined: a mean with a value that is none, the deviation of one value. Rates, times and counts are no
// metrics. `metric` "": the first that there is of Matthews' correlation, the combined score, perplexity, F1, accuracy
// and loss. Of equal values the first is the best.
Json SummarizeSeeds(std::span<const SeedResult> results, const std::string& metric, const std::string& output_dir);

// A line a metric: mean, deviation, best, its seed; at the end the best run.
Table SeedsTable(const Json& summary);
std::string SeedsText(const Json& summary);  // the table, and where the best model is

}  // namespace lshformer
