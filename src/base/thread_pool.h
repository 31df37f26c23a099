// The threads of the program that this library was loaded into, in place of our own: one pool of that program, and the
// number of threads that it was told, hold for us too.
#pragma once

namespace lshformer {

struct ThreadPool {
  int (*threads)() = nullptr;  // ≥ 1, asked at every ParallelFor; Threads() answers it
  // Calls work(0, context) … work(count − 1, context), each once and, as far as its threads allow, side by side. `work`
  // throws nothing.
  void (*run)(int count, void (*work)(int index, void* context), void* context) = nullptr;
};

// ParallelFor runs on `pool` from now on, and SetThreads has no effect. Once, before the first ParallelFor.
void UseThreadPool(const ThreadPool& pool);

}  // namespace lshformer
