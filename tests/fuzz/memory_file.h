// Bytes under a path, for readers that take files; never touches a disk.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace lshformer::testing {

class MemoryFile {
 public:
  // `name` ends the path, so that an extension can choose a format: the file is reached through a link of that name.
  MemoryFile(const uint8_t* data, size_t size, const char* name) : file_(memfd_create(name, MFD_CLOEXEC)) {
    if (file_ < 0) std::abort();
    for (size_t done = 0; done < size;) {
      const ssize_t written = write(file_, data + done, size - done);
      if (written <= 0) std::abort();
      done += static_cast<size_t>(written);
    }
    path_ = "/tmp/lshformer-fuzz-" + std::to_string(getpid()) + "-" + name;
    unlink(path_.c_str());
    if (symlink(("/proc/self/fd/" + std::to_string(file_)).c_str(), path_.c_str()) != 0) std::abort();
  }
  ~MemoryFile() {
    unlink(path_.c_str());
    close(file_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  int file_;
  std::string path_;
};

}  // namespace lshformer::testing
