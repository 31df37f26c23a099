// Reading ahead: lines that are worked on together.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "io/gzip.h"

namespace lshformer {

struct WindowLine {
  std::string text, where;  // where: "file.jsonl:812"
  std::string error;        // not empty: the line was refused (LineTooLong)
};

// Appends lines to an empty window: at most `most_lines`, no more once they hold `most_bytes`, and fewer where input
// comes slowly, so that nobody waits for an answer to what is already there. False after the last window.
bool ReadWindow(LineReader& reader, size_t most_lines, size_t most_bytes, std::vector<WindowLine>& window);

}  // namespace lshformer
