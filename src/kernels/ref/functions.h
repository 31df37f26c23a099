// The oracle of kernels/functions.h: by the standard library in double.
#pragma once
#include "kernels/functions.h"

namespace lshformer::ref {

double Value(UnaryFunction function, double x);
double Derivative(UnaryFunction function, double x);

}  // namespace lshformer::ref
