#include "jobs/search/search.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/logging.h"
#include "base/signals.h"
#include "data/file_kind.h"
#include "jobs/search/corpus_index.h"
#include "kernels/nearest.h"
#include "text/code_points.h"

namespace lshformer {
namespace {

class Searcher {
 public:
  explicit Searcher(const SearchJob& job) : job_(job), encoder_(job.model, job.passages) {
    const std::string path = job.index.empty() ? job.corpus + ".index" : job.index;
    index_ = UpToDateIndex(encoder_, {job.corpus, path, job.progress});
  }

  SearchAnswer Answer(const std::string& query) const {
    if (!IsValidUtf8(query)) Fail("query \"{}\": expected UTF-8", Shown(query));
    if (IsBlank(query)) Fail("the query is empty");
    const std::vector<float> vector = encoder_.EmbedQueries({&query, 1});
    const VectorRows rows{index_->vectors(), index_->rows(), index_->front().columns, index_->stride()};
    const std::vector<NearRow> best = NearestGroups(rows, {}, vector, job_.top_k)[0];
    SearchAnswer answer{query, std::vector<FoundPassage>(best.size())};
    std::multimap<int64_t, size_t> by_line;  // places of results
    for (size_t i = 0; i < best.size(); ++i) by_line.emplace(index_->passage(best[i].row).line, i);
    CorpusReader corpus(job_.corpus);
    CorpusDocument document;
    for (const auto& [line, place] : by_line) {
      if (document.line != line) document = corpus.Find(line);
      const Passage passage = index_->passage(best[place].row);
      const CodePointIndex places(document.text);
      const int64_t end = std::min<int64_t>(passage.end, places.size()), start = std::min<int64_t>(passage.start, end);
      answer.results[place] = {best[place].score, document.id, document.title, std::string(places.Slice(start, end)),
                               passage.start,     passage.end};
    }
    return answer;
  }

 private:
  const SearchJob& job_;
  PassageEncoder encoder_;
  std::unique_ptr<PassageIndex> index_;
};

}  // namespace

void RunSearch(const SearchJob& job, const std::function<void(const SearchAnswer&)>& take) {
  HeldLog warnings;
  ValidateOptions(SearchTable(), job);
  ValidateOptions(PassageTable(), job.passages);
  if (job.query.empty() == job.query_file.empty())
    FailUsage("{}, or {}: expected one of them", OptionName{"query"}, OptionName{"query_file"});
  if (job.query_file.empty() && IsBlank(job.query)) FailOption("query", "is blank");
  const Searcher searcher(job);
  warnings.Release();
  if (job.query_file.empty()) return take(searcher.Answer(job.query));
  LineReader lines(job.query_file);
  for (std::string line; lines.Next(line);) {
    ThrowIfStopped("searching");
    if (lines.line_number() == 1) StripByteOrderMark(line);
    if (!IsBlank(line)) take(searcher.Answer(line));
  }
}

}  // namespace lshformer
