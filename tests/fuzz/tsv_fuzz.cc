// Any bytes as a TSV: a table whose parts fit together, or an Error of one line.
#include <cstdlib>

#include "base/error.h"
#include "data/classification.h"
#include "fuzz/memory_file.h"

namespace lshformer {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

void CheckTable(const TextTable& table) {
  const size_t rows = static_cast<size_t>(table.rows());
  Check(rows > 0 && table.lines.size() == rows);
  Check(table.pairs.empty() || table.pairs.size() == rows);
  Check(table.labels.empty() || table.labels.size() == rows);
  for (size_t i = 0; i < rows; ++i) {
    Check(IsValidUtf8(table.texts[i]));
    Check(i == 0 || table.lines[i] > table.lines[i - 1]);
  }
}

template <class Action>
void Try(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    Check(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

}  // namespace
}  // namespace lshformer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  const testing::MemoryFile file(data, size, "a.tsv");
  Try([&] {
    const TextTable table = ReadTextTable(file.path(), true);
    CheckTable(table);
    const std::vector<std::string> names = DiscoverLabels(table);
    for (const int32_t id : LabelIds(table, names)) Check(id >= 0 && id < static_cast<int32_t>(names.size()));
  });
  Try([&] { CheckTable(ReadTextTable(file.path(), false)); });
  Try([&] { CheckTable(ReadGlueFile(FindGlueTask("qqp"), file.path(), true)); });
  return 0;
}
