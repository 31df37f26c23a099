// Any bytes as a text file, plain or gzip: lines within their limit, the same text as when it is read whole, or an
// Error.
#include <cstdint>
#include <string>

#include "fuzz/memory_file.h"
#include "fuzz/parses.h"
#include "io/gzip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  using testing::Check;
  constexpr size_t kLongest = 1000, kMost = 1 << 20;
  const testing::MemoryFile file(data, size, "text");
  std::string whole, lines;
  bool too_long = false;
  const bool read_whole = testing::Parses([&] { whole = ReadText(file.path(), kMost); });
  const bool read_lines = testing::Parses([&] {
    LineReader reader(file.path(), {.longest = kLongest, .strip_cr = false});
    int64_t count = 0;
    for (std::string line; lines.size() <= kMost;) {
      bool more = false;
      const bool fits = testing::Parses([&] {
        try {
          more = reader.Next(line);
        } catch (const LineTooLong&) {
          too_long = more = true;
          line.clear();
        }
      });
      if (!fits) throw Error("damaged");
      if (!more) break;
      Check(line.size() <= kLongest && line.find('\n') == line.npos, "a line is one line within its limit");
      Check(reader.line_number() == ++count, "lines are counted");
      lines += line + "\n";
    }
  });
  if (!read_whole || !read_lines || too_long) return 0;
  if (!whole.empty() && whole.back() != '\n') whole += '\n';
  Check(lines == whole, "the lines are the text");
  return 0;
}
