#include "jobs/predict/unfinished_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/signals.h"
#include "jobs/run_folder.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

// ".lshformer-out.jsonl.predict" beside "out.jsonl"; of a long name, which may have 255 bytes, the beginning.
std::string FolderBeside(const std::string& target) {
  constexpr size_t kMostOfName = 200;
  const std::string name = fs::path(target).filename().string().substr(0, kMostOfName);
  return ParentFolder(target) + "/.lshformer-" + name + ".predict";
}

// A line's place in a file.
struct Place {
  int64_t begin = 0, end = 0;
};

std::string ReadPlace(int file, const Place& place, const std::string& path) {
  std::string text(static_cast<size_t>(place.end - place.begin), '\0');
  if (lseek(file, place.begin, SEEK_SET) < 0) Fail("{}: cannot read", Shown(path, 120));
  for (size_t got = 0, more = 1; got < text.size(); got += more) {
    more = ReadSome(file, text.data() + got, text.size() - got, path);
    if (more == 0) Fail("{}: became shorter while it was being read", Shown(path, 120));
  }
  return text;
}

// Answers end in "]}", errors in a text (infer/line_queries.h).
constexpr std::string_view kEndOfError = "\"}\n";

std::string ErrorOf(const std::string& line, const std::string& path) {
  const Json object = ParseJson(line, Shown(path, 120));
  return object.is_object() && HasValue(object, "error") ? GetString(object, "error", path) : "";
}

void RefuseOtherRecord(const Json& before, const Json& now, const std::string& output) {
  Json keys = now;
  keys.update(before);
  for (const auto& [key, unused] : keys.items()) {
    const Json earlier = before.value(key, Json()), value = now.value(key, Json());
    if (earlier == value) continue;
    const std::string begun = fmt::format("{}: {} was begun", OptionName{"resume"}, Shown(output, 120));
    constexpr const char* kAdvice = "resume with the same, or start anew without it";
    if (key.ends_with(" digest")) FailUsage("{} with another {}; {}", begun, key.substr(0, key.find(' ')), kAdvice);
    const std::string option = Marked(key);
    FailUsage("{} {}, {}; {}", begun, SettingThen(option, earlier, option + " "), SettingNow(option, value), kAdvice);
  }
}

}  // namespace

KeptLines ReadKeptLines(const std::string& path) {
  KeptLines kept;
  std::string buffer(size_t{1} << 20, '\0'), tail;  // tail: the last bytes before the piece
  Place last, bad;
  const int file = OpenInput(path);
  try {
    int64_t read = 0;
    while (const size_t got = ReadSome(file, buffer.data(), buffer.size(), path)) {
      ThrowIfStopped("reading");
      const std::string_view piece(buffer.data(), got);
      for (size_t end = piece.find('\n'); end != piece.npos; end = piece.find('\n', end + 1)) {
        last = {last.end, read + static_cast<int64_t>(end) + 1};
        const std::string before =
            tail + std::string(piece.substr(end >= 2 ? end - 2 : 0, std::min(end, size_t{2}) + 1));
        kept.last_is_bad = before.ends_with(kEndOfError);
        if (kept.last_is_bad && ++kept.bad == 1) bad = last;
        ++kept.lines;
      }
      tail = (tail + std::string(piece.substr(piece.size() - std::min(piece.size(), size_t{2}))));
      tail.erase(0, tail.size() - std::min(tail.size(), size_t{2}));
      read += static_cast<int64_t>(got);
    }
    kept.bytes = last.end;
    kept.last = ReadPlace(file, last, path);
    if (kept.bad > 0) kept.first_error = ErrorOf(ReadPlace(file, bad, path), path);
  } catch (...) {
    CloseInput(file);
    throw;
  }
  CloseInput(file);
  return kept;
}

UnfinishedOutput::UnfinishedOutput(const std::string& output, const OutputPlace& place)
    : output_(output), folder_(FolderBeside(place.target)), place_(place) {
  // The lock's folder would be made with all above it, and an error would name that.
  const std::string parent = ParentFolder(place.target);
  if (faccessat(AT_FDCWD, parent.c_str(), W_OK | X_OK, AT_EACCESS) != 0) FailWrite(OutputName(output), errno);
  if (!fs::is_directory(parent)) FailWrite(OutputName(output), ENOTDIR);
  if (!MayReplace(place.target)) FailWrite(OutputName(output), EACCES);
  lock_ = std::make_unique<FolderLock>(folder_, Marked("output"));
}

UnfinishedOutput::~UnfinishedOutput() {
  std::error_code ignored;
  file_.reset();
  fs::remove(rows(), ignored);
  fs::remove(copy(), ignored);
  if (!keep_) {
    fs::remove(lines(), ignored);
    fs::remove(record_file(), ignored);
  }
  lock_.reset();
  fs::remove(folder_, ignored);  // if it is empty
}

void UnfinishedOutput::Begin(Json record) {
  begins_ = true;
  record_ = std::move(record);
}

const KeptLines& UnfinishedOutput::Resume(Json record) {
  record_ = std::move(record);
  if (fs::exists(record_file())) RefuseOtherRecord(ReadJsonObject(record_file()), record_, output_);
  kept_in_output_ = !fs::exists(lines());
  if (!kept_in_output_ || fs::exists(place_.target)) kept_ = ReadKeptLines(kept_in_output_ ? place_.target : lines());
  begins_ = kept_.lines == 0;
  return kept_;
}

void UnfinishedOutput::Open() {
  if (file_) return;
  if (begins_) {
    std::error_code ignored;
    for (const std::string& left : {lines(), record_file()}) fs::remove(left, ignored);
    keep_ = false;
  }
  if (record_.is_object()) {
    GrowingFile record(copy(), OutputName(output_), /*bytes=*/0);  // an error names what the user does
    record.Write(record_.dump(2) + "\n");
    record.MoveTo(record_file());
  }
  if (kept_in_output_ && kept_.bytes > 0) {
    // Copied under another name, so that lines() never is a part of them.
    std::error_code error;
    fs::copy_file(place_.target, copy(), fs::copy_options::overwrite_existing, error);
    if (!error) fs::rename(copy(), lines(), error);
    if (error) FailWrite(OutputName(output_), error.value());
  }
  file_.emplace(lines(), OutputName(output_), kept_.bytes);
}

void UnfinishedOutput::Write(std::string_view text) {
  Open();
  file_->Write(text);
}

void UnfinishedOutput::Flush() {
  if (file_) file_->Flush();
}

void UnfinishedOutput::Commit(bool whole) {
  std::error_code error;
  const bool there = kept_in_output_ && kept_.bytes > 0 &&
                     fs::file_size(place_.target, error) == static_cast<uintmax_t>(kept_.bytes) && !error;
  if (file_ || !there) {
    Open();
    file_->MoveTo(place_.target);
    file_.reset();
  }
  keep_ = !whole && record_.is_object();
}

bool UnfinishedOutput::Keep() {
  keep_ = record_.is_object();
  return keep_;
}

}  // namespace lshformer
