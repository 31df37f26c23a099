// Comparison of floating-point results within bounds that come from rounding analysis, not from trial.
#pragma once
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace lshformer::testing {

struct Mismatch {
  bool found = false;
  size_t index = 0;
  double got = 0, want = 0, bound = 0;
};

// The element that exceeds its bound by the largest factor. NaN agrees with nothing (not with NaN either), an infinity
// only with itself. bounds: one for all, or one an element; a bound is absolute.
template <class Got, class Want>
Mismatch WorstMismatch(std::span<const Got> got, std::span<const Want> want, std::span<const double> bounds) {
  Mismatch worst;
  double worst_factor = 0;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    const double a = static_cast<double>(got[i]), b = static_cast<double>(want[i]),
                 bound = bounds[bounds.size() == 1 ? 0 : i];
    if (a == b) continue;
    const double difference = std::abs(a - b);
    if (difference <= bound && std::isfinite(difference)) continue;
    const double factor =
        std::isfinite(difference) && bound > 0 ? difference / bound : std::numeric_limits<double>::infinity();
    if (worst.found && !(factor > worst_factor)) continue;
    worst = {true, i, a, b, bound};
    worst_factor = factor;
  }
  return worst;
}

// EXPECT_THAT(out, WithinRounding(oracle, bounds)): containers of floats or doubles; bounds: a number or one an
// element.
MATCHER_P2(WithinRoundingOf, want, bounds, "agrees within its rounding bounds") {
  if (arg.size() != want.size() || (bounds.size() != 1 && bounds.size() != want.size())) {
    *result_listener << "which has " << arg.size() << " elements, expected " << want.size()
                     << " with 1 or as many bounds, not " << bounds.size();
    return false;
  }
  const Mismatch worst = WorstMismatch(std::span(arg.data(), arg.size()), std::span(want.data(), want.size()),
                                       std::span<const double>(bounds));
  if (worst.found)
    *result_listener << "where [" << worst.index << "] is " << worst.got << ", expected " << worst.want << " ± "
                     << worst.bound;
  return !worst.found;
}

template <class Want>
auto WithinRounding(const Want& want, double bound) {
  return WithinRoundingOf(want, std::vector<double>{bound});
}
template <class Want>
auto WithinRounding(const Want& want, const std::vector<double>& bounds) {
  return WithinRoundingOf(want, bounds);
}

// factor · max |want|: the bound for results compared with golden files "within `factor` of the largest value".
template <class Want>
double OfLargest(const Want& want, double factor) {
  double largest = 0;
  for (const auto value : want) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest * factor;
}

}  // namespace lshformer::testing
