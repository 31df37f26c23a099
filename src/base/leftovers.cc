#include "base/leftovers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/files.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

// ".lshformer-123-4.tmp" → 123; 0 where there is no process number.
pid_t ProcessOf(std::string_view name) {
  name.remove_prefix(std::min(name.find('-'), name.size() - 1) + 1);
  pid_t process = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
  const bool whole = error == std::errc() && end != name.data() + name.size() && *end == '-';
  return whole && process > 0 ? process : 0;
}

bool Lives(pid_t process) { return process != getpid() && (kill(process, 0) == 0 || errno != ESRCH); }

// Another machine's process, or that of another container, has no number here; but it holds the file's lock.
bool IsHeld(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return true;
  const bool held = flock(file, LOCK_EX | LOCK_NB) != 0;
  close(file);
  return held;
}

}  // namespace

void RemoveLeftovers(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (IsTemporaryFile(entry->path().filename().string())) found.push_back(entry->path().string());
  for (const std::string& path : found) {
    const pid_t process = ProcessOf(fs::path(path).filename().string());
    struct stat status {};
    if (process == 0 || Lives(process) || lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_uid != geteuid() || IsHeld(path))
      continue;
    unlink(path.c_str());
  }
}

}  // namespace lshformer
