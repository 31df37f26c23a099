#include "base/metric_direction.h"

#include <algorithm>
#include <array>

namespace lshformer {
namespace {

constexpr std::array kGreater{"samples_per_second",
                              "steps_per_second",
                              "tokens_per_second",
                              "accuracy",
                              "f1",
                              "matthews",
                              "pearson",
                              "spearman",
                              "combined_score",
                              "exact",
                              "AvNA",
                              "mrr",
                              "ndcg",
                              "recall"};
constexpr std::array kSmaller{"loss", "mse", "perplexity", "runtime", "pairs_fraction"};

}  // namespace

int BetterDirection(std::string_view metric) {
  // A figure of exact attention ("eval_loss_exact"), where what stands before is a figure: "eval_exact" is its own
  // name.
  constexpr std::string_view kOfExact = "_exact";
  if (metric.ends_with(kOfExact))
    if (const int own = BetterDirection(metric.substr(0, metric.size() - kOfExact.size())); own != 0) return own;
  const auto in = [metric](const char* part) { return metric.find(part) != metric.npos; };
  if (in("thresh")) return 0;
  if (std::any_of(kGreater.begin(), kGreater.end(), in)) return 1;
  return std::any_of(kSmaller.begin(), kSmaller.end(), in) ? -1 : 0;
}

}  // namespace lshformer
