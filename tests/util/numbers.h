// Numbers for tests of arithmetic, the same in every run, and what a gradient must be.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/bfloat16.h"
#include "base/philox.h"

namespace lshformer::testing {

inline constexpr double kFloatEps = 0x1p-24;  // a result of float arithmetic is off by so much of itself

inline constexpr float kInfiniteNumber = std::numeric_limits<float>::infinity(),
                       kNotANumber = std::numeric_limits<float>::quiet_NaN();

// Normal, times scale.
inline std::vector<float> Random(int64_t count, uint64_t key, double scale = 1) {
  std::vector<float> values(static_cast<size_t>(count));
  PhiloxStream stream(key);
  for (float& value : values) value = static_cast<float>(scale * stream.Normal());
  return values;
}

inline float ToFloat(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

inline std::vector<double> Wide(const std::vector<float>& x) { return {x.begin(), x.end()}; }

// Borders of sequences of these lengths.
inline std::vector<int32_t> Borders(const std::vector<int32_t>& lengths) {
  std::vector<int32_t> borders{0};
  for (const int32_t length : lengths) borders.push_back(borders.back() + length);
  return borders;
}

// `gradient` is that of `value` at x, by central differences of some of its elements.
inline void ExpectGradient(const std::function<double(const std::vector<double>&)>& value, std::vector<double> x,
                           const std::vector<double>& gradient, const std::string& what) {
  ASSERT_EQ(gradient.size(), x.size()) << what;
  constexpr double kStep = 1e-6;
  for (size_t i = 0; i < x.size(); i += 1 + x.size() / 12) {
    const double at = x[i];
    x[i] = at + kStep;
    const double up = value(x);
    x[i] = at - kStep;
    const double down = value(x);
    x[i] = at;
    EXPECT_NEAR(gradient[i], (up - down) / (2 * kStep), 1e-7 * (1 + std::abs(up))) << what << ", element " << i;
  }
}

}  // namespace lshformer::testing
