// Any bytes as a TSV: a table whose parts fit together, or an Error of one line.
#include <spdlog/spdlog.h>

#include "data/glue.h"
#include "fuzz/memory_file.h"
#include "fuzz/parses.h"

namespace {

using namespace lshformer;
using testing::Check;

void CheckTable(const TextTable& table) {
  const size_t rows = static_cast<size_t>(table.rows());
  Check(rows > 0 && table.lines.size() == rows, "a row a line");
  Check(table.pairs.empty() || table.pairs.size() == rows, "all rows have a pair or none");
  Check(table.labels.empty() || table.labels.size() == rows, "all rows have a label or none");
  for (size_t i = 0; i < rows; ++i) {
    Check(IsValidUtf8(table.texts[i]), "texts are UTF-8");
    Check(i == 0 || table.lines[i] > table.lines[i - 1], "lines ascend");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = (spdlog::set_level(spdlog::level::off), true);  // rows left out are worth a warning
  testing::Check(quiet, "no log");
  const testing::MemoryFile file(data, size, "a.tsv");
  testing::Parses([&] {
    const TextTable table = ReadTextTable(file.path(), true);
    CheckTable(table);
    const std::vector<std::string> names = DiscoverLabels(table);
    for (const int32_t id : LabelIds(table, names))
      Check(id >= 0 && id < static_cast<int32_t>(names.size()), "labels have names");
  });
  testing::Parses([&] { CheckTable(ReadTextTable(file.path(), false)); });
  for (const char* task : {"qqp", "cola", "stsb"})
    testing::Parses([&] { CheckTable(ReadGlueFile(FindGlueTask(task), file.path(), true)); });
  return 0;
}
