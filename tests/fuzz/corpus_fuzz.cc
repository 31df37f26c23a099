// Any bytes as raw text (gzip where they begin like it): rows of valid UTF-8, sequences of the asked length.
#include <cstdlib>

#include "base/error.h"
#include "base/logging.h"
#include "data/corpus.h"
#include "data/small_tokenizer.h"
#include "fuzz/memory_file.h"

namespace lshformer {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

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
  const Tokenizer& tokenizer = Shared();
  const testing::MemoryFile file(data, size, "a.txt");
  for (const bool line_by_line : {false, true}) {
    try {
      RowReader reader(file.path(), line_by_line);
      for (std::string row; reader.Next(row);)
        Check(!row.empty() && row.size() <= RowReader::kMaximalRow && IsValidUtf8(row));
      CorpusOptions options;
      options.line_by_line = line_by_line;
      options.max_seq_length = 8;
      CorpusStatistics statistics;
      const SequenceSet set = ReadCorpus({file.path()}, tokenizer, options, &statistics);
      Check(set.size() > 0 && set.max_length() <= 8);
      if (!line_by_line) Check(statistics.tokens == set.tokens() + statistics.dropped_tokens);
      for (int64_t i = 0; i < set.size(); ++i) {
        for (const int32_t id : set.ids(i)) Check(id >= 0 && id < tokenizer.vocab_size());
      }
    } catch (const Error& error) {
      Check(std::string_view(error.what()).find('\n') == std::string_view::npos);
    }
  }
  return 0;
}
