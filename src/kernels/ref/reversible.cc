#include "kernels/ref/reversible.h"

#include <cmath>

namespace lshformer::ref {

double OnGrid(double x) { return std::nearbyint(x * 0x1p32) * 0x1p-32; }

}  // namespace lshformer::ref
