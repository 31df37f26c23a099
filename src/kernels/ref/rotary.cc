#include "kernels/ref/rotary.h"

#include <cmath>

namespace lshformer::ref {

double RotaryAngle(const Rotary& rotary, int head_dim, int64_t length, int64_t position, int i) {
  double theta = rotary.theta;
  if (rotary.scaling == RotaryScaling::kDynamic && length > rotary.original) {
    const double growth = rotary.factor * static_cast<double>(length) / static_cast<double>(rotary.original);
    theta *= std::pow(growth - (rotary.factor - 1), head_dim / (head_dim - 2.0));
  }
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
  float frequency = 1 / static_cast<float>(std::pow(theta, double{exponent}));
  if (rotary.scaling == RotaryScaling::kLinear) frequency /= static_cast<float>(rotary.factor);
  const float angle = static_cast<float>(position) * frequency;
  return angle;
}

std::vector<double> Rotate(std::span<const double> x, std::span<const double> angles, int heads, int head_dim) {
  std::vector<double> y(x.size());
  const int half = head_dim / 2;
  for (size_t row = 0; row < x.size() / static_cast<size_t>(head_dim); ++row) {
    const double* from = x.data() + row * head_dim;
    const double* angle = angles.data() + row / heads * half;
    for (int i = 0; i < half; ++i) {
      y[row * head_dim + i] = from[i] * std::cos(angle[i]) - from[half + i] * std::sin(angle[i]);
      y[row * head_dim + half + i] = from[half + i] * std::cos(angle[i]) + from[i] * std::sin(angle[i]);
    }
  }
  return y;
}

}  // namespace lshformer::ref
