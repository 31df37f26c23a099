#include "data/file_kind.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/files.h"
#include "base/lower_case.h"
#include "io/gzip.h"

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
  return extension == "jsonl" || extension == "json" || extension == "ndjson";
}

bool HoldsJson(const std::string& path) {
  if (IsJsonLines(path)) return true;
  constexpr size_t kMost = LineOptions().longest;
  constexpr std::string_view kSpace = " \t\r\n";
  try {
    for (size_t bytes = size_t{1} << 16;; bytes = std::min(bytes * 16, kMost)) {
      std::string front = FrontOf(path, bytes);
      const bool more = front.size() == bytes && bytes < kMost;
      StripByteOrderMark(front);
      const size_t first = front.find_first_not_of(kSpace);
      const size_t second = first == front.npos ? first : front.find_first_not_of(kSpace, first + 1);
      if (second == front.npos) {
        if (!more) return false;
      } else if (front[first] == '[') {
        return front[second] == '{' || front[second] == '[';
      } else if (front[first] != '{') {
        return false;
      } else if (const size_t end = front.find('\n', first); end != front.npos || !more) {
        // Prose may begin with a brace; a line that is a whole object does not.
        return Json::accept(front.substr(first, end - first));
      }
    }
  } catch (const Error&) {
    return false;  // whoever reads the file says what is wrong with it
  }
}

bool IsTable(std::string_view path) {
  const std::string extension = DataExtension(path);
  return extension == "tsv" || extension == "csv";
}

void RefuseTable(const std::string& path) {
  if (IsTable(path)) Fail("{}: a table, expected plain text or JSON lines with \"text\"", InputName(path));
}

void RefuseOtherKind(const std::string& output, std::initializer_list<std::string_view> own, std::string_view written) {
  constexpr std::string_view kKinds[] = {
      "npy",   "npz",     "safetensors", "pt",      "pth",   "pkl", "pickle", "h5",   "hdf5", "mat", "onnx", "csv",
      "tsv",   "xls",     "xlsx",        "parquet", "arrow", "orc", "avro",   "json", "html", "htm", "xml",  "pdf",
      "jsonl", "feather", "yaml",        "yml",     "tar",   "tgz", "zip",    "7z",   "bz2",  "xz",  "zst",  "svg"};
  const std::string extension = DataExtension(output);
  const auto is = [&](std::string_view kind) { return kind == extension; };
  if (std::any_of(std::begin(kKinds), std::end(kKinds), is) && std::none_of(own.begin(), own.end(), is))
    FailOption("output", "{}: another kind of file than what is written: {}", Shown(output, 120), written);
}

bool IsBlank(std::string_view text) { return text.find_first_not_of(" \t\r\n\f\v") == text.npos; }

void StripByteOrderMark(std::string& line) {
  if (line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
}

}  // namespace lshformer
