// The step of Muon: a matrix made nearly orthogonal, its singular vectors kept and its singular values moved towards 1.
//
// With r the smaller and c the larger of its two sizes, X: [r, c] the matrix, turned round where it has more rows than
// columns:
//
//   X ← X / (‖X‖ + 10⁻⁷)                                ‖X‖: √Σ x²
//   five times   G = X·Xᵀ,   X ← (a·I + b·G + c·G²)·X    a = 3.4445, b = −4.7750, c = 2.0315
//
// which takes each singular value s to a·s + b·s³ + c·s⁵: the Newton–Schulz iteration with coefficients chosen for
// speed. Those of 0.005 ‖X‖ and more end between 0.68 and 1.16, from 0.002 ‖X‖ on between 0.68 and
// 1.21; smaller ones are taken up at most 485 times, and 0 stays 0.
// Source: Keller Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.
//
// Products are float32's multiply-add (kernels/matmul.h) by all threads that the caller has, the norm is summed in
// double: the same bits for any number of threads. Small singular values take the roundings of a step up by a: results
// are off by up to a⁵ = 485 roundings of the largest element that they are sums of.
// Operations: 5·(2·r²·c + r³) multiply-adds. Work memory of the calling thread: 2·r·c + 2·r² floats.
#pragma once
#include <cstdint>

namespace lshformer {

struct NewtonSchulz {
  static constexpr int kSteps = 5;
  static constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  static constexpr double kEpsilon = 1e-7;
};

// In place; matrix: [rows, columns], contiguous, finite.
void Orthogonalize(int64_t rows, int64_t columns, float* matrix);

}  // namespace lshformer
