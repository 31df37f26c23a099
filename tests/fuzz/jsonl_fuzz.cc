// Any bytes as JSONL: labelled texts and rows of a corpus, or an Error of one line.
#include <cstdlib>

#include "base/error.h"
#include "data/classification.h"
#include "data/corpus.h"
#include "fuzz/memory_file.h"

namespace lshformer {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
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
  const testing::MemoryFile file(data, size, "a.jsonl");
  for (const bool need_label : {true, false}) {
    Try([&] {
      const TextTable table = ReadTextTable(file.path(), need_label);
      Check(table.rows() > 0 && table.lines.size() == table.texts.size());
      Check(table.pairs.empty() || table.pairs.size() == table.texts.size());
      Check(need_label ? table.labels.size() == table.texts.size() : true);
      for (const std::string& text : table.texts) Check(IsValidUtf8(text));
    });
  }
  Try([&] {
    RowReader reader(file.path(), false);
    for (std::string row; reader.Next(row);)
      Check(!row.empty() && row.size() <= RowReader::kMaximalRow && IsValidUtf8(row));
  });
  return 0;
}
