#include "base/thread_limit.h"

#include <latch>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace lshformer {

int ThreadsThatStart(int wanted) {
  const SignalsElsewhere blocked;
  std::latch counted(1);
  std::vector<std::thread> started;
  try {
    while (static_cast<int>(started.size()) < wanted) started.emplace_back([&counted] { counted.wait(); });
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
  counted.count_down();
  for (std::thread& thread : started) thread.join();
  return static_cast<int>(started.size());
}

SignalsElsewhere::SignalsElsewhere() {
  sigset_t all;
  sigfillset(&all);
  // What a thread's own access raises cannot wait: the system would end the process without asking the handler.
  for (const int own : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) sigdelset(&all, own);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsElsewhere::~SignalsElsewhere() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace lshformer
