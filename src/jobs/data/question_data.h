// Questions and their contexts as excerpts that a model can take, for `train` and `evaluate`.
#pragma once
#include <cstdint>
#include <string>

#include "data/squad.h"
#include "data/squad_excerpts.h"
#include "jobs/train.h"
#include "models/config.h"

namespace lshformer {

// Questions to answer: the excerpts know where their tokens stand in the context.
struct QuestionSet {
  SquadData data;
  SquadExcerpts excerpts;
};
// At most `limit` questions of the file; 0: all.
QuestionSet ReadQuestions(const std::string& path, SquadUse use, int64_t limit, const Tokenizer& tokenizer,
                          const ExcerptOptions& excerpt);

SquadUse LabelledUse(const AnswerOptions& answers);  // whether a question may be without an answer

// What a training run reads: `train` are excerpts with the places of the answers as labels.
struct QuestionData {
  SequenceSet train;
  QuestionSet validation, test;
};
QuestionData ReadQuestionData(const TrainOptions& options, bool do_eval, const Tokenizer& tokenizer,
                              const ModelConfig& config);

}  // namespace lshformer
