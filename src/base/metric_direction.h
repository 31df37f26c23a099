// Which values of a metric are better, by its name: for the best checkpoint, and for what a report marks.
#pragma once
#include <string_view>

namespace lshformer {

// 1: the greater (accuracy, F1, correlations, rates per second), −1: the smaller (losses, perplexity, mse, runtimes),
// 0: neither is known to be.
int BetterDirection(std::string_view metric);

}  // namespace lshformer
