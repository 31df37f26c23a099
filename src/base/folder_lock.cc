#include "base/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/files.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

// The number that the file holds; 0 where it holds none.
pid_t ProcessIn(int file) {
  char text[32];
  const ssize_t length = pread(file, text, sizeof text, 0);
  pid_t process = 0;
  if (length > 0) std::from_chars(text, text + length, process);
  return std::max(process, 0);
}

bool IsAlive(pid_t process) { return kill(process, 0) == 0 || errno != ESRCH; }

}  // namespace

FolderLock::FolderLock(const std::string& folder, const std::string& what, const std::string& guarded)
    : folder_(folder),
      path_(folder + "/" + kLockFile),
      what_(what),
      shown_(Shown(guarded.empty() ? folder : guarded, 120)) {
  std::error_code error;
  for (fs::path path = fs::absolute(folder).lexically_normal(); !fs::exists(path, error); path = path.parent_path())
    made_.push_back(path.string());
  // Whoever leaves the folder at this moment may delete the file, or the folder that it had made, under our hands.
  constexpr int kAttempts = 1000;
  try {
    for (int attempt = 0; attempt < kAttempts && !TryLock(); ++attempt) {
    }
  } catch (...) {
    Release();
    throw;
  }
}

FolderLock::~FolderLock() { Release(); }

bool FolderLock::TryLock() {
  MakeFolder(folder_);
  const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) return errno != ENOENT;
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    const int cause = errno;
    if (cause == EWOULDBLOCK) FailInUse(file);
    close(file);
    if (cause == EINTR) return false;
    unlink(path_.c_str());  // no locks here, so it is of no use
    return true;
  }
  struct stat locked {
  }, named{};
  if (fstat(file, &locked) != 0 || lstat(path_.c_str(), &named) != 0 || locked.st_ino != named.st_ino ||
      locked.st_dev != named.st_dev) {
    close(file);
    return false;
  }
  file_ = file;
  name_.Set(path_);
  const std::string process = fmt::format("{}\n", getpid());
  // For people and for the error line alone, so a disk that is full does not matter here.
  [[maybe_unused]] const bool written = ftruncate(file, 0) == 0 && pwrite(file, process.data(), process.size(), 0) >= 0;
  return true;
}

void FolderLock::FailInUse(int file) const {
  // A moment after it was locked the file still holds nothing, or the number of one who was killed.
  constexpr auto kPatience = std::chrono::seconds(1);
  constexpr auto kPause = std::chrono::milliseconds(10);
  const auto begin = std::chrono::steady_clock::now();
  pid_t process = ProcessIn(file);
  while ((process == 0 || !IsAlive(process)) && std::chrono::steady_clock::now() - begin < kPatience) {
    std::this_thread::sleep_for(kPause);
    process = ProcessIn(file);
  }
  close(file);
  const std::string holder = process == 0 ? "another process" : fmt::format("process {}", process);
  throw FolderInUse(fmt::format("{}: {} is in use by {}", what_, shown_, holder));
}

void FolderLock::Release() {
  if (file_ >= 0) {
    unlink(path_.c_str());  // before the lock goes: nobody can have locked another file of this name
    name_.Clear();
    close(file_);
    file_ = -1;
  }
  std::error_code ignored;
  for (const std::string& folder : made_) fs::remove(folder, ignored);  // only if empty
}

bool IsEmptyButForLock(const std::string& folder) {
  if (IsEmptyFolder(folder)) return true;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().filename() != kLockFile) return false;
  return !error;
}

}  // namespace lshformer
