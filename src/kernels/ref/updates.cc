#include "kernels/ref/updates.h"

#include <cmath>

namespace lshformer::ref {

double ScaledGradient(double scale, double gradient, double decay, double parameter) {
  return scale * gradient + decay * parameter;
}

double MovingMean(double keep, double old, double share, double x) { return keep * old + share * x; }

double AdamWParameter(const AdamWUpdate& update, double parameter, double exp_avg, double exp_avg_sq) {
  const double root = std::sqrt(exp_avg_sq) * update.root_scale + update.epsilon;
  return update.keep * parameter - update.step_size * exp_avg / root;
}

double AdadeltaDelta(const AdadeltaUpdate& update, double gradient, double square_avg, double acc_delta) {
  return std::sqrt(acc_delta + update.epsilon) / std::sqrt(square_avg + update.epsilon) * gradient;
}

double MuonDirection(const MuonUpdate& update, double gradient, double momentum_buffer) {
  return MovingMean(update.momentum, momentum_buffer, update.one_minus_momentum, update.gradient_scale * gradient);
}

double ParameterAlong(double keep, double step_size, double direction, double parameter) {
  return keep * parameter - step_size * direction;
}

double LambDirection(const LambUpdate& update, double parameter, double exp_avg, double exp_avg_sq) {
  return exp_avg / (std::sqrt(exp_avg_sq) + update.epsilon) + update.decay * parameter;
}

}  // namespace lshformer::ref
