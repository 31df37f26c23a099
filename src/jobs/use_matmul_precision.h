// --float32_matmul_precision of a job.
#pragma once
#include "kernels/matmul_precision.h"

namespace lshformer {

// SetMatmulPrecision for the rest of the process. The first time that another word than `highest` is asked for where no
// matrix tiles are active, one line of warning says that it is `highest`.
void UseMatmulPrecision(MatmulPrecision precision);

}  // namespace lshformer
