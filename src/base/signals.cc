#include "base/signals.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/stop_token.h"
#include "base/temporaries.h"

namespace lshformer {
namespace {

std::atomic<int> stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);  // what a signal handler may touch

std::atomic<bool> stop_at_once{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// The same signal again within so long is the first once more: timeout(1) and launchers send one to the process and one
// to its group.
constexpr int64_t kOneSignal = 100'000'000;  // nanoseconds
std::atomic<int64_t> stopped_at{0};          // on the monotonic clock; 0: not yet
static_assert(std::atomic<int64_t>::is_always_lock_free);

bool IsTheFirstOnceMore(int signal, int64_t now) {
  const int64_t first = stopped_at.load();
  return stop_signal.load() == signal && (first == 0 || now - first < kOneSignal);
}

void OnStopSignal(int signal) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t nanoseconds = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  int none = 0;
  const bool first = stop_signal.compare_exchange_strong(none, signal);
  if (first) stopped_at = nanoseconds;
  if (first ? !stop_at_once.load() : IsTheFirstOnceMore(signal, nanoseconds)) return;
  const std::string_view line =
      first ? "lshformer: stopped; nothing was written\n" : "lshformer: stopped at once by a second signal\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
  RemoveTemporaries();
  _exit(128 + signal);
}

// Mappings and the lines to say about them. What a handler reads must be ready before its range is.
struct Guarded {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0}, end{0};
  char line[256] = {};
};
constexpr int kMostGuarded = 64;  // shards beyond that number die without a name
Guarded guarded[kMostGuarded];
static_assert(std::atomic<uintptr_t>::is_always_lock_free);

void OnBusError(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const Guarded& mapping : guarded) {
    if (address < mapping.begin.load() || address >= mapping.end.load()) continue;
    [[maybe_unused]] const auto written = write(STDERR_FILENO, mapping.line, std::strlen(mapping.line));
    _exit(1);
  }
  ::signal(signal, SIG_DFL);  // not ours: the access is tried again, and ends the process
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
  struct sigaction bus = {};
  bus.sa_sigaction = OnBusError;
  sigemptyset(&bus.sa_mask);
  bus.sa_flags = SA_ONSTACK | SA_SIGINFO;
  sigaction(SIGBUS, &bus, nullptr);
  action.sa_flags = 0;
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);  // a closed pipe is an Error of the write
  sigaction(SIGXFSZ, &action, nullptr);  // and so is a file beyond ulimit -f
  HoldStopSignals(false);                // those that came while this program was loaded
}

StopAtOnce::StopAtOnce(const char* what) {
  stop_at_once = true;
  if (stop_signal.load() == 0) return;
  stop_at_once = false;
  ThrowIfStopped(what);
}
StopAtOnce::~StopAtOnce() { stop_at_once = false; }

void HoldStopSignals(bool hold) {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGINT);
  sigaddset(&stop, SIGTERM);
  pthread_sigmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &stop, nullptr);
}

GuardedMapping::GuardedMapping(const void* begin, size_t bytes, const std::string& path) : slot_(-1) {
  for (int slot = 0; slot < kMostGuarded && slot_ < 0; ++slot) {
    if (!guarded[slot].taken.exchange(true)) slot_ = slot;
  }
  if (slot_ < 0) return;
  Guarded& mapping = guarded[slot_];
  const auto end = fmt::format_to_n(mapping.line, sizeof(mapping.line) - 1,
                                    "lshformer: {}: became shorter while it was being used\n", Shown(path, 120));
  *end.out = '\0';
  mapping.end = reinterpret_cast<uintptr_t>(begin) + bytes;
  mapping.begin = reinterpret_cast<uintptr_t>(begin);
}

GuardedMapping::~GuardedMapping() {
  if (slot_ < 0) return;
  guarded[slot_].begin = UINTPTR_MAX;
  guarded[slot_].taken = false;
}

void GuardedMapping::Forget(const void* begin, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), first = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t whole = (first + page - 1) / page * page, behind = (first + bytes) / page * page;
  if (whole >= behind) return;
  for (const Guarded& mapping : guarded) {
    if (whole < mapping.begin.load() || behind > mapping.end.load()) continue;
    madvise(reinterpret_cast<void*>(whole), behind - whole, MADV_DONTNEED);  // no page of it was written
    return;
  }
}

int StopSignal() { return stop_signal.load(); }

const StopToken& StopOnSignal() {
  static const StopToken token = [] { ThrowIfStopped("running the model"); };
  return token;
}

void ThrowIfStopped(const char* what) {
  const int signal = StopSignal();
  if (signal != 0)
    throw Interrupted(signal, fmt::format("{}: stopped by {}", what, signal == SIGINT ? "SIGINT" : "SIGTERM"));
}

}  // namespace lshformer
