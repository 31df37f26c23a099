// One thread pool for everything: OpenMP's, shared with libtorch and oneDNN (or std::thread in the TSan build).
#pragma once
#include <cstdint>
#include <functional>

namespace lshformer {

int HardwareThreads();         // the cores this process may use (CPU affinity, cgroup quota)
int Threads();                 // what SetThreads chose; HardwareThreads() before
void SetThreads(int threads);  // ≥ 1; the caller also tells libtorch (ops/threads.h)
// Makes waiting threads of libgomp sleep after some ten microseconds instead of milliseconds. Where cores are shared
// with other programs, whoever spins keeps from work those it waits for: two runs side by side on two cores were
// tens of times slower than one after the other. For programs, once, after SetThreads; OMP_WAIT_POLICY and
// GOMP_SPINCOUNT overrule it.
void SleepSoonWhenWaiting();
int ThreadIndex();  // 0 … Threads() − 1 inside ParallelFor, 0 outside
int ThreadsHere();  // that the caller may use: 1 where it is one of several threads of a ParallelFor, else Threads()

// Calls body(begin, end) for pieces of [0, count) of at most `grain` items, handed out one after another to idle
// threads. Which thread gets which piece is not fixed: a result must not depend on it. The first exception of a
// body is thrown here after all threads have stopped. Nested calls run on the calling thread.
void ParallelFor(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace lshformer
