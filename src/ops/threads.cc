#include "ops/threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <thread>

#include "base/parallel.h"

namespace lshformer {

void SetAllThreads(int threads) {
  SetThreads(threads);
  at::set_num_threads(threads);  // Debian's libtorch starts with one thread
}

int MostOtherThreads(int threads) {
  const int own = threads - 1, of_all_cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency())) - 1;
  return std::max(of_all_cores + own, 3 * own);
}

}  // namespace lshformer
