#include "data/file_kind.h"

#include "base/lower_case.h"

namespace lshformer {

std::string DataExtension(std::string_view path) {
  const size_t slash = path.rfind('/');
  std::string name = LowerCase(std::string(slash == std::string_view::npos ? path : path.substr(slash + 1)));
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(dot + 1);
}

bool IsJsonLines(std::string_view path) {
  const std::string extension = DataExtension(path);
  return extension == "jsonl" || extension == "json";
}

bool IsBlank(std::string_view text) { return text.find_first_not_of(" \t\r\n\f\v") == text.npos; }

void StripByteOrderMark(std::string& line) {
  if (line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
}

}  // namespace lshformer
