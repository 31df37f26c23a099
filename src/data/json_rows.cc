#include "data/json_rows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "data/file_kind.h"

namespace lshformer {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

size_t SkipSpace(std::string_view text, size_t at) { return std::min(text.find_first_not_of(kSpace, at), text.size()); }

// Behind the string that begins at `at`; npos without an end.
size_t EndOfString(std::string_view text, size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      return at + 1;
  }
  return text.npos;
}

// Behind the value that begins at `at`, by its brackets and quotes alone; npos without an end.
size_t EndOfValue(std::string_view text, size_t at) {
  size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = EndOfString(text, at);
      if (at == text.npos) return at;
    } else if (c == '{' || c == '[') {
      ++depth, ++at;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return at;
      --depth, ++at;
    } else if (depth > 0) {
      ++at;
      continue;
    } else {
      return std::min(text.find_first_of(",]} \t\r\n", at), text.size());
    }
    if (depth == 0) return at;
  }
  return text.npos;
}

// Whether what stands at `at` ends a value or parts two.
bool IsNoValue(std::string_view text, size_t at) {
  return at < text.size() && std::string_view(",]}:").find(text[at]) != std::string_view::npos;
}

// Of the object at `at`: where its member "data" begins, a list of objects, or an empty one that has nothing but a
// "version" beside it; npos where it has none.
size_t FindData(std::string_view text, size_t at) {
  size_t empty = text.npos;
  bool others = false;
  for (at = SkipSpace(text, at + 1); at < text.size() && text[at] == '"'; at = SkipSpace(text, at + 1)) {
    const size_t key = at, key_end = EndOfString(text, at);
    if (key_end == text.npos) return key_end;
    at = SkipSpace(text, key_end);
    if (at == text.size() || text[at] != ':') return text.npos;
    at = SkipSpace(text, at + 1);
    const std::string_view name = text.substr(key, key_end - key);
    if (name == "\"data\"" && at < text.size() && text[at] == '[') {
      const size_t first = SkipSpace(text, at + 1);
      if (first < text.size() && text[first] == '{') return at;
      if (first == text.size() || text[first] != ']') return text.npos;
      empty = at;
    } else {
      others |= name != "\"version\"";
    }
    at = EndOfValue(text, at);
    if (at == text.npos) return at;
    at = SkipSpace(text, at);
    if (at < text.size() && text[at] == '}' && !others) return empty;
    if (at == text.size() || text[at] != ',') return text.npos;
  }
  return text.npos;
}

}  // namespace

const Json& GetList(const Json& object, std::string_view key, std::string_view where) {
  const auto found = object.find(key);
  if (found == object.end()) Fail("{}: \"{}\" is missing", where, key);
  if (!found->is_array()) Fail("{}: \"{}\": expected a list, got {}", where, key, ShownValue(*found));
  return *found;
}

JsonRows::JsonRows(const std::string& path, const JsonLimits& of_a_row)
    : name_(InputName(path)), limits_(of_a_row), lines_(std::make_unique<LineReader>(path)) {}

JsonRows::JsonRows(std::string text, std::string name, const JsonLimits& of_a_row)
    : name_(std::move(name)), limits_(of_a_row), memory_(std::move(text)) {}

// The next line into line_.
bool JsonRows::NextLine() {
  if (std::exchange(has_next_, false)) {
    line_ = std::move(next_line_);
  } else if (lines_ != nullptr) {
    if (!lines_->Next(line_)) return false;
  } else {
    if (memory_at_ >= memory_.size()) return false;
    const size_t end = std::min(memory_.find('\n', memory_at_), memory_.size());
    if (memory_at_ == 0 && end == memory_.size())
      line_ = std::exchange(memory_, {});
    else
      line_ = memory_.substr(memory_at_, end - memory_at_);
    memory_at_ = end + 1;
  }
  if (++line_number_ == 1) StripByteOrderMark(line_);
  return true;
}

bool JsonRows::NextFullLine() {
  while (NextLine())
    if (!IsBlank(line_)) return true;
  return false;
}

// The line at hand and all that follow it.
void JsonRows::KeepWhole() {
  const int64_t first = line_number_;
  text_ = std::move(line_);
  while (NextLine()) {
    text_ += '\n';
    text_ += line_;
    if (text_.size() > kMostBytes)
      Fail("{}: has more than {} bytes, expected so many at most where a row is not a line", name_, kMostBytes);
  }
  row_line_ = line_number_ = first_line_ = first;
}

void JsonRows::Begin() {
  form_ = Form::kEnd;
  if (!NextFullLine()) return;
  const size_t begin = SkipSpace(line_, 0);
  if (line_[begin] == '[') {
    form_ = Form::kList;
    KeepWhole();
    list_begin_ = begin;
  } else if (line_[begin] == '{' && EndOfValue(line_, begin) == std::string::npos) {
    KeepWhole();
    list_begin_ = FindData(text_, begin);
    form_ = list_begin_ == std::string::npos ? Form::kOne : Form::kList;
  } else {
    form_ = Form::kLines;
    has_line_ = true;
    const size_t data = line_[begin] == '{' ? FindData(line_, begin) : std::string::npos;
    if (data == std::string::npos) return;
    // Rows may have such a member too: the only line alone is a file's object.
    std::string only = std::exchange(line_, {});
    const int64_t number = line_number_;
    const bool more = NextFullLine();
    if (more) next_line_ = std::move(line_), has_next_ = true, line_number_ = number;
    line_ = std::move(only);
    if (more) return;
    form_ = Form::kList;
    line_number_ = first_line_ = number;
    text_ = std::move(line_);
    list_begin_ = data;
  }
  if (form_ != Form::kList) return;
  line_number_ += std::count(text_.begin(), text_.begin() + static_cast<int64_t>(list_begin_), '\n');
  at_ = list_begin_ + 1;
}

bool JsonRows::Next(Json& row) {
  if (form_ == Form::kUnknown) Begin();
  if (form_ == Form::kEnd) return false;
  if (form_ == Form::kList) return NextOfList(row);
  if (form_ == Form::kOne) {
    form_ = Form::kEnd;
    one_ = true;
    row = Parse(text_);
    text_.clear();
    return true;
  }
  if (!std::exchange(has_line_, false) && !NextFullLine()) return false;
  row_line_ = line_number_;
  row = Parse(line_);
  return true;
}

bool JsonRows::NextOfList(Json& row) {
  const auto skip_to = [&](size_t place) {
    line_number_ +=
        std::count(text_.begin() + static_cast<int64_t>(at_), text_.begin() + static_cast<int64_t>(place), '\n');
    at_ = place;
  };
  skip_to(SkipSpace(text_, at_));
  row_line_ = line_number_;
  if (at_ < text_.size() && text_[at_] == ']') {
    FinishList();
    return false;
  }
  if (std::exchange(in_list_, true)) {
    if (at_ < text_.size() && text_[at_] != ',') Fail("{}: expected ',' or ']' behind a row", where());
    skip_to(SkipSpace(text_, std::min(at_ + 1, text_.size())));
    if (IsNoValue(text_, at_)) Fail("{}: a comma too many: expected a row behind it, got '{}'", where(), text_[at_]);
    row_line_ = line_number_;
  }
  if (IsNoValue(text_, at_)) Fail("{}: expected a row, got '{}'", where(), text_[at_]);
  const size_t end = at_ < text_.size() ? EndOfValue(text_, at_) : std::string::npos;
  if (end == std::string::npos) Fail("{}: the list of rows has no end (truncated file?)", where());
  row = Parse(std::string_view(text_).substr(at_, end - at_));
  skip_to(end);
  return true;
}

// What stands around the list must be JSON as well. Its rows, which are, leave their room, so that an error names the
// place in the file.
void JsonRows::FinishList() {
  form_ = Form::kEnd;
  std::replace_if(
      text_.begin() + static_cast<int64_t>(list_begin_) + 1, text_.begin() + static_cast<int64_t>(at_),
      [](char c) { return c != '\n'; }, ' ');
  text_.insert(0, static_cast<size_t>(first_line_ - 1), '\n');
  ParseJson(text_, name_, limits_);
  text_.clear();
}

// Blanks in place of what stands before a row that is no line: all of its line, and lines where it has several.
std::string JsonRows::Before(std::string_view row) const {
  if (text_.empty() || row.data() < text_.data() || row.data() >= text_.data() + text_.size()) return "";
  const auto at = static_cast<size_t>(row.data() - text_.data());
  const size_t newline = at == 0 ? text_.npos : text_.rfind('\n', at - 1);
  std::string before(newline == text_.npos ? at : at - newline - 1, ' ');
  if (row.find('\n') != row.npos) before.insert(0, static_cast<size_t>(row_line_ - 1), '\n');
  return before;
}

Json JsonRows::Parse(std::string_view text) const {
  Json row;
  try {
    row = ParseJson(text, where(), limits_);
  } catch (const Error&) {
    const std::string before = Before(text);
    if (before.empty()) throw;
    row = ParseJson(before + std::string(text), where(), limits_);  // throws with the place in the file
  }
  if (!row.is_object()) Fail("{}: expected a JSON object, got {}", where(), ShownValue(row));
  return row;
}

}  // namespace lshformer
