#include "base/parallel.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <latch>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#ifdef LSHFORMER_OPENMP
#include <omp.h>
#endif

#include "base/thread_limit.h"
#include "base/thread_pool.h"

namespace lshformer {
namespace {

std::atomic<int> chosen_threads{0};
ThreadPool borrowed;
thread_local int thread_index = 0;
thread_local bool inside_parallel = false;

int CgroupQuota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::max(1, static_cast<int>(std::floor(std::atof(quota.c_str()) / period)));
}

}  // namespace

int HardwareThreads() {
  static const int threads = [] {
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
    if (cores <= 0) cores = std::max(1u, std::thread::hardware_concurrency());
    const int quota = CgroupQuota();
    return quota > 0 ? std::min(cores, quota) : cores;
  }();
  return threads;
}

void UseThreadPool(const ThreadPool& pool) { borrowed = pool; }

int Threads() {
  if (borrowed.threads != nullptr) return std::max(1, borrowed.threads());
  const int threads = chosen_threads.load(std::memory_order_relaxed);
  return threads > 0 ? threads : HardwareThreads();
}

void SetThreads(int threads) {
  chosen_threads = std::max(1, threads);
#ifdef LSHFORMER_OPENMP
  omp_set_num_threads(Threads());
#endif
}

void SleepSoonWhenWaiting() {
#ifdef LSHFORMER_OPENMP
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  // libgomp reads those variables before main, and has no call for it. But it spins shortly when it has more threads
  // than there are cores; so a thread that does nothing else leads a team of those that are missing, asleep, for good.
  const int team = std::max(2, omp_get_num_procs() - Threads() + 2);
  constexpr int kMostSleepers = 32;  // with so many cores to spare spinning does no harm
  if (team > kMostSleepers) return;
  const int needed = team + 2 * (Threads() - 1);  // those of the pool follow, and libtorch makes as many again
  if (ThreadsThatStart(needed) < needed) return;  // then they spin
  const SignalsElsewhere blocked;
  try {
    std::latch made(1);
    std::thread([team, &made] {
#pragma omp parallel num_threads(team)
      omp_get_thread_num();
      made.count_down();
      while (true) pause();
    }).detach();
    // A process that becomes another program while a thread is being made fails to make it, and libgomp then ends it.
    made.wait();
  } catch (const std::system_error&) {  // no more threads
  }
#endif
}

int ThreadIndex() { return thread_index; }

int ThreadsHere() { return inside_parallel ? 1 : Threads(); }

void ParallelFor(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  grain = std::clamp<int64_t>(grain, 1, count);  // no larger than count: sums below cannot overflow
  const int64_t pieces = count / grain + (count % grain != 0);
  const int threads = static_cast<int>(std::min<int64_t>(Threads(), pieces));
  if (threads == 1 || inside_parallel) {
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t begin = piece * grain;
      body(begin, begin + std::min(grain, count - begin));
    }
    return;
  }
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&](int index) {
    thread_index = index;
    inside_parallel = true;
    try {
      for (int64_t piece; (piece = next.fetch_add(1, std::memory_order_relaxed)) < pieces;)
        body(piece * grain, piece * grain + std::min(grain, count - piece * grain));
    } catch (...) {
      next = pieces;
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
    thread_index = 0;
    inside_parallel = false;
  };
  if (borrowed.run != nullptr) {
    using Work = decltype(work);
    const auto call = [](int index, void* context) { (*static_cast<const Work*>(context))(index); };
    borrowed.run(threads, call, const_cast<void*>(static_cast<const void*>(&work)));
    if (failure) std::rethrow_exception(failure);
    return;
  }
#ifdef LSHFORMER_OPENMP
#pragma omp parallel num_threads(threads)
  work(omp_get_thread_num());
#else
  std::vector<std::thread> pool;
  try {
    for (int index = 1; index < threads; ++index) pool.emplace_back(work, index);
  } catch (const std::system_error&) {
    // The system gives no more threads: those that run, and this one, do all the pieces.
  }
  work(0);
  for (std::thread& thread : pool) thread.join();
#endif
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lshformer
