// The oracle of kernels/gather.h in double, one row after another.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lshformer::ref {

std::vector<double> PickRows(std::span<const double> x, int64_t columns, std::span<const int32_t> rows);
// table [rows, columns], with x[i] added to its row targets[i], if that is not negative.
std::vector<double> AddRowsAt(std::span<const double> x, int64_t columns, std::span<const int32_t> targets,
                              std::vector<double> table);

}  // namespace lshformer::ref
