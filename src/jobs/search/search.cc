#include "jobs/search/search.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/logging.h"
#include "base/signals.h"
#include "data/file_kind.h"
#include "io/lines_ahead.h"
#include "jobs/search/corpus_index.h"
#include "kernels/nearest.h"
#include "text/code_points.h"

namespace lshformer {
namespace {

constexpr int64_t kResultsAtOnce = int64_t{1} << 16;  // of queries that are answered together

struct AskedQuery {
  Json id;  // null: it has none
  std::string text;
};

class Searcher {
 public:
  explicit Searcher(const SearchJob& job) : job_(job), encoder_(job.model, job.passages) {
    const std::string path = job.index.empty() ? job.corpus + ".index" : job.index;
    index_ = UpToDateIndex(encoder_, {job.corpus, path, job.progress});
  }
  ~Searcher() = default;
  Searcher(const Searcher&) = delete;
  Searcher& operator=(const Searcher&) = delete;

  // In one pass over the vectors, and one over the corpus.
  std::vector<SearchAnswer> Answer(const std::vector<AskedQuery>& queries) {
    std::vector<std::string> texts;
    for (const AskedQuery& query : queries) texts.push_back(query.text);
    int64_t cut = 0;
    const std::vector<float> vectors = encoder_.EmbedQueries(texts, &cut);
    cut_ += cut;
    asked_ += std::ssize(queries);
    const VectorRows rows{index_->vectors(), index_->rows(), index_->front().columns, index_->stride()};
    const std::vector<std::vector<NearRow>> best = NearestGroups(rows, {}, vectors, job_.top_k);
    std::vector<SearchAnswer> answers;
    for (size_t i = 0; i < queries.size(); ++i)
      answers.push_back({queries[i].id, queries[i].text, std::vector<FoundPassage>(best[i].size())});
    FillIn(best, answers);
    return answers;
  }
  void WarnOfCut() const { encoder_.WarnOfCut(cut_, asked_); }

 private:
  void FillIn(const std::vector<std::vector<NearRow>>& best, std::vector<SearchAnswer>& answers) const {
    std::multimap<int64_t, std::pair<size_t, size_t>> by_line;  // queries and places of results
    for (size_t query = 0; query < best.size(); ++query)
      for (size_t place = 0; place < best[query].size(); ++place)
        by_line.emplace(index_->passage(best[query][place].row).line, std::pair(query, place));
    CorpusReader corpus(job_.corpus);
    CorpusDocument document;
    std::optional<CodePointIndex> places;
    for (const auto& [line, at] : by_line) {
      if (document.line != line) {
        document = corpus.Find(line);
        places.emplace(document.text);
      }
      const NearRow& found = best[at.first][at.second];
      const Passage passage = index_->passage(found.row);
      const auto end = std::min<int64_t>(passage.end, places->size()), start = std::min<int64_t>(passage.start, end);
      answers[at.first].results[at.second] = {
          found.score, document.id, document.title, std::string(places->Slice(start, end)), passage.start, passage.end};
    }
  }

  const SearchJob& job_;
  PassageEncoder encoder_;
  std::unique_ptr<PassageIndex> index_;
  int64_t asked_ = 0, cut_ = 0;  // queries
};

// Queries of a file as they come: lines of text, or, where the first is one, of JSON with a "text" and maybe an id.
class QueryLines {
 public:
  QueryLines(const std::string& path, int64_t most) : lines_(path), most_(static_cast<size_t>(most)) {}
  // Those that are there, without blank lines; false where none is left.
  bool Next(std::vector<AskedQuery>& queries) {
    constexpr size_t kMostBytes = size_t{1} << 20;
    queries.clear();
    while (more_ && queries.empty()) {
      std::vector<LineAhead> ahead;
      const bool first = lines_.line_number() == 0;
      more_ = ReadLinesAhead(lines_, most_, kMostBytes, ahead);
      if (first && !ahead.empty()) StripByteOrderMark(ahead[0].text);
      for (const LineAhead& line : ahead) {
        if (!line.error.empty()) Fail("{}", line.error);
        if (!IsBlank(line.text)) queries.push_back(Parse(line));
      }
    }
    return !queries.empty();
  }

 private:
  AskedQuery Parse(const LineAhead& line) {
    if (!IsValidUtf8(line.text)) Fail("{}: expected UTF-8", line.where);
    if (!json_) json_ = line.text.starts_with('{') && Json::accept(line.text);
    if (!*json_) return {Json(), line.text};
    RetrievalQuery query = ParseQuery(line.text, line.where);
    return {query.id.empty() ? Json() : Json(query.id), std::move(query.text)};
  }

  LineReader lines_;
  size_t most_;
  std::optional<bool> json_;
  bool more_ = true;
};

}  // namespace

void RunSearch(const SearchJob& job, const std::function<void(const SearchAnswer&)>& take) {
  HeldLog warnings;
  ValidateOptions(SearchTable(), job);
  CheckPassageOptions(job.passages);
  if (job.query.empty() == job.query_file.empty())
    FailUsage("{}, or {}: expected one of them", OptionName{"query"}, OptionName{"query_file"});
  if (job.query_file.empty() && IsBlank(job.query)) FailOption("query", "is blank");
  if (!IsValidUtf8(job.query)) FailOption("query", "\"{}\": expected UTF-8", Shown(job.query));
  Searcher searcher(job);
  warnings.Release();
  std::vector<AskedQuery> queries{{Json(), job.query}};
  const auto answer = [&] {
    ThrowIfStopped("searching");
    for (const SearchAnswer& found : searcher.Answer(queries)) take(found);
  };
  if (job.query_file.empty()) {
    answer();
  } else {
    QueryLines lines(job.query_file, std::max<int64_t>(1, kResultsAtOnce / job.top_k));
    bool any = false;
    for (; lines.Next(queries); any = true) answer();
    if (!any) Fail("{}: has no queries", Shown(job.query_file, 120));
  }
  searcher.WarnOfCut();
}

}  // namespace lshformer
