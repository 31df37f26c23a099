#include "ops/threads.h"

#include <ATen/Parallel.h>

#include "base/parallel.h"

namespace lshformer {

void SetAllThreads(int threads) {
  SetThreads(threads);
  at::set_num_threads(threads);  // Debian's libtorch starts with one thread
}

}  // namespace lshformer
