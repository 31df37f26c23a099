// SIGINT and SIGTERM: the first asks long work to stop at its next safe point, the second ends the process at once
// with status 128 + signal.
#pragma once
#include <cstddef>
#include <string>

namespace lshformer {

void InstallSignalHandlers();  // the command line calls it once; also ignores SIGPIPE
// SIGINT and SIGTERM wait, also while this process becomes another program, until that one installs its handlers.
void HoldStopSignals(bool hold);
int StopSignal();                       // 0, or the signal that asked to stop
void ThrowIfStopped(const char* what);  // throws Interrupted

// While it lives the first signal ends the process at once, as the second does elsewhere, with one line on stderr: for
// work inside another's library that cannot be asked to stop and leaves nothing behind. Throws Interrupted where a
// signal came before.
class StopAtOnce {
 public:
  explicit StopAtOnce(const char* what);
  ~StopAtOnce();
  StopAtOnce(const StopAtOnce&) = delete;
  StopAtOnce& operator=(const StopAtOnce&) = delete;
};

// A file that somebody shortens while it is mapped cannot be read past its new end: the system sends SIGBUS. In a
// program with InstallSignalHandlers that ends it with status 1 and one line that names the file; nothing can go on
// from there, for the bytes are gone. In other programs SIGBUS does what they have decided.
class GuardedMapping {
 public:
  // Mapped for reading alone.
  GuardedMapping(const void* begin, size_t bytes, const std::string& path);
  ~GuardedMapping();
  GuardedMapping(const GuardedMapping&) = delete;
  GuardedMapping& operator=(const GuardedMapping&) = delete;

  // Hands back the memory of the whole pages of a range that lies in such a mapping; elsewhere does nothing. Whoever
  // reads them again gets them from the file.
  static void Forget(const void* begin, size_t bytes);

 private:
  int slot_;
};

}  // namespace lshformer
