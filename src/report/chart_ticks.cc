#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "report/chart.h"

namespace lshformer {
namespace {

// The smallest round step with at most `count` steps over `span`.
double NiceStep(double span, int count) {
  const double raw = span / std::max(count, 1);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0, 10.0}) {
    if (power * factor >= raw * (1 - 1e-9)) {
      return power * factor;
    }
  }
  return power * 10;
}

}  // namespace

std::vector<double> NiceTicks(double low, double high, int count) {
  constexpr double kLargest = 1e300, kSmallest = 1e-290;  // beyond them steps overflow or vanish
  low = std::clamp(low, -kLargest, kLargest);
  high = std::clamp(high, -kLargest, kLargest);
  const double size = std::max(std::abs(low), std::abs(high));
  // One value, or two so close that steps between them are lost in rounding: room on both sides.
  if (!(high - low > 1e-9 * size) || size < kSmallest) {
    const double margin = size < kSmallest ? 1 : size * 0.1;
    low -= margin;
    high += margin;
  }
  double step = NiceStep(high - low, count);
  // Outward rounding can add steps at both ends; then the next step is taken.
  while (std::ceil(high / step - 1e-9) - std::floor(low / step + 1e-9) > count) {
    step = NiceStep(step * 1.01, 1);
  }
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  std::vector<double> ticks;
  for (double k = first; k <= last; ++k) {
    ticks.push_back(k == 0 ? 0 : k * step);
  }
  return ticks;
}

std::vector<double> LogTicks(double low, double high, int count) {
  const int first = static_cast<int>(std::ceil(std::log10(low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(high) + 1e-9));
  std::vector<double> ticks;
  if (last - first + 1 >= 2) {
    const int stride = std::max(1, (last - first + count) / std::max(count, 1));
    for (int power = first; power <= last; power += stride) {
      ticks.push_back(std::pow(10.0, power));
    }
    return ticks;
  }
  for (int power = first - 1; power <= last + 1; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10.0, power);
      if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) {
        ticks.push_back(tick);
      }
    }
  }
  return ticks;
}

std::string TickLabel(double value) {
  const double size = std::abs(value);
  if (value == 0) {
    return "0";
  }
  if (size < 1e-3 || size >= 1e9) {
    return fmt::format("{:.3g}", value);
  }
  if (size >= 1e6) {
    return fmt::format("{:.4g}M", value / 1e6);
  }
  return fmt::format("{:.6g}", value);
}

}  // namespace lshformer
