// Files: whole reads with limits, and writes that a crash or a full disk cannot leave half done.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/temporaries.h"

namespace lshformer {

// Opens descriptors 0 to 2 where the program was started without them: a file opened later would get such a number, and
// progress, log lines and results would be written into it. Call it first in main. They are opened the wrong way round,
// so that reading and writing still fails: closed input is no empty input, and lost results are no success.
void OpenStandardDescriptors();

// What an error calls the file that a path names: "stdin" for "-", else the path, fit for a line.
std::string InputName(const std::string& path);
// The same of a file to write: "standard output" for "-".
std::string OutputName(const std::string& path);

// A path as the settings of a run keep it: the same from every working folder, control characters and bytes that
// are no UTF-8 escaped, since JSON cannot hold them. "" and "-" stay.
std::string CanonicalPath(const std::string& path);

// A descriptor to read `path` from, "-" being stdin; CloseInput leaves that one open. Opening a named pipe waits for a
// writer; a signal ends the wait. Error if it cannot be opened, is a folder, or stdin is closed.
int OpenInput(const std::string& path);
void CloseInput(int file);

// Reads a whole regular file (or pipe; "-" is stdin); Error if missing, a directory, unreadable or longer than `limit`.
std::string ReadFile(const std::string& path, uint64_t limit = uint64_t{1} << 32);

// Writes `path` so that it is either the old or the new file: to a temporary name beside it, fsync, rename, fsync of
// the folder. A link is followed and stays. "-", devices and pipes are written directly, without a promise. An existing
// file keeps its permissions. Error names path and cause (disk full, not writable, the reader closed the pipe).
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();  // without Commit: removes the temporary file
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void Write(const void* data, size_t bytes);
  void Write(std::string_view text) { Write(text.data(), text.size()); }
  void Flush();  // hands what was written to the kernel (streams of results on pipes)
  void Commit();

 private:
  void OpenTemporary();
  void WriteOut(const char* data, size_t bytes);
  [[noreturn]] void FailWrite(int error) const;

  std::string path_;       // as given, for errors
  std::string target_;     // links followed
  std::string temporary_;  // beside target_
  TemporaryName name_;     // of temporary_, for a signal that ends the process at once
  int file_ = -1;
  bool direct_ = false;  // stdout, a device or a pipe
  std::string buffer_;
};

// Whether an AtomicFile has such a name until it is committed. A process that is killed leaves it behind.
bool IsTemporaryFile(std::string_view name);

// Reads some bytes, 0 at the end. Unlike read(2) it is not cut short by signals, but ends with Interrupted when one of
// them asks to stop while it waits for a pipe or terminal. Error names `path`.
size_t ReadSome(int file, void* data, size_t bytes, const std::string& path);

void WriteFileAtomically(const std::string& path, std::string_view contents);

// Creates `path` and its parents. Error if that cannot be done or it is not a folder.
void MakeFolder(const std::string& path);

// True if the folder is missing or has no entry.
bool IsEmptyFolder(const std::string& path);
// The file or folder at the end of a chain of links; it need not exist. Error where the chain has no end.
std::string FollowLinks(const std::string& path);

}  // namespace lshformer
