#include "base/growing_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/writing.h"

namespace lshformer {
namespace {

constexpr size_t kPendingBytes = size_t{1} << 18;

}  // namespace

GrowingFile::GrowingFile(const std::string& path, const std::string& name, int64_t bytes)
    : path_(path), name_(name), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) {
  if (file_ < 0 || ftruncate(file_, bytes) != 0 || lseek(file_, 0, SEEK_END) < 0) {
    const int cause = errno;
    if (file_ >= 0) close(file_);
    FailWrite(name_, cause);
  }
}

GrowingFile::~GrowingFile() {
  if (file_ >= 0) close(file_);
}

void GrowingFile::Write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > kPendingBytes) Flush();
  if (bytes.size() >= kPendingBytes)
    WriteAll(file_, bytes, name_);
  else
    buffer_.append(bytes);
}

void GrowingFile::Flush() {
  const std::string pending = std::exchange(buffer_, {});
  WriteAll(file_, pending, name_);
}

void GrowingFile::WriteBeginning(std::string_view bytes) {
  Flush();
  if (lseek(file_, 0, SEEK_SET) < 0) FailWrite(name_, errno);
  WriteAll(file_, bytes, name_);
  if (lseek(file_, 0, SEEK_END) < 0) FailWrite(name_, errno);
}

void GrowingFile::MoveTo(const std::string& target) {
  Flush();
  struct stat old {};
  if (stat(target.c_str(), &old) == 0) fchmod(file_, old.st_mode & 0777);
  if (fsync(file_) != 0) FailWrite(name_, errno);
  if (close(std::exchange(file_, -1)) != 0 && errno != EINTR) FailWrite(name_, errno);
  if (rename(path_.c_str(), target.c_str()) != 0) FailWrite(name_, errno);
  SyncFolder(ParentFolder(target));
}

}  // namespace lshformer
