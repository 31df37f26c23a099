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
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOurs = ".lshformer-", kStaged = ".part", kUnfinished = ".unfinished";
constexpr size_t kMostOfName = 200;  // of the 255 that a name may have

// ".lshformer-123-4.tmp" → 123; 0 where there is no process number.
pid_t ProcessOf(std::string_view name) {
  name.remove_prefix(std::min(name.find('-'), name.size() - 1) + 1);
  pid_t process = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
  const bool whole = error == std::errc() && end != name.data() + name.size() && *end == '-';
  return whole && process > 0 ? process : 0;
}

bool Lives(pid_t process) { return process != getpid() && (kill(process, 0) == 0 || errno != ESRCH); }

// ".lshformer-out", what the names of "out"'s folders begin with.
std::string StagedStem(const fs::path& whole) {
  return std::string(kOurs) + whole.filename().string().substr(0, kMostOfName);
}

// ".lshformer-out.123.part" beside "out" → 123; 0 where it is another name.
pid_t ProcessOfStaged(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem) || !name.ends_with(kStaged)) return 0;
  name.remove_suffix(kStaged.size());
  name.remove_prefix(stem.size());
  if (name.size() < 2 || name.front() != '.') return 0;
  pid_t process = 0;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), process);
  return error == std::errc() && end == name.data() + name.size() && process > 0 ? process : 0;
}

enum class Hold { kFree, kHeld, kUnknown };  // kUnknown: it cannot be opened, or there are no locks here

// Another machine's process, or that of another container, has no number here; but it holds the file's lock.
Hold HoldOf(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return Hold::kUnknown;
  const bool locked = flock(file, LOCK_SH | LOCK_NB) == 0;
  const Hold hold = locked ? Hold::kFree : errno == EWOULDBLOCK ? Hold::kHeld : Hold::kUnknown;
  close(file);
  return hold;
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
        status.st_uid != geteuid() || HoldOf(path) != Hold::kFree)
      continue;
    unlink(path.c_str());
  }
}

std::string StagedName(const std::string& path) {
  const fs::path whole(path);
  return (whole.parent_path() / (StagedStem(whole) + "." + std::to_string(getpid()) + std::string(kStaged))).string();
}

std::string UnfinishedName(const std::string& path) {
  const fs::path whole(path);
  return (whole.parent_path() / (StagedStem(whole) + std::string(kUnfinished))).string();
}

pid_t RemoveStagedLeftovers(const std::string& path) {
  const fs::path whole = fs::absolute(path);
  const std::string stem = StagedStem(whole);
  std::vector<std::pair<std::string, pid_t>> found;
  std::error_code error;
  for (fs::directory_iterator entry(whole.parent_path(), error), end; !error && entry != end; entry.increment(error)) {
    const pid_t process = ProcessOfStaged(entry->path().filename().string(), stem);
    if (process > 0) found.emplace_back(entry->path().string(), process);
  }
  pid_t holder = 0;
  for (const auto& [folder, process] : found) {
    struct stat status {};
    if (lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid()) continue;
    const Hold hold = HoldOf(folder);
    const bool lives = Lives(process);
    if (process != getpid() && (hold == Hold::kHeld || (hold == Hold::kUnknown && lives))) {
      holder = holder == 0 ? process : std::min(holder, process);
    } else if (hold == Hold::kFree && !lives) {
      std::error_code ignored;
      fs::remove_all(folder, ignored);
    }
  }
  return holder;
}

}  // namespace lshformer
