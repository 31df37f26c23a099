// Work that is finished in spite of SIGINT and SIGTERM.
#pragma once

namespace lshformer {

// While it lives such a signal stops no work: StopSignal is 0 and ThrowIfStopped throws nothing, and signal() is the
// one that came. For a server, which finishes what it has accepted. The second signal ends the process at once, as
// elsewhere. One at a time.
class StopLater {
 public:
  StopLater();  // throws Interrupted where a signal came before
  ~StopLater();
  StopLater(const StopLater&) = delete;
  StopLater& operator=(const StopLater&) = delete;
  int signal() const;
};

}  // namespace lshformer
