// Reading ahead: lines that are worked on together.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "io/gzip.h"

namespace lshformer {

struct LineAhead {
  std::string text, where;  // where: "file.jsonl:812"
  std::string error;        // not empty: the line was refused (LineTooLong)
};

// Appends to an empty list: at most `most_lines`, no more once they hold `most_bytes`, and fewer where input
// comes slowly, so that nobody waits for an answer to what is already there. False once the reader has no more.
bool ReadLinesAhead(LineReader& reader, size_t most_lines, size_t most_bytes, std::vector<LineAhead>& lines);

}  // namespace lshformer
