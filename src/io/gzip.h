// Lines of text from a plain file, a .gz file or "-" (stdin), in bounded memory.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"

namespace lshformer {

// The line is refused, the file is not: Next goes on with the line after it.
class LineTooLong : public Error {
 public:
  using Error::Error;
};

struct LineOptions {
  size_t longest = size_t{64} << 20;  // bytes of a line without its end; a longer one throws LineTooLong
  bool strip_cr = true;               // "\r\n" ends a line as "\n" does
};

// Gzip is recognised by its first two bytes, not by the name; members laid end to end are read as one file (RFC 1952).
// Errors: LineTooLong; content that is no text (base/content_kind.h); cannot open, a folder, damaged or truncated gzip.
class LineReader {
 public:
  explicit LineReader(const std::string& path, const LineOptions& options = {});
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next line without its end; false at the end of the file. A last line needs no end; an empty file has no line.
  bool Next(std::string& line);
  // Whether Next has a line (or the end) at hand, or at least input to look at: what an answering program asks before
  // it waits for more. Always true of regular files.
  bool Ready() const;
  int64_t line_number() const { return line_number_; }  // of the line that Next gave last, from 1
  std::string where() const;                            // "train.jsonl:812"
  // Bytes of the file read so far (compressed ones), and its size: 0 for a pipe. For progress and for seeking later.
  int64_t bytes_read() const;
  int64_t bytes_total() const;

 private:
  friend std::string FrontOf(const std::string& path, size_t bytes);
  friend std::string ReadText(const std::string& path, uint64_t limit);
  class Source;
  bool Fill();

  std::string path_;
  LineOptions options_;
  std::unique_ptr<Source> source_;
  std::string buffer_;
  size_t begin_ = 0;  // of the unread part of buffer_
  bool at_end_ = false, skipping_ = false;
  int64_t line_number_ = 0;
};

// False of stdin ("-"), pipes and devices: what they give is gone once it is read. True of what is not there.
bool CanBeReadAgain(const std::string& path);

// The first `bytes` unpacked bytes of an input, or all there are. What cannot be read again has them still for the one
// that opens it next in this process. Errors as LineReader's.
std::string FrontOf(const std::string& path, size_t bytes);

// A whole text file, plain or gzip ("-": stdin); Error if it unpacks to more than `limit` bytes.
std::string ReadText(const std::string& path, uint64_t limit = uint64_t{1} << 32);

}  // namespace lshformer
