#include "base/signals.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using testing::TempFolder;
using namespace std::chrono_literals;

// Maps a file of two pages, shortens it to nothing and reads it.
void ReadBeyondTheEnd(const std::string& path, bool guarded) {
  const size_t bytes = 2 * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const int file = open(path.c_str(), O_RDWR);
  const void* mapping = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  InstallSignalHandlers();
  {
    const GuardedMapping gone(mapping, bytes, "another");  // its place is free again
  }
  std::optional<GuardedMapping> guard;
  if (guarded) guard.emplace(mapping, bytes, path);
  if (ftruncate(file, 0) != 0) _exit(3);
  const volatile char byte = static_cast<const volatile char*>(mapping)[bytes - 1];
  _exit(byte == 0 ? 4 : 5);
}

TEST(GuardedMappingDeathTest, AShortenedFileIsOneLineAndStatusOne) {
  const TempFolder folder;
  const std::string path = folder.Write("weights", std::string(2 * static_cast<size_t>(sysconf(_SC_PAGESIZE)), 'x'));
  EXPECT_EXIT(ReadBeyondTheEnd(path, true), ::testing::ExitedWithCode(1),
              "lshformer: .*weights: became shorter while it was being used\n$");
}

TEST(GuardedMappingDeathTest, OthersEndAsBefore) {
  const TempFolder folder;
  const std::string path = folder.Write("weights", std::string(2 * static_cast<size_t>(sysconf(_SC_PAGESIZE)), 'x'));
  EXPECT_EXIT(ReadBeyondTheEnd(path, false), ::testing::KilledBySignal(SIGBUS), "");
}

// kB of this process's memory that the mapping at `address` takes.
int64_t ResidentOf(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const std::string begin = fmt::format("{:x}-", reinterpret_cast<uintptr_t>(address));
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with(begin)) found = true;
    if (found && line.starts_with("Rss:")) return std::atoll(line.c_str() + 4);
  }
  return -1;
}

TEST(GuardedMapping, ForgetsPagesAndReadsThemAgain) {
  const TempFolder folder;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), bytes = 8 * page;
  std::string text(bytes, 'x');
  text[5 * page] = 'y';
  const std::string path = folder.Write("weights", text);
  const int file = open(path.c_str(), O_RDONLY);
  auto* const mapping = static_cast<char*>(mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0));
  close(file);
  ASSERT_NE(mapping, MAP_FAILED);
  const auto all = static_cast<int64_t>(bytes / 1024), one = static_cast<int64_t>(page / 1024);
  if (ResidentOf(mapping) != all) GTEST_SKIP() << "this system does not tell what of a mapping is in memory";
  GuardedMapping::Forget(mapping, bytes);
  EXPECT_EQ(ResidentOf(mapping), all) << "nobody has said that it is a file";
  {
    const GuardedMapping guard(mapping, bytes, path);
    GuardedMapping::Forget(mapping + 5 * page - 1, page + 2);
    EXPECT_EQ(ResidentOf(mapping), all - one) << "the page that lies in the range as a whole";
    GuardedMapping::Forget(mapping + page + 1, page);
    EXPECT_EQ(ResidentOf(mapping), all - one) << "none does";
    EXPECT_EQ(mapping[5 * page], 'y');
  }
  munmap(mapping, bytes);
}

constexpr int kNeverReady = -1;

// Whether the child that writes to `from` says so within a minute.
bool IsReady(int from) {
  pollfd said{from, POLLIN, 0};
  char byte;
  return poll(&said, 1, /*ms=*/60'000) == 1 && read(from, &byte, 1) == 1;
}

// Runs `action` in a child and sends it signals, each once it has written a byte to the descriptor that `action` gets;
// returns its exit status.
template <class Action>
int StatusAfterSignals(const Action& action, const std::vector<int>& signals) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);  // nobody waits for ever
    InstallSignalHandlers();
    _exit(action(ready[1]));
  }
  close(ready[1]);  // so that a child that is no more ends the wait
  if (child < 0) {
    ADD_FAILURE() << "no child";
    return kNeverReady;
  }
  bool unready = false;
  for (const int signal : signals) {
    unready = unready || !IsReady(ready[0]);
    kill(child, unready ? SIGKILL : signal);
  }
  int status = 0;
  waitpid(child, &status, 0);
  close(ready[0]);
  if (unready) return kNeverReady;
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

void SayReady(int to) {
  if (write(to, "x", 1) != 1) _exit(97);
}

int WaitForStop(int ready) {
  SayReady(ready);
  while (true) {
    try {
      ThrowIfStopped("train");
      std::this_thread::sleep_for(1ms);
    } catch (const Interrupted& stop) {
      return stop.signal() == StopSignal() ? stop.signal() : 99;
    }
  }
}

int NeverStop(int ready) {
  SayReady(ready);
  while (StopSignal() == 0) std::this_thread::sleep_for(1ms);
  SayReady(ready);
  while (true) std::this_thread::sleep_for(1ms);
}

TEST(Signals, TheFirstAsksToStopTheSecondEnds) {
  EXPECT_EQ(StatusAfterSignals(WaitForStop, {SIGINT}), SIGINT);
  EXPECT_EQ(StatusAfterSignals(WaitForStop, {SIGTERM}), SIGTERM);
  EXPECT_EQ(StatusAfterSignals(NeverStop, {SIGINT, SIGTERM}), 128 + SIGTERM);
  EXPECT_EQ(StatusAfterSignals(NeverStop, {SIGTERM, SIGINT}), 128 + SIGINT);
}

// timeout(1) signals its child and then its group.
TEST(SignalsDeathTest, TheSameOneAgainAtOnceIsTheFirst) {
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        raise(SIGTERM);
        raise(SIGTERM);
        if (StopSignal() != SIGTERM) _exit(1);
        std::this_thread::sleep_for(150ms);
        raise(SIGTERM);
      },
      ::testing::ExitedWithCode(128 + SIGTERM), "^lshformer: stopped at once by a second signal\n$");
}

TEST(SignalsDeathTest, TheSecondSaysThatItEndedTheProgram) {
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        raise(SIGINT);
        raise(SIGTERM);
      },
      ::testing::ExitedWithCode(128 + SIGTERM), "^lshformer: stopped at once by a second signal\n$");
}

TEST(Signals, TheFirstEndsWhereNothingCanBeAskedToStop) {
  EXPECT_EQ(StatusAfterSignals(
                [](int) {
                  const StopAtOnce stops("learn");
                  raise(SIGTERM);
                  return 5;
                },
                {}),
            128 + SIGTERM);
  EXPECT_EQ(StatusAfterSignals(
                [](int) {
                  { const StopAtOnce stops("learn"); }
                  raise(SIGTERM);
                  return StopSignal();
                },
                {}),
            SIGTERM)
      << "afterwards it asks again";
  EXPECT_EQ(StatusAfterSignals(
                [](int) {
                  raise(SIGTERM);
                  return ErrorOf([] { StopAtOnce("learn"); }) == "learn: stopped by SIGTERM" ? 5 : 6;
                },
                {}),
            5);
}

// What a signal interrupts may have a stack with no room for its frame (oneDNN's kernels do).
TEST(Signals, AreHandledOnAStackOfTheirOwn) {
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        stack_t stack = {};
        sigaltstack(nullptr, &stack);
        bool good = (stack.ss_flags & SS_DISABLE) == 0 && stack.ss_size >= 16384;
        for (const int signal : {SIGINT, SIGTERM}) {
          struct sigaction action = {};
          sigaction(signal, nullptr, &action);
          good &= (action.sa_flags & SA_ONSTACK) != 0;
        }
        _exit(good ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(Signals, NothingStopsWithoutASignal) {
  EXPECT_EQ(StopSignal(), 0);
  EXPECT_NO_THROW(ThrowIfStopped("train"));
}

TEST(Signals, SaysWhatWasStopped) {
  EXPECT_EQ(StatusAfterSignals(
                [](int) {
                  raise(SIGTERM);
                  return ErrorOf([] { ThrowIfStopped("pretrain"); }) == "pretrain: stopped by SIGTERM" ? 5 : 6;
                },
                {}),
            5);
}

// A program that waits for its input stops at the first signal, not when the next line comes.
TEST(Signals, StopAWaitForInput) {
  int input[2];
  ASSERT_EQ(pipe(input), 0);
  EXPECT_EQ(StatusAfterSignals(
                [&](int ready) {
                  char byte;
                  SayReady(ready);
                  try {
                    ReadSome(input[0], &byte, 1, "stdin");
                  } catch (const Interrupted& stop) {
                    return stop.signal();
                  }
                  return 98;
                },
                {SIGINT}),
            SIGINT);
  close(input[0]);
  close(input[1]);
}

TEST(Signals, AClosedPipeIsAnErrorAndNoSignal) {
  EXPECT_EQ(StatusAfterSignals(
                [](int) {
                  int ends[2];
                  if (pipe(ends) != 0) return 9;
                  close(ends[0]);
                  AtomicFile file("/dev/fd/" + std::to_string(ends[1]));
                  file.Write("x");
                  return ErrorOf([&] { file.Commit(); }).ends_with("the reader closed the pipe") ? 5 : 6;
                },
                {}),
            5);
}

}  // namespace
}  // namespace lshformer
