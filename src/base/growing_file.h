// A file that outlives the process which writes it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace lshformer {

// Grows under a name of its own and is in the end renamed to where it belongs. What was flushed stands there whatever
// becomes of the process, and another one goes on behind it. Whoever uses it keeps others out (folder_lock.h).
class GrowingFile {
 public:
  // Opens `path`, made where it is missing, and cuts it after `bytes`. Errors call it `name`: the file it is to become.
  GrowingFile(const std::string& path, const std::string& name, int64_t bytes);
  ~GrowingFile();  // what was not flushed is lost
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  void Write(std::string_view bytes);
  void Flush();
  void WriteBeginning(std::string_view bytes);  // over what stands there
  // To the disk, then into the place of `target`, whose permissions it takes over. Nothing is written afterwards.
  void MoveTo(const std::string& target);

 private:
  std::string path_, name_, buffer_;
  int file_;
};

}  // namespace lshformer
