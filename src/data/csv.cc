#include "data/csv.h"

#include "base/error.h"
#include "base/files.h"
#include "data/file_kind.h"

namespace lshformer {

// Line ends within quotes belong to the field as they are.
CsvReader::CsvReader(const std::string& path)
    : name_(InputName(path)), lines_(path, {.longest = kLongestRecord, .strip_cr = false}) {}

std::string CsvReader::where() const { return fmt::format("{}:{}", name_, record_line_); }

bool CsvReader::NextLine() {
  if (!lines_.Next(line_)) return false;
  if (lines_.line_number() == 1) StripByteOrderMark(line_);
  return true;
}

// Appends what is in the quotes, the first of which is before `at`, and goes behind the closing one, if need be on
// later lines; false where there is none.
bool CsvReader::TakeQuoted(size_t& at, std::string& field) {
  while (true) {
    const size_t quote = line_.find('"', at);
    if (quote == line_.npos) {
      field.append(line_, at);
      if (field.size() > kLongestRecord) Fail("{}: the record is longer than {} bytes", where(), kLongestRecord);
      if (!NextLine()) return false;
      field += '\n';
      at = 0;
      continue;
    }
    field.append(line_, at, quote - at);
    at = quote + 1;
    if (at >= line_.size() || line_[at] != '"') return true;
    field += '"';
    ++at;
  }
}

bool CsvReader::Next(std::vector<std::string>& fields) {
  do {
    if (!NextLine()) return false;
  } while (line_.empty() || line_ == "\r");
  record_line_ = lines_.line_number();
  fields.clear();
  for (size_t at = 0;; ++at) {
    std::string& field = fields.emplace_back();
    if (at < line_.size() && line_[at] == '"' && !TakeQuoted(++at, field))
      Fail("{}: a quote is opened and never closed", where());
    const size_t comma = line_.find(',', at), end = std::min(comma, line_.size());
    std::string_view rest = std::string_view(line_).substr(at, end - at);
    if (comma == line_.npos && rest.ends_with('\r')) rest.remove_suffix(1);  // of the record's end, not of the field
    field += rest;
    if (comma == line_.npos) return true;
    at = comma;
  }
}

}  // namespace lshformer
