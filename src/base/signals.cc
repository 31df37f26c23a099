#include "base/signals.h"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "base/error.h"
#include "base/temporaries.h"

namespace lshformer {
namespace {

std::atomic<int> stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);  // what a signal handler may touch

void OnStopSignal(int signal) {
  int none = 0;
  if (stop_signal.compare_exchange_strong(none, signal)) return;
  RemoveTemporaries();
  _exit(128 + signal);
}

// The handler must not run on the stack of whatever it interrupts: oneDNN's matrix kernels use a small piece of the
// heap as theirs, and the frame of a signal, kilobytes with AVX-512, overwrote what lies below. The kernel hands a
// process's signals to its first thread, so that one gets a stack for them.
void UseOwnStack() {
  alignas(64) static char stack[size_t{64} << 10];
  stack_t now = {};
  if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;  // there is one (AddressSanitizer's)
  now = {};
  now.ss_sp = stack;
  now.ss_size = sizeof(stack);
  sigaltstack(&now, nullptr);
}

}  // namespace

void InstallSignalHandlers() {
  UseOwnStack();
  struct sigaction action = {};
  action.sa_handler = OnStopSignal;
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: a read that waits for input ends with EINTR, so that the reader can stop.
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_flags = 0;
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);  // a closed pipe is an Error of the write
}

int StopSignal() { return stop_signal.load(); }

void ThrowIfStopped(const char* what) {
  const int signal = StopSignal();
  if (signal != 0)
    throw Interrupted(signal, fmt::format("{}: stopped by {}", what, signal == SIGINT ? "SIGINT" : "SIGTERM"));
}

}  // namespace lshformer
