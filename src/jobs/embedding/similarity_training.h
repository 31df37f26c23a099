// Training a model's embeddings on texts that belong together.
#pragma once
#include "jobs/train.h"
#include "jobs/training_run.h"

namespace lshformer {

// The run of `job`, which has begun. Evaluations write eval_loss and, of pairs with scores, eval_pearson,
// eval_spearmanr and their mean eval_combined_score, of the cosines; of anchors with positives eval_mrr_at_10 and
// eval_accuracy, the share that is nearest, of each anchor's positive among all positives and negatives of the
// evaluation data. Leaves a folder of Sentence-Transformers. Error naming the line of a row that the loss cannot read:
// a pair without a score, a score that no cosine can be, a triplet without a negative.
JobResult RunTrainEmbeddings(const TrainOptions& options, TrainingJob& job);

}  // namespace lshformer
