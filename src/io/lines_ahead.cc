#include "io/lines_ahead.h"

#include <utility>

namespace lshformer {

bool ReadLinesAhead(LineReader& reader, size_t most_lines, size_t most_bytes, std::vector<LineAhead>& lines) {
  size_t bytes = 0;
  while (lines.size() < most_lines && bytes < most_bytes) {
    if (!lines.empty() && !reader.Ready()) return true;
    LineAhead line;
    try {
      if (!reader.Next(line.text)) return false;
    } catch (const LineTooLong& error) {
      line.error = error.what();
    }
    line.where = reader.where();
    bytes += line.text.size();
    lines.push_back(std::move(line));
  }
  return true;
}

}  // namespace lshformer
