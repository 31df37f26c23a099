#include "base/terminal.h"

#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>

namespace lshformer {
namespace {

constexpr std::string_view kWipeLine = "\r\033[K";

std::mutex& StderrMutex() {
  static std::mutex mutex;
  return mutex;
}
bool bar_drawn = false;  // guarded by StderrMutex

// One write(2) a call where the kernel takes it, so lines of several processes do not mix. Nowhere to report a failure.
void WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

void WriteStderrLine(std::string_view line) {
  const std::lock_guard lock(StderrMutex());
  std::string text(bar_drawn ? kWipeLine : "");
  bar_drawn = false;
  WriteAll(text.append(line));
}

void WriteStderrBar(std::string_view text) {
  const std::lock_guard lock(StderrMutex());
  bar_drawn = true;
  WriteAll(std::string(kWipeLine).append(text));
}

void EndStderrBar(bool keep) {
  const std::lock_guard lock(StderrMutex());
  if (bar_drawn) WriteAll(keep ? "\n" : kWipeLine);
  bar_drawn = false;
}

}  // namespace lshformer
