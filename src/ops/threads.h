// The number of threads of all libraries at once.
#pragma once

namespace lshformer {

// Sets base/parallel.h's pool and tells libtorch and oneDNN, which share its OpenMP threads. ≥ 1.
void SetAllThreads(int threads);

}  // namespace lshformer
