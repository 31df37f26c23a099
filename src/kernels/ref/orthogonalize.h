// The oracle of kernels/orthogonalize.h: its formula in double.
#pragma once
#include <cstdint>
#include <vector>

namespace lshformer::ref {

// matrix: [rows, columns]
std::vector<double> Orthogonalize(int64_t rows, int64_t columns, std::vector<double> matrix);

}  // namespace lshformer::ref
