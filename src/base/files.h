// Files: whole reads with limits, and writes that a crash or a full disk cannot leave half done.
#pragma once
#include <cstdint>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

namespace lshformer {

// Reads a whole regular file (or pipe); Error if missing, a directory, unreadable or longer than `limit`.
std::string ReadFile(const std::string& path, uint64_t limit = uint64_t{1} << 32);

// Writes `path` so that it is either the old or the new file: to a temporary name beside it, fsync, rename, fsync of the
// folder. "-" is stdout; devices and pipes are written directly. Error names path and cause (disk full, not writable).
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();  // without Commit: removes the temporary file
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void Write(const void* data, size_t bytes);
  void Write(std::string_view text) { Write(text.data(), text.size()); }
  void Flush();   // hands what was written to the kernel (streams of results on pipes)
  void Commit();

 private:
  std::string path_, temporary_;
  int file_ = -1;
  bool direct_ = false, committed_ = false;
  std::string buffer_;
};

void WriteFileAtomically(const std::string& path, std::string_view contents);

// Creates `path` and its parents. Error if that cannot be done or it is not a folder.
void MakeFolder(const std::string& path);

// True if the folder is missing or has no entry.
bool IsEmptyFolder(const std::string& path);

}  // namespace lshformer
