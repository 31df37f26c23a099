// Products of float32 by multiply-add with a second factor in panels: where oneDNN has no AVX-512: there its own are
// slow, and their rows depend on each other.
//
//   c[m, n] = Σ_k a[m, k] · b[k, n] (+ bias[n]) (+ c[m, n])          (kernels/matrix.h)
//
// A panel holds 16 columns of b, row after row: [inner][16], zeros beyond the last column. The sum runs through
// stretches of kStretch terms, each from zero on and added to what there is. An element of c is computed alike whatever
// the call: it does not depend on the number of rows, of columns, or of threads, bit for bit.
#pragma once
#include <cstdint>

#include "kernels/matrix.h"

namespace lshformer {

inline constexpr int64_t kFloatPanelColumns = 16, kStretch = 384;

// Numbers in the panels of a factor of this size.
int64_t PanelNumbers(int64_t inner, int64_t columns);
// All threads share the work. panels: aligned to 64 bytes. Here and below inner is at least 1.
void PackPanels(MatrixView b, int64_t inner, int64_t columns, float* panels);

// p.b is not read but its panels.
void MultiplyPanels(const MatrixProduct& p, const float* panels);
// p.b as it lies, packed in pieces of 3 MiB of work memory, whole pages 4.
void MultiplyByPanels(const MatrixProduct& p);

}  // namespace lshformer
