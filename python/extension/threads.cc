#include "threads.h"

#include <torch/csrc/stable/ops.h>

#include "base/thread_pool.h"

namespace lshformer::extension {
namespace {

int Threads() { return static_cast<int>(torch::stable::get_num_threads()); }

void Run(int count, void (*work)(int index, void* context), void* context) {
  torch::stable::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) work(static_cast<int>(i), context);
  });
}

}  // namespace

void UseTorchThreads() { UseThreadPool({Threads, Run}); }

}  // namespace lshformer::extension
