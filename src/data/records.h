// Tables as records of fields, the header being the first: lines of TSV (tabs part, quotes are literal), or CSV
// (data/csv.h) where the name ends in .csv. Plain or gzip, UTF-8 (BOM allowed), LF or CRLF.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/csv.h"
#include "io/gzip.h"

namespace lshformer {

std::vector<std::string> SplitTabs(std::string_view line);

class Records {
 public:
  explicit Records(const std::string& path);
  const char* separator() const { return csv_ ? "commas" : "tabs"; }
  std::string where() const { return csv_ ? csv_->where() : lines_->where(); }
  int64_t line_number() const { return csv_ ? csv_->line_number() : lines_->line_number(); }

  // The next one, empty lines left out; false at the end. Error naming the line: invalid UTF-8.
  bool Next(std::vector<std::string>& fields);

 private:
  bool NextLine();

  std::optional<CsvReader> csv_;
  std::optional<LineReader> lines_;
  std::string line_;
};

}  // namespace lshformer
