// The oracle of kernels/gated.h: its formulas in double.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/functions.h"

namespace lshformer::ref {

std::vector<double> GateRows(UnaryFunction function, std::span<const double> x, int64_t rows, int64_t columns);
// Of Σ y · grad_y.
std::vector<double> GateRowsGradient(UnaryFunction function, std::span<const double> x, std::span<const double> grad_y,
                                     int64_t rows, int64_t columns);

}  // namespace lshformer::ref
