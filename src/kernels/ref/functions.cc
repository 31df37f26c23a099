#include "kernels/ref/functions.h"

#include <cmath>
#include <numbers>

namespace lshformer::ref {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double NormalDistribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double NormalDensity(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi); }

constexpr double kCubic = 0.044715;
double TanhArgument(double x) { return std::sqrt(2 / std::numbers::pi) * (x + kCubic * x * x * x); }

}  // namespace

double Value(UnaryFunction function, double x) {
  switch (function) {
    case UnaryFunction::kGelu:
      return x * NormalDistribution(x);
    case UnaryFunction::kGeluNew:
      return 0.5 * x * (1 + std::tanh(TanhArgument(x)));
    case UnaryFunction::kRelu:
      return x > 0 ? x : 0;
    case UnaryFunction::kTanh:
      return std::tanh(x);
    case UnaryFunction::kSilu:
      return x * Sigmoid(x);
    case UnaryFunction::kSigmoid:
      break;
  }
  return Sigmoid(x);
}

double Derivative(UnaryFunction function, double x) {
  switch (function) {
    case UnaryFunction::kGelu:
      return NormalDistribution(x) + x * NormalDensity(x);
    case UnaryFunction::kGeluNew: {
      const double y = std::tanh(TanhArgument(x)), slope = std::sqrt(2 / std::numbers::pi) * (1 + 3 * kCubic * x * x);
      return 0.5 * (1 + y) + 0.5 * x * (1 - y * y) * slope;
    }
    case UnaryFunction::kRelu:
      return x > 0 ? 1 : 0;
    case UnaryFunction::kTanh:
      return 1 - std::tanh(x) * std::tanh(x);
    case UnaryFunction::kSilu:
      return Sigmoid(x) * (1 + x * (1 - Sigmoid(x)));
    case UnaryFunction::kSigmoid:
      break;
  }
  return Sigmoid(x) * (1 - Sigmoid(x));
}

}  // namespace lshformer::ref
