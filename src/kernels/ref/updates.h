// The oracle of kernels/updates.h: the formulas of one element in double, step by step, so that each can be compared
// with what the one before it was rounded to.
#pragma once
#include "kernels/updates.h"

namespace lshformer::ref {

// scale · gradient + decay · parameter
double ScaledGradient(double scale, double gradient, double decay, double parameter);
// keep · old + share · x
double MovingMean(double keep, double old, double share, double x);
// The parameter after a step of AdamW (Adam: keep is 1), given the moments after it.
double AdamWParameter(const AdamWUpdate& update, double parameter, double exp_avg, double exp_avg_sq);
// Δ, given square_avg after the step and acc_delta before it.
double AdadeltaDelta(const AdadeltaUpdate& update, double gradient, double square_avg, double acc_delta);
// Muon's direction before it is made orthogonal, given the momentum after the step.
double MuonDirection(const MuonUpdate& update, double gradient, double momentum_buffer);
// keep · parameter − step_size · direction
double ParameterAlong(double keep, double step_size, double direction, double parameter);
// u, given the moments after the step.
double LambDirection(const LambUpdate& update, double parameter, double exp_avg, double exp_avg_sq);

}  // namespace lshformer::ref
