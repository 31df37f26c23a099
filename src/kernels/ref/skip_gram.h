// The oracle of kernels/skip_gram.h in double.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lshformer::ref {

double Dot(std::span<const float> a, std::span<const float> b);
// rate · (label − σ(product))
double LogisticStep(double rate, double label, double product);

}  // namespace lshformer::ref
