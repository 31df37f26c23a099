// How well a model finds the documents that were judged relevant for queries.
#pragma once
#include <cstdint>
#include <string>

#include "base/figures.h"
#include "jobs/search/passages.h"

namespace lshformer {

struct RetrievalJob {
  ModelSource model;
  PassageOptions passages;
  std::string corpus, queries, qrels;  // data/passages/retrieval.h
  std::string index;                   // kept there; "": in a temporary file
  int64_t max_eval_samples = 0;        // of the judged queries the first; 0: all
  std::string output_dir;              // "": none; else it gets eval_results.json and ranking.tsv
  bool progress = false;
};

// UsageError where a file is not named, or its options do not fit together.
void CheckRetrievalJob(const RetrievalJob& job);

// ndcg_at_10, mrr_at_10 and recall_at_100, means over the judged queries (eval/ranking.h), eval_samples, their number,
// eval_documents, eval_passages and eval_runtime. A document is as near as its best passage. A document with the id of
// the query is no answer to it, as BEIR has it. ranking.tsv has the hundred documents of each query with their scores:
// query-id<TAB>corpus-id<TAB>score. Error for a judged document that the corpus lacks, and all of
// data/passages/retrieval.h and UpToDateIndex.
Figures RunRetrieval(const RetrievalJob& job);

}  // namespace lshformer
