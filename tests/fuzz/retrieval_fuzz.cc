// Any bytes as a corpus, as queries and as judgements: what is read is text with ids, or an Error of one line.
#include <set>
#include <string>

#include "data/passages/retrieval.h"
#include "fuzz/memory_file.h"
#include "fuzz/parses.h"
#include "text/code_points.h"
#include "text/tokenizer.h"

namespace {

using namespace lshformer;
using testing::Check;

void ReadCorpus(const std::string& path, bool spans) {
  CorpusReader corpus(path, spans);
  int64_t line = 0, documents = 0;
  for (CorpusDocument document; corpus.Next(document); ++documents) {
    Check(document.line > line, "lines ascend");
    line = document.line;
    Check(!document.id.empty() && IsValidUtf8(document.Whole()), "a document has an id and is UTF-8");
    Check(spans == !document.spans.empty(), "spans where they are asked for");
  }
  if (documents == 0) return;
  Check(CorpusReader(path, spans).Find(line).line == line, "a document is found again");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const testing::MemoryFile file(data, size, "a.txt");
  for (const bool spans : {false, true}) testing::Parses([&] { ReadCorpus(file.path(), spans); });
  testing::Parses([&] {
    std::set<std::string> ids;
    for (const RetrievalQuery& query : ReadQueries(file.path())) {
      Check(!query.id.empty() && ids.insert(query.id).second, "queries have ids of their own");
      Check(!query.text.empty() && IsValidUtf8(query.text), "and texts");
    }
    Check(!ids.empty(), "there are queries");
  });
  const std::vector<RetrievalQuery> queries{{"q1", "x"}, {"q2", "y"}};
  testing::Parses([&] {
    const auto judgements = ReadJudgements(file.path(), queries);
    Check(judgements.size() == queries.size(), "judgements are of the queries");
    for (const std::vector<Judgement>& own : judgements)
      for (const Judgement& judgement : own)
        Check(judgement.relevance >= kLeastRelevance && judgement.relevance <= kMostRelevance, "scores are in range");
  });
  return 0;
}
