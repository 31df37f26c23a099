// Any bytes as CSV: records that give the same bytes when written and read again, and tables of them, or an Error of
// one line.
#include "data/classification.h"
#include "data/csv.h"
#include "fuzz/memory_file.h"
#include "fuzz/parses.h"

namespace {

using namespace lshformer;
using testing::Check;
using Records = std::vector<std::vector<std::string>>;

Records Read(const std::string& path) {
  CsvReader reader(path);
  Records records;
  int64_t line = 0;
  for (std::vector<std::string> fields; reader.Next(fields);) {
    Check(!fields.empty() && reader.line_number() > line, "a record has fields, and lines ascend");
    line = reader.line_number();
    records.push_back(fields);
  }
  return records;
}

std::string Written(const Records& records) {
  std::string text;
  for (const std::vector<std::string>& record : records) {
    for (size_t i = 0; i < record.size(); ++i) {
      text += i == 0 ? "\"" : ",\"";
      for (const char c : record[i]) text += c == '"' ? "\"\"" : std::string(1, c);
      text += '"';
    }
    text += "\r\n";
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Records records;
  {
    const testing::MemoryFile file(data, size, "a.csv");
    if (!testing::Parses([&] { records = Read(file.path()); })) return 0;
    testing::Parses([&] {
      const TextTable table = ReadTextTable(file.path(), true);
      Check(table.labels.size() == table.texts.size() && !table.texts.empty(), "a label a row");
    });
  }
  const std::string text = Written(records);
  if (text.find('\0') != text.npos) return 0;  // which may look like UTF-16 by now
  const testing::MemoryFile again(reinterpret_cast<const uint8_t*>(text.data()), text.size(), "b.csv");
  Check(Read(again.path()) == records, "what was read is what was written");
  return 0;
}
