// How well a reranker orders the passages of queries.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/batch.h"
#include "data/passages/ranked_lists.h"
#include "data/sequence_set.h"
#include "eval/evaluate.h"
#include "models/model.h"

namespace lshformer {

// Lists as sequences, and what is said of each passage.
struct ListData {
  SequenceSet set;
  std::vector<std::vector<float>> labels;  // [queries]
  PackedBatch Batch(std::span<const int64_t> examples) const;
};

// A warning tells of passages that were cut.
ListData PrepareLists(const std::vector<RankedList>& lists, const Tokenizer& tokenizer, int max_seq_length);

// Of a model of one output: eval_loss (train/listwise_loss.h), and of each query's passages by their scores
// eval_ndcg_at_10 and eval_mrr_at_10 (eval/ranking.h; labels above 0 are relevant), eval_samples, queries, and times.
// Error where a score is not finite.
Json EvaluateLists(Model& model, const ListData& data, const EvaluateOptions& options);
std::vector<std::string> ListMetrics();  // their names, without sizes and times

}  // namespace lshformer
