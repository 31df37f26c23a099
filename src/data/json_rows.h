// Rows of JSON: objects, one after another, in the forms that data sets come in.
//
//   {…}            a line is a row (JSON lines); blank lines are left out
//   {…}
//   [{…}, {…}]     a list of rows, on one line or on many
//   {"data": [{…}, {…}], …}   the same under "data"; other members are ignored. Of an empty list only where it is alone
//                  or beside a "version"
//   {…             an object on several lines without such a list: the only row
//   }
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "io/gzip.h"

namespace lshformer {

// A member that is a list. Error naming `where` and the key: missing, or something else.
const Json& GetList(const Json& object, std::string_view key, std::string_view where);

class JsonRows {
 public:
  static constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of a file whose rows are not lines: it is kept whole

  // Plain or gzip. Where a line is a row, memory is bounded.
  JsonRows(const std::string& path, const JsonLimits& of_a_row);
  // Of a text in memory; errors name `name`.
  JsonRows(std::string text, std::string name, const JsonLimits& of_a_row);

  // The next row; false at the end. Error naming the file and the line where the row begins, or of what stands around
  // the rows the file and the place: invalid JSON, a row that is no object, a list without an end. Columns are the
  // file's own, and so are the lines inside a row.
  bool Next(Json& row);
  std::string where() const { return fmt::format("{}:{}", name_, row_line_); }  // where the row begins
  int64_t line_number() const { return row_line_; }
  bool in_list() const { return in_list_; }  // the row is one of a list
  bool is_one() const { return one_; }       // the row is an object on several lines
  int64_t bytes_read() const { return lines_ == nullptr ? 0 : lines_->bytes_read(); }  // of the file, for progress
  int64_t bytes_total() const { return lines_ == nullptr ? 0 : lines_->bytes_total(); }

 private:
  enum class Form { kUnknown, kLines, kList, kOne, kEnd };
  bool NextLine();
  bool NextFullLine();
  void Begin();
  void KeepWhole();
  bool NextOfList(Json& row);
  void FinishList();
  std::string Before(std::string_view row) const;
  Json Parse(std::string_view text) const;

  std::string name_;
  JsonLimits limits_;
  std::unique_ptr<LineReader> lines_;  // of a file; else of memory_
  std::string memory_;
  size_t memory_at_ = 0;
  std::string line_, next_line_;  // the line at hand; one that was read ahead
  bool has_line_ = false, has_next_ = false;
  int64_t line_number_ = 0, row_line_ = 0;
  std::string text_;                // what is kept whole
  int64_t first_line_ = 1;          // of text_
  size_t at_ = 0, list_begin_ = 0;  // in text_
  bool one_ = false;
  bool in_list_ = false;  // behind the first row
  Form form_ = Form::kUnknown;
};

}  // namespace lshformer
