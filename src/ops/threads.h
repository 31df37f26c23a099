// The number of threads of all libraries at once.
#pragma once

namespace lshformer {

// Sets base/parallel.h's pool and tells libtorch and oneDNN, which share its OpenMP threads. ≥ 1.
void SetAllThreads(int threads);

// How many threads there are at most beside the calling one, where the libraries are told `threads`. libtorch has a
// second pool (pthreadpool), which nothing here uses: first one for all cores, then that of `threads` beside it, and
// that once more beside itself where the first tensor is picked from.
int MostOtherThreads(int threads);

}  // namespace lshformer
