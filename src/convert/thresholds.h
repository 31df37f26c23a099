// Thresholds of clustered attention that open as many clusters on average as `open` says (docs/attention.md, "By a
// threshold").
#pragma once
#include <vector>

#include "convert/calibration.h"

namespace lshformer {

// For each spec, clustered and of all heads alike, the threshold with which it computes as many pairs as without one:
// one for all layers and heads, measured along the exact model's states on some of the fitted texts. Specs that all of
// those texts leave exact get 0.
std::vector<double> FindThresholds(Model& exact, const CalibrationTexts& texts, const LayerDirections& directions,
                                   const std::vector<AttentionSpec>& specs);

}  // namespace lshformer
