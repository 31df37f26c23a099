// Any bytes as an index of passages: rows that can all be read and are what a writer writes, or an Error of one line.
// An input is the front's object, a line end, and rows: the blanks that fill the front up are put in between.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "fuzz/memory_file.h"
#include "fuzz/parses.h"
#include "io/passage_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  using testing::Check;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  std::string bytes(input.substr(0, std::min(input.find('\n'), static_cast<size_t>(kIndexFrontBytes) - 1)));
  bytes.resize(kIndexFrontBytes - 1, ' ');
  bytes += "\n";
  if (const size_t end = input.find('\n'); end != input.npos) bytes += input.substr(end + 1);
  const testing::MemoryFile file(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), "a.index");
  testing::Parses([&] {
    const PassageIndex index(file.path());
    index.Check();
    Check(index.bytes_of(index.rows()) <= std::ssize(bytes), "rows are in the file");
    Passage last;
    for (int64_t row = 0; row < index.rows(); ++row) {
      const Passage passage = index.passage(row);
      Check(passage.line > 0 && passage.start >= 0 && passage.end >= passage.start, "places are places");
      Check(passage.document >= last.document && passage.line >= last.line, "documents ascend");
      last = passage;
      const float* vector = index.vectors() + row * index.stride();
      for (int64_t i = 0; i < index.front().columns; ++i) Check(std::isfinite(vector[i]), "numbers are finite");
    }
  });
  return 0;
}
