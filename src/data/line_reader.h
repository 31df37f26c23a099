// Lines of a plain or gzip file, of stdin ("-") or of memory, in bounded memory.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lshformer {

// A line ends in "\n" or "\r\n" (neither is part of it); the last one may lack both. A UTF-8 byte order mark before the
// first line is dropped. gzip is recognised by its first two bytes, whatever the name; members may follow one another.
// NUL is an ordinary byte. Errors name the path: missing, a folder, unreadable, broken gzip, a line over kMaximalLine.
class LineReader {
 public:
  static constexpr size_t kMaximalLine = size_t{64} << 20;

  explicit LineReader(std::string path);
  LineReader(std::string name, std::string_view memory);  // plain text; `memory` outlives the reader
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  bool Next(std::string_view& line);             // false at the end; the view holds until the next call
  int64_t number() const { return number_; }     // of the last line, from 1
  int64_t bytes_read() const { return bytes_; }  // uncompressed
  const std::string& path() const { return path_; }
  std::string Where() const;  // "path:12"

 private:
  bool Fill();
  std::string path_;
  void* file_ = nullptr;  // gzFile
  std::string buffer_;
  size_t position_ = 0;  // of the next line in buffer_
  bool end_ = false;
  int64_t number_ = 0, bytes_ = 0;
};

// "train.tsv.gz" → "tsv"; lower case; "" if there is none.
std::string DataExtension(std::string_view path);

}  // namespace lshformer
