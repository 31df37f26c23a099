#include "data/records.h"

#include "base/error.h"
#include "data/file_kind.h"
#include "text/tokenizer.h"

namespace lshformer {

std::vector<std::string> SplitTabs(std::string_view line) {
  std::vector<std::string> fields;
  size_t begin = 0;
  for (size_t tab; (tab = line.find('\t', begin)) != std::string_view::npos; begin = tab + 1) {
    fields.emplace_back(line.substr(begin, tab - begin));
  }
  fields.emplace_back(line.substr(begin));
  return fields;
}

Records::Records(const std::string& path) {
  if (DataExtension(path) == "csv")
    csv_.emplace(path);
  else
    lines_.emplace(path);
}

bool Records::Next(std::vector<std::string>& fields) {
  if (csv_ ? !csv_->Next(fields) : !NextLine()) return false;
  if (!csv_) fields = SplitTabs(line_);
  for (const std::string& field : fields)
    if (!IsValidUtf8(field)) Fail("{}: is not valid UTF-8", where());
  return true;
}

bool Records::NextLine() {
  do {
    if (!lines_->Next(line_)) return false;
    if (lines_->line_number() == 1) StripByteOrderMark(line_);
  } while (line_.empty());
  return true;
}

}  // namespace lshformer
