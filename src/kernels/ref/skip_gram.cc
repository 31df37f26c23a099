#include "kernels/ref/skip_gram.h"

#include <cmath>

namespace lshformer::ref {

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

double LogisticStep(double rate, double label, double product) { return rate * (label - 1 / (1 + std::exp(-product))); }

}  // namespace lshformer::ref
