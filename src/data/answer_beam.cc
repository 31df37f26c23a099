#include "data/answer_beam.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lshformer {

std::vector<int32_t> Largest(std::span<const float> values, int count) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto last = order.begin() + std::min<int64_t>(count, static_cast<int64_t>(order.size()));
  std::partial_sort(order.begin(), last, order.end(), [&](int32_t a, int32_t b) {
    const float left = values[static_cast<size_t>(a)], right = values[static_cast<size_t>(b)];
    return left > right || (left == right && a > b);
  });
  order.erase(last, order.end());
  return order;
}

bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

bool AllFinite(const AnswerBeam& beam) {
  return std::isfinite(beam.no_answer) &&
         std::all_of(beam.spans.begin(), beam.spans.end(),
                     [](const AnswerBeam::Span& span) { return std::isfinite(span.score()); });
}

}  // namespace lshformer
