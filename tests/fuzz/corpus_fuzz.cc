// Any bytes as raw text (gzip where they begin like it): rows of valid UTF-8, sequences of the asked length.
#include "base/logging.h"
#include "data/corpus.h"
#include "data/small_tokenizer.h"
#include "fuzz/memory_file.h"
#include "fuzz/parses.h"

namespace lshformer {
namespace {

const Tokenizer& Shared() {
  static const std::shared_ptr<const Tokenizer> tokenizer = [] {
    SetUpLogging("error", LogFormat::kText);  // replaced bytes are warned of once a file
    return testing::SmallTokenizer();
  }();
  return *tokenizer;
}

}  // namespace
}  // namespace lshformer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  using testing::Check;
  const Tokenizer& tokenizer = Shared();
  const testing::MemoryFile file(data, size, "a.txt");
  for (const bool line_by_line : {false, true}) {
    testing::Parses([&] {
      RowReader reader(file.path(), line_by_line);
      for (std::string row; reader.Next(row);)
        Check(!row.empty() && row.size() <= RowReader::kMaximalRow && IsValidUtf8(row), "rows are text");
      CorpusOptions options;
      options.line_by_line = line_by_line;
      options.max_seq_length = 8;
      CorpusStatistics statistics;
      const SequenceSet set = ReadCorpus({file.path()}, tokenizer, options, &statistics);
      Check(set.size() > 0 && set.max_length() <= 8, "sequences are as long as asked for");
      if (!line_by_line) Check(statistics.tokens == set.tokens() + statistics.dropped_tokens, "tokens are counted");
      for (int64_t i = 0; i < set.size(); ++i) {
        for (const int32_t id : set.ids(i)) Check(id >= 0 && id < tokenizer.vocab_size(), "ids are in range");
      }
    });
  }
  return 0;
}
