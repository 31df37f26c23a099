#include "jobs/search/retrieval.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/logging.h"
#include "base/progress.h"
#include "base/signals.h"
#include "eval/metrics.h"
#include "eval/ranking.h"
#include "jobs/search/corpus_index.h"
#include "kernels/nearest.h"

namespace lshformer {
namespace {

constexpr int kRanked = 100, kFront = 10;
constexpr size_t kQueriesAtOnce = 1024;

// The queries that somebody judged.
struct JudgedQueries {
  std::vector<RetrievalQuery> queries;
  std::vector<Relevances> relevances;
};

JudgedQueries ReadJudged(const RetrievalJob& job, const std::vector<std::string>& documents) {
  const std::unordered_set<std::string> known(documents.begin(), documents.end());
  std::vector<RetrievalQuery> queries = ReadQueries(job.queries);
  const std::vector<std::vector<Judgement>> judgements = ReadJudgements(job.qrels, queries);
  JudgedQueries judged;
  for (size_t i = 0; i < queries.size(); ++i) {
    if (judgements[i].empty()) continue;
    Relevances relevances;
    for (const Judgement& judgement : judgements[i]) {
      if (!known.contains(judgement.document))
        Fail("{}:{}: document \"{}\" is not in the corpus", Shown(job.qrels, 120), judgement.line,
             Shown(judgement.document));
      relevances.emplace(judgement.document, judgement.relevance);
    }
    judged.queries.push_back(std::move(queries[i]));
    judged.relevances.push_back(std::move(relevances));
    if (std::ssize(judged.queries) == job.max_eval_samples) break;
  }
  return judged;
}

// By number. Everything of the corpus is looked at before hours of work.
std::vector<std::string> ReadDocumentIds(const std::string& path) {
  std::vector<std::string> ids;
  DistinctIds distinct;
  CorpusReader corpus(path);
  for (CorpusDocument document; corpus.Next(document);) {
    ThrowIfStopped("reading the corpus");
    distinct.Add(document.id, corpus.where());
    ids.push_back(std::move(document.id));
  }
  if (ids.empty()) Fail("{}: has no documents", Shown(path, 120));
  return ids;
}

// A file that is gone in the end.
class TemporaryIndex {
 public:
  TemporaryIndex() : path_(std::filesystem::temp_directory_path() / fmt::format("lshformer-{}.index", getpid())) {
    name_.Set(path_);
    std::filesystem::remove(path_);
  }
  ~TemporaryIndex() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryIndex(const TemporaryIndex&) = delete;
  TemporaryIndex& operator=(const TemporaryIndex&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  TemporaryName name_;
};

// Rows at which documents begin, and the end.
std::vector<int64_t> DocumentBegins(const PassageIndex& index) {
  std::vector<int64_t> begins;
  int64_t last = -1;
  for (int64_t row = 0; row < index.rows(); ++row) {
    const int64_t document = index.passage(row).document;
    if (document != last) begins.push_back(row);
    last = document;
  }
  begins.push_back(index.rows());
  return begins;
}

class RankingJudge {
 public:
  RankingJudge(const RetrievalJob& job, const JudgedQueries& judged, const std::vector<std::string>& documents,
               const PassageIndex& index)
      : judged_(judged), documents_(documents), index_(index), begins_(DocumentBegins(index)) {
    if (job.output_dir.empty()) return;
    file_.emplace(job.output_dir + "/ranking.tsv");
    file_->Write("query-id\tcorpus-id\tscore\n");
  }

  // How many of the queries were cut.
  int64_t Rank(const PassageEncoder& encoder, size_t begin, size_t end) {
    std::vector<std::string> texts;
    for (size_t query = begin; query < end; ++query) texts.push_back(judged_.queries[query].text);
    int64_t cut = 0;
    const std::vector<float> vectors = encoder.EmbedQueries(texts, &cut);
    const VectorRows rows{index_.vectors(), index_.rows(), index_.front().columns, index_.stride()};
    const auto found = NearestGroups(rows, begins_, vectors, kRanked + 1);
    for (size_t query = begin; query < end; ++query) Score(query, found[query - begin]);
    return cut;
  }

  Json Figures() && {
    if (file_) file_->Commit();
    return {{"ndcg_at_10", ndcg_.mean()}, {"mrr_at_10", mrr_.mean()}, {"recall_at_100", recall_.mean()}};
  }

 private:
  void Score(size_t query, const std::vector<NearRow>& found) {
    std::vector<RankedDocument> ranking;
    for (const NearRow& row : found) {
      const std::string& id = documents_[static_cast<size_t>(index_.passage(row.row).document)];
      if (id != judged_.queries[query].id && ranking.size() < kRanked) ranking.push_back({id, row.score});
    }
    SortRanking(ranking);
    if (file_)
      for (const RankedDocument& document : ranking)
        file_->Write(fmt::format("{}\t{}\t{}\n", judged_.queries[query].id, document.id, document.score));
    const Relevances& relevances = judged_.relevances[query];
    ndcg_.Add(NdcgAt(kFront, ranking, relevances), 1);
    mrr_.Add(MrrAt(kFront, ranking, relevances), 1);
    recall_.Add(RecallAt(kRanked, ranking, relevances), 1);
  }

  const JudgedQueries& judged_;
  const std::vector<std::string>& documents_;
  const PassageIndex& index_;
  std::vector<int64_t> begins_;
  std::optional<AtomicFile> file_;
  WeightedMean ndcg_, mrr_, recall_;
};

}  // namespace

void CheckRetrievalJob(const RetrievalJob& job) {
  CheckPassageOptions(job.passages);
  if (job.model.model_name_or_path.empty()) FailOption("model_name_or_path", "required");
  for (const auto& [name, path] : {std::pair("corpus", &job.corpus), {"queries", &job.queries}, {"qrels", &job.qrels}})
    if (path->empty()) FailOption(name, "required for {} retrieval", OptionName{"task"});
}

Figures RunRetrieval(const RetrievalJob& job) {
  const HeldLog warnings;
  CheckRetrievalJob(job);
  if (!job.output_dir.empty()) MakeFolder(job.output_dir);
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<std::string> documents = ReadDocumentIds(job.corpus);
  const JudgedQueries judged = ReadJudged(job, documents);
  const PassageEncoder encoder(job.model, job.passages);
  std::optional<TemporaryIndex> temporary;
  if (job.index.empty()) temporary.emplace();
  const auto index = UpToDateIndex(encoder, {job.corpus, temporary ? temporary->path() : job.index, job.progress});
  RankingJudge judge(job, judged, documents, *index);
  std::optional<Progress> progress;
  if (job.progress) progress.emplace("searching", std::ssize(judged.queries), "queries");
  int64_t cut = 0;
  for (size_t query = 0; query < judged.queries.size(); query += kQueriesAtOnce) {
    cut += judge.Rank(encoder, query, std::min(query + kQueriesAtOnce, judged.queries.size()));
    if (progress) progress->Update(static_cast<int64_t>(query));
  }
  encoder.WarnOfCut(cut, std::ssize(judged.queries));
  Json figures = std::move(judge).Figures();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  figures.update({{"eval_samples", judged.queries.size()},
                  {"eval_documents", documents.size()},
                  {"eval_passages", index->rows()},
                  {"eval_runtime", Rounded(seconds.count(), 4)}});
  if (!job.output_dir.empty()) WriteFileAtomically(job.output_dir + "/eval_results.json", figures.dump(2) + "\n");
  return figures;
}

}  // namespace lshformer
