// The oracle of kernels/position_signal.h.
#pragma once
#include <cstdint>

namespace lshformer::ref {

// Of position t in one column.
double PositionSignal(int64_t t, int64_t column, int64_t width);

}  // namespace lshformer::ref
