#include "io/line_window.h"

#include <utility>

namespace lshformer {

bool ReadWindow(LineReader& reader, size_t most_lines, size_t most_bytes, std::vector<WindowLine>& window) {
  size_t bytes = 0;
  while (window.size() < most_lines && bytes < most_bytes) {
    if (!window.empty() && !reader.Ready()) return true;
    WindowLine line;
    try {
      if (!reader.Next(line.text)) return false;
    } catch (const LineTooLong& error) {
      line.error = error.what();
    }
    line.where = reader.where();
    bytes += line.text.size();
    window.push_back(std::move(line));
  }
  return true;
}

}  // namespace lshformer
