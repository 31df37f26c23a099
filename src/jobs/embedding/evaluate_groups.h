// How near vectors of texts that belong together are, during a training.
#pragma once
#include "base/json.h"
#include "data/sequence_set.h"
#include "eval/evaluate.h"
#include "train/similarity_loss.h"

namespace lshformer {

// The metrics of RunTrainEmbeddings for groups (data/passages/text_groups.h) as sequences. teacher: empty, or what
// the vectors are compared with. Error where a vector is not finite.
Json EvaluateGroups(Model& model, const WantedVectors& teacher, const SequenceSet& set,
                    const SimilarityLossOptions& loss, const EvaluateOptions& options);
std::vector<std::string> GroupMetrics(const SequenceSet& set);  // their names, without sizes and times

}  // namespace lshformer
