#include "kernels/ref/position_signal.h"

#include <algorithm>
#include <cmath>

namespace lshformer::ref {

double PositionSignal(int64_t t, int64_t column, int64_t width) {
  const int64_t half = width / 2;
  if (column >= 2 * half) return 0;
  const double exponent = static_cast<double>(column % half) / static_cast<double>(std::max<int64_t>(1, half - 1));
  const double angle = static_cast<double>(t) / std::pow(10000.0, exponent);
  return column < half ? std::sin(angle) : std::cos(angle);
}

}  // namespace lshformer::ref
