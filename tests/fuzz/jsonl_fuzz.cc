// Any bytes as rows of JSON: labelled texts and rows of a corpus, or an Error of one line.
#include "data/classification.h"
#include "data/corpus.h"
#include "fuzz/memory_file.h"
#include "fuzz/parses.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  using testing::Check;
  const testing::MemoryFile file(data, size, "a.jsonl");
  for (const bool need_label : {true, false}) {
    testing::Parses([&] {
      const TextTable table = ReadTextTable(file.path(), need_label);
      Check(table.rows() > 0 && table.lines.size() == table.texts.size(), "a row a line");
      Check(table.pairs.empty() || table.pairs.size() == table.texts.size(), "all rows have a pair or none");
      const size_t labels = table.multi_label() ? table.label_sets.size() : table.labels.size();
      Check(!need_label || labels == table.texts.size(), "all rows have the label asked for");
      if (table.multi_label()) {
        const std::vector<std::string> names = DiscoverLabels(table);
        for (const std::vector<float>& flags : LabelFlags(table, names))
          Check(flags.size() == names.size(), "a flag a label");
      }
      for (const std::string& text : table.texts) Check(IsValidUtf8(text), "texts are UTF-8");
    });
  }
  testing::Parses([&] {
    RowReader reader(file.path(), false);
    for (std::string row; reader.Next(row);)
      Check(!row.empty() && row.size() <= RowReader::kMaximalRow && IsValidUtf8(row), "rows are text");
  });
  return 0;
}
