#include "data/word_vectors.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/number.h"
#include "base/progress.h"
#include "base/signals.h"
#include "data/file_kind.h"
#include "io/gzip.h"
#include "text/tokenizer.h"

namespace lshformer {
namespace {

constexpr size_t kLongestLine = size_t{1} << 20;

// "0.27204": what a word's last part hardly is, and the first of too many numbers is.
bool IsFraction(std::string_view field) {
  const std::optional<double> number = ParseNumber<double>(field);
  return number && std::isfinite(*number) && field.find('.') != field.npos;
}

struct Header {
  int64_t vectors, width;
};
std::optional<Header> ReadHeader(std::string_view line) {
  const size_t space = std::min(line.find(' '), line.size());
  const auto vectors = ParseNumber<int64_t>(line.substr(0, space));
  const auto width = space < line.size() ? ParseNumber<int64_t>(line.substr(space + 1)) : std::nullopt;
  if (!vectors || !width) return std::nullopt;
  return Header{*vectors, *width};
}

void CheckWidth(int64_t width, const std::string& where) {
  if (width < 1 || width > WordVectors::kWidest)
    Fail("{}: expected a word and 1 to {} numbers, got {} numbers", where, WordVectors::kWidest, width);
}

// Where the last `width` fields of the line begin: the place of the space before them.
size_t EndOfWord(std::string_view line, int64_t width, const std::string& path, int64_t number) {
  const auto fail = [&](const char* what) {
    Fail("{}:{}: expected a word and {} numbers, got {}", path, number, width, what);
  };
  size_t at = line.size();
  for (int64_t field = 0; field < width; ++field) {
    if (at == 0 || (at = line.rfind(' ', at - 1)) == line.npos) fail("fewer");
  }
  if (at == 0) fail("no word");
  const std::string_view word = line.substr(0, at);
  if (const size_t space = word.rfind(' '); space != word.npos && IsFraction(word.substr(space + 1))) fail("more");
  return at;
}

void AppendNumbers(std::string_view numbers, const std::string& path, int64_t number, std::vector<float>& values) {
  while (!numbers.empty()) {
    const size_t end = std::min(numbers.find(' ', 1), numbers.size());
    const std::string_view field = numbers.substr(1, end - 1);
    const std::optional<double> value = ParseNumber<double>(field);
    if (!value || !std::isfinite(static_cast<float>(*value)))
      Fail("{}:{}: expected a finite number, got \"{}\"", path, number, Shown(field));
    values.push_back(static_cast<float>(*value));
    numbers.remove_prefix(end);
  }
}

// The next line, without a space at its end, which word2vec writes.
bool NextLine(LineReader& lines, const std::string& name, std::string& line) {
  if (!lines.Next(line)) return false;
  if (lines.line_number() == 1) StripByteOrderMark(line);
  if (line.ends_with(' ')) line.pop_back();
  if (line.find('\0') != line.npos) Fail("{}:{}: expected text, got a zero byte", name, lines.line_number());
  if (!IsValidUtf8(line)) Fail("{}:{}: expected UTF-8, got \"{}\"", name, lines.line_number(), Shown(line));
  return true;
}

}  // namespace

WordVectors ReadWordVectors(const std::string& path, const std::function<bool(std::string_view)>& wanted) {
  LineReader lines(path, {.longest = kLongestLine});
  const std::string name = InputName(path);
  Progress progress("reading " + name, lines.bytes_total(), "bytes");
  WordVectors vectors;
  std::unordered_set<std::string> seen;
  std::string line;
  if (!NextLine(lines, name, line)) Fail("{}: expected a word and its numbers a line, got an empty file", name);
  const std::optional<Header> header = ReadHeader(line);
  vectors.width = header ? header->width : std::count(line.begin(), line.end(), ' ');
  CheckWidth(vectors.width, lines.where());
  int64_t rows = 0;
  for (bool more = header ? NextLine(lines, name, line) : true; more; more = NextLine(lines, name, line)) {
    const int64_t number = lines.line_number();
    const size_t end = EndOfWord(line, vectors.width, name, number);
    const std::string_view word = std::string_view(line).substr(0, end);
    ++rows;
    if (wanted(word)) {
      if (!seen.emplace(word).second) Fail("{}:{}: \"{}\" for the second time", name, number, Shown(word));
      AppendNumbers(std::string_view(line).substr(end), name, number, vectors.values);
      vectors.words.emplace_back(word);
    }
    if (rows % 1024 != 0) continue;
    ThrowIfStopped("reading word vectors");
    progress.Update(lines.bytes_read());
  }
  if (rows == 0) Fail("{}: expected a word and its numbers a line, got the header alone", name);
  if (header && rows != header->vectors)
    Fail("{}:{}: expected {} vectors as line 1 says, got {}", name, lines.line_number(), header->vectors, rows);
  progress.Finish();
  return vectors;
}

void WriteWordVectors(AtomicFile& file, const WordVectors& vectors) {
  file.Write(fmt::format("{} {}\n", vectors.words.size(), vectors.width));
  std::string row;
  for (size_t i = 0; i < vectors.words.size(); ++i) {
    const std::string& word = vectors.words[i];
    if (word.empty() || word.find_first_of("\r\n") != word.npos)
      Fail("word vectors: a word must be one line, got \"{}\"", Shown(word));
    row = word;
    for (int64_t d = 0; d < vectors.width; ++d) {
      const float value = vectors.values[i * static_cast<size_t>(vectors.width) + static_cast<size_t>(d)];
      if (!std::isfinite(value)) Fail("word vectors: that of \"{}\" is not finite", Shown(word));
      fmt::format_to(std::back_inserter(row), " {}", value);
    }
    file.Write(row += '\n');
  }
}

}  // namespace lshformer
