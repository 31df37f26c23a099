#include "kernels/ref/low_precision.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lshformer::ref {

double RoundToBFloat16(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), -126);
  const double step = std::ldexp(1.0, exponent - 7), rounded = std::nearbyint(x / step) * step;  // ties to even
  return std::abs(rounded) < 0x1p128 ? rounded : std::copysign(std::numeric_limits<double>::infinity(), x);
}

QuantizedRow QuantizeRow(std::span<const double> x) {
  double low = 0, high = 0;
  for (const double v : x) low = std::min(low, v), high = std::max(high, v);
  QuantizedRow row;
  row.scale = high > low ? (high - low) / 255 : 1;
  row.zero = static_cast<int32_t>(std::lround(-low / row.scale));
  for (const double v : x) row.numbers.push_back(std::clamp(v / row.scale + row.zero, 0.0, 255.0));
  return row;
}

double Dequantize(double scale, int32_t zero, double weight_scale, int32_t weight_sum, double bias, int32_t sum) {
  return scale * weight_scale * (sum - static_cast<double>(zero) * weight_sum) + bias;
}

}  // namespace lshformer::ref
