// Data to search in and to judge a search by, in the layout of BEIR (Thakur et al. 2021); each file plain or gzip.
//
//   corpus.jsonl    {"_id": "d7", "title": "…", "text": "…"}   a line a document; no title is an empty one
//   queries.jsonl   {"_id": "q1", "text": "…"}
//   qrels.tsv       query-id<TAB>corpus-id<TAB>score           with that header or without; or TREC's four columns
//                                                              query-id, iteration, corpus-id, score
//
// Ids are strings or whole numbers ("id" serves as "_id"). Blank lines are left out. A corpus may also be a text file:
// a line a document, whose id is the number of the line. Lines of a corpus may have "spans" (data/passages/chunking.h).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "data/passages/chunking.h"
#include "io/gzip.h"

namespace lshformer {

struct CorpusDocument {
  int64_t line = 0;  // of the file, from 1
  std::string id, title, text;
  std::vector<CodePointSpan> spans;  // of the text; read where they are asked for
  // What a model reads: title, a space, text; of a document without a title the text.
  std::string Whole() const { return title.empty() ? text : title + " " + text; }
};

// Document after document in bounded memory.
class CorpusReader {
 public:
  // spans: every document has some.
  explicit CorpusReader(const std::string& path, bool spans = false);
  // False at the end. OptionError of "corpus" for a table that is named as one. Error with path:line: JSON that is
  // broken or cut, no id, no text, spans that are none, invalid UTF-8, a line of more than 64 MiB.
  bool Next(CorpusDocument& document);
  // The document of a line behind the last one that was read; those between are not looked at. Error where there is
  // none.
  CorpusDocument Find(int64_t line);
  int64_t bytes_read() const { return lines_.bytes_read(); }
  int64_t bytes_total() const { return lines_.bytes_total(); }
  std::string where() const { return lines_.where(); }

 private:
  bool NextLine(std::string& line);
  bool Parse(const std::string& line, CorpusDocument& document);

  std::string path_;
  bool spans_;
  std::optional<bool> json_;  // whether lines are objects, once that is known
  LineReader lines_;
};

// Ids that were read so far: Error naming `where` for one that was there before.
class DistinctIds {
 public:
  void Add(const std::string& id, const std::string& where);
  bool Has(const std::string& id) const { return ids_.contains(id); }

 private:
  std::unordered_set<std::string> ids_;
};

struct RetrievalQuery {
  std::string id, text;
};
// A line {"_id", "text"}; id is "" where there is none. Error naming `where`: no object, no text, an empty one.
RetrievalQuery ParseQuery(const std::string& line, const std::string& where);

// OptionError of "queries" for what is no JSON lines by its first line, whatever it is called. Error with path:line:
// broken JSON, no id or text, an id for the second time; and where there are none.
std::vector<RetrievalQuery> ReadQueries(const std::string& path);

inline constexpr int kLeastRelevance = -1, kMostRelevance = 1000;
struct Judgement {
  std::string document;
  int relevance = 0;  // above 0: relevant
  int64_t line = 0;
};
// Of each query, in their order. Error with path:line: another number of columns, a score that is no whole number or
// out of kLeastRelevance … kMostRelevance, a query that is not among `queries`, a pair for the second time; and where
// there are none. Whether its documents are in the corpus is for its reader to say.
std::vector<std::vector<Judgement>> ReadJudgements(const std::string& path, const std::vector<RetrievalQuery>& queries);

}  // namespace lshformer
