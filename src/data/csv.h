// Comma-separated values (RFC 4180): fields between commas; one in quotes may have commas, line ends and, doubled,
// quotes in it. LF or CRLF, UTF-8 (BOM allowed), plain or gzip. As Python's reader has it, quotes within an unquoted
// field are literal, and what follows a closing quote belongs to the field.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "io/gzip.h"

namespace lshformer {

class CsvReader {
 public:
  static constexpr size_t kLongestRecord = size_t{64} << 20;  // bytes, as of a line

  explicit CsvReader(const std::string& path);
  // The next record, empty lines left out; false at the end. Error naming the line where the record begins: a quote
  // that is never closed, a record that is too long.
  bool Next(std::vector<std::string>& fields);
  std::string where() const;  // "train.csv:812", where the record begins
  int64_t line_number() const { return record_line_; }

 private:
  bool NextLine();
  bool TakeQuoted(size_t& at, std::string& field);

  std::string name_;
  LineReader lines_;
  std::string line_;  // a line as it stands in the file, without its LF
  int64_t record_line_ = 0;
};

}  // namespace lshformer
