// Training a reranker: a classifier of one output that scores passages for a query.
#pragma once
#include "jobs/train.h"
#include "jobs/training_run.h"

namespace lshformer {

// The run of `job`, which has begun, on rows of data/passages/ranked_lists.h. Evaluations write eval_loss, and of each
// query's passages by their scores eval_ndcg_at_10 and eval_mrr_at_10 (eval/ranking.h; labels above 0 are relevant).
// The model that is left has one label: `predict --task text-classification` on pairs gives its sigmoid.
JobResult RunTrainLists(const TrainOptions& options, TrainingJob& job);

}  // namespace lshformer
