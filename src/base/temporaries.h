// The temporary files of a process, so that a second signal, which ends it at once, leaves none behind.
#pragma once
#include <string>

namespace lshformer {

// While it lives, RemoveTemporaries unlinks `path`.
class TemporaryName {
 public:
  TemporaryName() = default;
  ~TemporaryName() { Clear(); }
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;

  // Replaces the path before. One that is longer than the system takes, or beyond the hundredth at a time, is not kept.
  void Set(const std::string& path);
  void Clear();

 private:
  int slot_ = -1;
};

// For a signal handler: nothing but atomics and unlink(2).
void RemoveTemporaries();

}  // namespace lshformer
