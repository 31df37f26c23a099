#include "base/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/lower_case.h"
#include "base/signals.h"
#include "base/writing.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = size_t{1} << 18;

class FileHandle {
 public:
  explicit FileHandle(int file) : file_(file) {}
  ~FileHandle() { CloseInput(file_); }
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

// The open file that a path such as /dev/stdout or /proc/self/fd/3 stands for. Opening those anew would start at offset
// 0 of a redirected file, and replacing them by rename would cut the shell's redirection.
std::optional<int> StandsForDescriptor(const std::string& path) {
  if (path == "-" || path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder) || path.size() == folder.size() || path.size() > folder.size() + 6) continue;
    const std::string digits = path.substr(folder.size());
    if (digits.find_first_not_of("0123456789") == digits.npos) return std::stoi(digits);
  }
  return std::nullopt;
}

// Whether a descriptor is open for the direction that `unfit` does not have: O_WRONLY asks about reading.
bool IsOpenFor(int file, int unfit) {
  const int flags = fcntl(file, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != unfit;
}

}  // namespace

std::string WriteCause(int error) { return error == ENOSPC || error == EDQUOT ? "disk full" : std::strerror(error); }

void FailWrite(const std::string& name, int error) {
  if (error == EPIPE) Fail("{}: cannot write: the reader closed the pipe", name);
  Fail("{}: cannot write: {}", name, WriteCause(error));
}

void WriteAll(int file, std::string_view bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) FailWrite(name, errno);
      pollfd request{file, POLLOUT, 0};  // somebody made stdout non-blocking
      poll(&request, 1, -1);
      continue;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

std::string ParentFolder(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

void SyncFolder(const std::string& folder) {
  const FileHandle handle(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() >= 0) fsync(handle.get());
}

OutputPlace PlaceOfOutput(const std::string& path) {
  if (path.empty()) Fail("the name of an output file is empty");
  if (LowerCase(path).ends_with(".gz"))
    Fail("{}: files are written plain; use - and pipe through gzip", Shown(path, 120));
  OutputPlace place{FollowLinks(path), std::nullopt, false};
  place.descriptor = StandsForDescriptor(place.target);
  struct stat status {};
  const bool other = !place.descriptor && stat(place.target.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  if (other && S_ISDIR(status.st_mode)) Fail("{}: is a folder, expected a file", Shown(path, 120));
  place.direct = place.descriptor || other;
  return place;
}

bool MayReplace(const std::string& target) {
  return faccessat(AT_FDCWD, target.c_str(), F_OK, AT_EACCESS) != 0 ||
         faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) == 0;
}

void RefuseInputAsOutput(std::string_view name, const std::string& input, const std::string& output,
                         std::string_view output_name) {
  const auto status_of = [](const std::string& path, int standard, struct stat& status) {
    return path == "-" ? fstat(standard, &status) == 0 : stat(path.c_str(), &status) == 0;
  };
  struct stat from {
  }, to{};
  if (status_of(input, STDIN_FILENO, from) && status_of(output, STDOUT_FILENO, to) && S_ISREG(from.st_mode) &&
      from.st_dev == to.st_dev && from.st_ino == to.st_ino)
    FailOption(output_name, "{} is the file of {} too", OutputName(output), OptionName{name});
}

void OpenStandardDescriptors() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(file, F_GETFD) >= 0) continue;
    // Takes the lowest free number, which is `file`: those below it are open by now.
    open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

std::string CanonicalPath(const std::string& path) {
  if (path.empty() || path == "-") return path;
  std::error_code error;
  const auto canonical = std::filesystem::weakly_canonical(path, error);
  return Shown(error ? path : canonical.string(), std::string::npos);
}

std::string InputName(const std::string& path) { return path == "-" ? "stdin" : Shown(path, 120); }
std::string OutputName(const std::string& path) { return path == "-" ? "standard output" : Shown(path, 120); }

int OpenInput(const std::string& path) {
  const bool is_stdin = path == "-" || path == "/dev/stdin" || StandsForDescriptor(path) == STDIN_FILENO;
  if (is_stdin && !IsOpenFor(STDIN_FILENO, O_WRONLY)) Fail("stdin: is closed, expected input");
  if (path == "-") return STDIN_FILENO;
  int file = -1;
  while ((file = open(path.c_str(), O_RDONLY | O_CLOEXEC)) < 0 && errno == EINTR) ThrowIfStopped("reading");
  if (file < 0) Fail("{}: cannot open: {}", InputName(path), std::strerror(errno));
  struct stat status {};
  if (fstat(file, &status) == 0 && S_ISDIR(status.st_mode)) {
    close(file);
    Fail("{}: is a folder, expected a file", InputName(path));
  }
  return file;
}

void CloseInput(int file) {
  if (file > STDIN_FILENO) close(file);
}

size_t ReadSome(int file, void* data, size_t bytes, const std::string& path) {
  struct stat status {};
  const bool waits = fstat(file, &status) == 0 && !S_ISREG(status.st_mode);
  while (true) {
    if (waits) {
      // A signal between the test and the read would be missed for as long as no input comes; so never wait for long.
      constexpr int kMilliseconds = 200;
      pollfd request{file, POLLIN, 0};
      const int ready = poll(&request, 1, kMilliseconds);
      ThrowIfStopped("reading");  // also while input comes without end
      if (ready <= 0) continue;
    }
    const ssize_t got = read(file, data, bytes);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno == EINTR || errno == EAGAIN) continue;
    Fail("{}: cannot read: {}", InputName(path), std::strerror(errno));
  }
}

std::string FollowLinks(const std::string& path) {
  constexpr int kMostLinks = 40;  // Linux's own limit
  fs::path target = path;
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code error;
    if (StandsForDescriptor(target.string())) return target.string();
    if (!fs::is_symlink(fs::symlink_status(target, error))) return target.string();
    const fs::path next = fs::read_symlink(target, error);
    if (error) Fail("{}: cannot follow the link: {}", Shown(path, 120), error.message());
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  Fail("{}: cannot follow the link: too many links", Shown(path, 120));
}

std::string ReadFile(const std::string& path, uint64_t limit) {
  const FileHandle handle(OpenInput(path));
  const auto refuse_long = [&](uint64_t size) {
    if (size > limit) Fail("{}: has more than {} bytes", InputName(path), limit);
  };
  std::string contents;
  struct stat status {};
  if (fstat(handle.get(), &status) == 0 && S_ISREG(status.st_mode)) {
    refuse_long(static_cast<uint64_t>(status.st_size));
    contents.reserve(static_cast<size_t>(status.st_size) + 1);
  }
  while (true) {  // to the real end: files of /proc have size 0, and a file may grow
    const size_t old = contents.size();
    contents.resize(std::max(contents.capacity(), old + kBufferBytes));
    const size_t got = ReadSome(handle.get(), contents.data() + old, contents.size() - old, path);
    contents.resize(old + got);
    if (got == 0) return contents;
    refuse_long(contents.size());
  }
}

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  const OutputPlace place = PlaceOfOutput(path);
  target_ = place.target;
  direct_ = place.direct;
  if (place.descriptor) {
    errno = EBADF;
    if (IsOpenFor(*place.descriptor, O_RDONLY)) file_ = fcntl(*place.descriptor, F_DUPFD_CLOEXEC, 3);
  } else if (direct_) {
    file_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  } else {
    OpenTemporary();
  }
  if (file_ < 0) Fail("{}: cannot write: {}", OutputName(path_), WriteCause(errno));
}

bool IsTemporaryFile(std::string_view name) { return name.starts_with(".lshformer-") && name.ends_with(".tmp"); }

void AtomicFile::OpenTemporary() {
  struct stat old {};
  const bool exists = stat(target_.c_str(), &old) == 0;
  if (!MayReplace(target_)) return;
  static std::atomic<uint64_t> count{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    // Short, so that a name of the greatest length can be written; the process number keeps runs apart.
    temporary_ = fmt::format("{}/.lshformer-{}-{}.tmp", ParentFolder(target_), getpid(), count++);
    name_.Set(temporary_);  // first: a signal may come in between
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ >= 0 || errno != EEXIST) break;
  }
  if (file_ < 0) {
    name_.Clear();
    temporary_.clear();
    return;
  }
  flock(file_, LOCK_EX | LOCK_NB);  // says that it is in use (leftovers.h); where locks are missing its number does
  if (exists) fchmod(file_, old.st_mode & 0777);
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) close(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::FailWrite(int error) const { lshformer::FailWrite(OutputName(path_), error); }

void AtomicFile::WriteOut(const char* data, size_t bytes) { WriteAll(file_, {data, bytes}, OutputName(path_)); }

void AtomicFile::Write(const void* data, size_t bytes) {
  if (buffer_.size() + bytes > kBufferBytes) Flush();
  if (bytes >= kBufferBytes)
    WriteOut(static_cast<const char*>(data), bytes);
  else
    buffer_.append(static_cast<const char*>(data), bytes);
}

void AtomicFile::Flush() {
  const std::string pending = std::exchange(buffer_, {});
  WriteOut(pending.data(), pending.size());
}

void AtomicFile::Commit() {
  Flush();
  // Pipes and terminals cannot be synced (EINVAL); a regular file that cannot has lost data.
  if (fsync(file_) != 0 && !direct_) FailWrite(errno);
  const int file = std::exchange(file_, -1);
  if (close(file) != 0 && errno != EINTR) FailWrite(errno);
  if (direct_) return;
  if (rename(temporary_.c_str(), target_.c_str()) != 0) FailWrite(errno);
  temporary_.clear();
  name_.Clear();
  SyncFolder(ParentFolder(target_));
}

void WriteFileAtomically(const std::string& path, std::string_view contents) {
  AtomicFile file(path);
  file.Write(contents);
  file.Commit();
}

void MakeFolder(const std::string& path) {
  // Another process may delete it, or a parent, while it is being made: then once more. A link to nothing stays one.
  constexpr int kAttempts = 100;
  std::error_code error, status_error;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    fs::create_directories(path, error);
    const fs::file_status status = fs::status(path, status_error);
    if (fs::is_directory(status)) return;
    if (fs::exists(status)) Fail("{}: is a file, expected a folder", Shown(path, 120));
    if (error && error != std::errc::file_exists && error != std::errc::no_such_file_or_directory) break;
  }
  Fail("{}: cannot make the folder: {}", Shown(path, 120), WriteCause(error ? error.value() : status_error.value()));
}

bool IsEmptyFolder(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
      Fail("{}: {}", Shown(path, 120), error.message());
    return true;
  }
  if (!fs::is_directory(status)) Fail("{}: is a file, expected a folder", Shown(path, 120));
  const fs::directory_iterator entries(path, error);
  if (error) Fail("{}: cannot read the folder: {}", Shown(path, 120), error.message());
  return entries == fs::directory_iterator();
}

}  // namespace lshformer
