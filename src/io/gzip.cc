#include "io/gzip.h"

#include <poll.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/content_kind.h"
#include "base/error.h"
#include "base/files.h"

namespace lshformer {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 16;
constexpr size_t kKeptBytes = size_t{1} << 22;

}  // namespace

// The unpacked bytes of a file, one after another.
class LineReader::Source {
 public:
  explicit Source(const std::string& path) : path_(path), input_(kChunkBytes) {
    file_ = OpenInput(path);
    struct stat status {};
    if (fstat(file_, &status) == 0 && S_ISREG(status.st_mode)) bytes_total_ = status.st_size;
    try {
      while (input_end_ < 2 && ReadInput()) {  // a pipe may give one byte at a time
      }
    } catch (...) {
      CloseInput(file_);
      throw;
    }
    gzip_ = HasGzipMagic();
    if (gzip_) StartMember();
  }
  ~Source() {
    if (gzip_) inflateEnd(&stream_);
    CloseInput(file_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // What FrontOf has begun to read, else a new one.
  static std::unique_ptr<Source> Open(const std::string& path) {
    const std::lock_guard lock(begun_mutex);
    const auto found = begun.find(path);
    if (found == begun.end()) return std::make_unique<Source>(path);
    std::unique_ptr<Source> source = std::move(found->second);
    begun.erase(found);
    return source;
  }
  // The next Read gives `front` first.
  static void GiveBack(std::unique_ptr<Source> source, const std::string& front) {
    source->front_.replace(0, source->front_begin_, front);
    source->front_begin_ = 0;
    const std::lock_guard lock(begun_mutex);
    begun[source->path_] = std::move(source);
  }

  int64_t bytes_read() const { return bytes_read_; }
  int64_t bytes_total() const { return bytes_total_; }
  bool gzip() const { return gzip_; }

  bool Ready() const {
    if (front_begin_ < front_.size()) return true;
    pollfd request{file_, POLLIN, 0};
    return bytes_total_ > 0 || input_begin_ < input_end_ || poll(&request, 1, 0) != 0;
  }

  // Up to `bytes` unpacked bytes; 0 at the end. The first call, of kContentFront bytes or more, refuses what is no
  // text.
  size_t Read(char* data, size_t bytes) {
    if (front_begin_ < front_.size()) {
      const size_t got = front_.copy(data, bytes, front_begin_);
      front_begin_ += got;
      if (front_begin_ == front_.size()) std::string().swap(front_), front_begin_ = 0;
      return got;
    }
    size_t got = ReadUnpacked(data, bytes);
    if (std::exchange(looked_at_, true)) return got;
    while (got > 0 && MayBecomeForeign({data, got})) {
      const size_t more = ReadUnpacked(data + got, bytes - got);
      if (more == 0) break;
      got += more;
    }
    RefuseForeignContent({data, got}, InputName(path_), {.unpacks_gzip = false, .text_of_any_kind = true});
    return got;
  }

 private:
  size_t ReadUnpacked(char* data, size_t bytes) {
    if (gzip_) return Inflate(data, bytes);
    if (input_begin_ == input_end_ && !ReadInput()) return 0;
    const size_t count = std::min(bytes, input_end_ - input_begin_);
    std::memcpy(data, input_.data() + input_begin_, count);
    input_begin_ += count;
    return count;
  }

  bool HasGzipMagic() const {
    return input_end_ - input_begin_ >= 2 && input_[input_begin_] == 0x1F && input_[input_begin_ + 1] == 0x8B;
  }

  // Adds to the unread input; false at the end of the file.
  bool ReadInput() {
    if (input_begin_ == input_end_) input_begin_ = input_end_ = 0;
    if (input_begin_ > 0 && input_end_ == input_.size()) {
      std::copy(input_.begin() + input_begin_, input_.begin() + input_end_, input_.begin());
      input_end_ -= input_begin_;
      input_begin_ = 0;
    }
    const size_t got = ReadSome(file_, input_.data() + input_end_, input_.size() - input_end_, path_);
    input_end_ += got;
    bytes_read_ += static_cast<int64_t>(got);
    return got > 0;
  }

  void StartMember() {
    stream_ = {};
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) Fail("{}: no memory for gzip", InputName(path_));
    in_member_ = true;
  }

  size_t Inflate(char* data, size_t bytes) {
    size_t done = 0;
    while (done == 0) {
      if (!in_member_ && !NextMember()) return 0;
      if (input_begin_ == input_end_ && !ReadInput())
        Fail("{}: the gzip data ends early (truncated file?)", InputName(path_));
      stream_.next_in = input_.data() + input_begin_;
      stream_.avail_in = static_cast<uInt>(input_end_ - input_begin_);
      stream_.next_out = reinterpret_cast<Bytef*>(data);
      stream_.avail_out = static_cast<uInt>(std::min<size_t>(bytes, kChunkBytes));
      const uInt room = stream_.avail_out;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      input_begin_ = input_end_ - stream_.avail_in;
      done = room - stream_.avail_out;
      if (result == Z_STREAM_END) {
        in_member_ = false;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        Fail("{}: damaged gzip data near byte {}: {}", InputName(path_), bytes_read_ - (input_end_ - input_begin_),
             stream_.msg ? stream_.msg : "unexpected end");
      }
    }
    return done;
  }

  // After a member: another one, zeros that pad a tape block, or the end.
  bool NextMember() {
    while (true) {
      while (input_begin_ < input_end_ && input_[input_begin_] == 0) ++input_begin_;
      if (input_end_ - input_begin_ >= 2) break;
      if (!ReadInput()) {
        if (input_begin_ == input_end_) return false;
        break;
      }
    }
    if (!HasGzipMagic()) Fail("{}: bytes after the gzip data are not gzip", InputName(path_));
    inflateEnd(&stream_);
    StartMember();
    return true;
  }

  static inline std::mutex begun_mutex;
  static inline std::map<std::string, std::unique_ptr<Source>> begun;  // by path

  std::string path_, front_;
  int file_ = -1;
  std::vector<uint8_t> input_;
  size_t front_begin_ = 0, input_begin_ = 0, input_end_ = 0;
  int64_t bytes_read_ = 0, bytes_total_ = 0;
  bool gzip_ = false, in_member_ = false, looked_at_ = false;
  z_stream stream_{};
};

LineReader::LineReader(const std::string& path, const LineOptions& options)
    : path_(path), options_(options), source_(Source::Open(path)) {}

LineReader::~LineReader() = default;

std::string LineReader::where() const { return fmt::format("{}:{}", InputName(path_), line_number_); }
int64_t LineReader::bytes_read() const { return source_->bytes_read(); }
int64_t LineReader::bytes_total() const { return source_->bytes_total(); }

bool LineReader::Ready() const { return at_end_ || buffer_.find('\n', begin_) != buffer_.npos || source_->Ready(); }

bool LineReader::Fill() {
  if (at_end_) return false;
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t old = buffer_.size();
  buffer_.resize(old + kChunkBytes);
  const size_t got = source_->Read(buffer_.data() + old, buffer_.size() - old);
  buffer_.resize(old + got);
  at_end_ = got == 0;
  return !at_end_;
}

bool LineReader::Next(std::string& line) {
  while (skipping_) {
    const size_t newline = buffer_.find('\n', begin_);
    begin_ = newline == buffer_.npos ? buffer_.size() : newline + 1;
    skipping_ = newline == buffer_.npos && Fill();
  }
  size_t newline, searched = begin_;
  while ((newline = buffer_.find('\n', searched)) == buffer_.npos) {
    const size_t unread = buffer_.size() - begin_;
    // One more byte: the '\r' of the line's end.
    if (unread > options_.longest + 1) break;
    if (!Fill()) break;
    searched = begin_ + unread;
  }
  if (newline == buffer_.npos && buffer_.size() == begin_) return false;
  ++line_number_;
  const size_t end = newline == buffer_.npos ? buffer_.size() : newline;
  std::string_view text = std::string_view(buffer_).substr(begin_, end - begin_);
  if (options_.strip_cr && text.ends_with('\r')) text.remove_suffix(1);
  if (text.size() > options_.longest) {
    begin_ = std::min(end + 1, buffer_.size());
    skipping_ = newline == buffer_.npos;
    throw LineTooLong(fmt::format("{}: the line is longer than {} bytes", where(), options_.longest));
  }
  const size_t after = std::min(end + 1, buffer_.size());
  if (text.size() > kKeptBytes) {
    // A long line leaves with the buffer: for a moment a copy would take its memory twice.
    const size_t size = text.size();
    std::string rest = buffer_.substr(after);
    buffer_.erase(0, begin_);
    buffer_.resize(size);
    line = std::exchange(buffer_, std::move(rest));
    begin_ = 0;
  } else {
    line.assign(text);
    begin_ = after;
  }
  return true;
}

bool CanBeReadAgain(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  return path != "-" && (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status) ||
                         std::filesystem::is_directory(status));
}

std::string FrontOf(const std::string& path, size_t bytes) {
  std::unique_ptr<LineReader::Source> source = LineReader::Source::Open(path);
  std::string front(bytes, '\0');
  size_t end = 0;
  while (end < bytes) {
    const size_t got = source->Read(front.data() + end, bytes - end);
    if (got == 0) break;
    end += got;
  }
  front.resize(end);
  if (!CanBeReadAgain(path)) LineReader::Source::GiveBack(std::move(source), front);
  return front;
}

std::string ReadText(const std::string& path, uint64_t limit) {
  std::string text, chunk(kChunkBytes, '\0');
  const std::unique_ptr<LineReader::Source> opened = LineReader::Source::Open(path);
  LineReader::Source& source = *opened;
  const auto refuse_long = [&](uint64_t size) {
    if (size > limit) Fail("{}: has more than {} bytes", InputName(path), limit);
  };
  if (!source.gzip()) refuse_long(static_cast<uint64_t>(source.bytes_total()));
  while (const size_t got = source.Read(chunk.data(), chunk.size())) {
    refuse_long(text.size() + got);
    text.append(chunk, 0, got);
  }
  return text;
}

}  // namespace lshformer
