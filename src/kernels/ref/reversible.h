// The oracle of kernels/reversible.h.
#pragma once

namespace lshformer::ref {

// The multiple of 2⁻³² next to x, of two equally near ones the even one; |x| < 2¹⁹.
double OnGrid(double x);

}  // namespace lshformer::ref
