// From a forward's outputs to the search for answers, whichever head the model has.
#pragma once
#include "data/answer_search.h"
#include "models/model.h"

namespace lshformer {

// The outputs of a question answering model for one batch, which both outlive it.
class ExcerptAnswers {
 public:
  ExcerptAnswers(const PackedBatch& batch, const ModelOutput& output)
      : batch_(batch),
        output_(output),
        starts_(output.start_logits.contiguous()),
        ends_(output.end_logits.contiguous()) {}
  // Adds sequence b, which is `excerpt` of a context with `places`. False, and nothing is added, where an output is not
  // finite.
  bool AddTo(AnswerSearch& search, int b, const SquadExcerpt& excerpt, const TokenPlaces& places) const;

 private:
  const PackedBatch& batch_;
  const ModelOutput& output_;
  torch::Tensor starts_, ends_;  // [T]
};

}  // namespace lshformer
