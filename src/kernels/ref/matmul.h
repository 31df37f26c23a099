// The oracle of products (kernels/matrix.h): sums in double, and beside them what their rounding is measured by.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/matrix.h"

namespace lshformer::ref {

struct ProductSums {
  std::vector<double> sums;   // [rows, columns]: Σ_k a · b (+ bias) (+ c)
  std::vector<double> sizes;  // the same of absolute values: a sum of n terms in any order is off by n · ε of it
};
// a(i, k), b(k, j): the factors.
ProductSums Multiply(int64_t rows, int64_t columns, int64_t inner, const std::function<double(int64_t, int64_t)>& a,
                     const std::function<double(int64_t, int64_t)>& b);
// Of factors as they lie; adds to p.c, as it is, where p says so.
ProductSums Multiply(const MatrixProduct& p);

}  // namespace lshformer::ref
