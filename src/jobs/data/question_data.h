// Questions and their contexts as windows that a model can take, for `train` and `evaluate`.
#pragma once
#include <cstdint>
#include <string>

#include "data/squad.h"
#include "data/squad_windows.h"
#include "jobs/train.h"
#include "models/config.h"

namespace lshformer {

// Questions to answer: the windows know where their tokens stand in the context.
struct QuestionSet {
  SquadData data;
  SquadWindows windows;
};
// At most `limit` questions of the file; 0: all.
QuestionSet ReadQuestions(const std::string& path, SquadUse use, int64_t limit, const Tokenizer& tokenizer,
                          const WindowOptions& window);

SquadUse LabelledUse(const AnswerOptions& answers);  // whether a question may be without an answer

// What a training run reads: `train` are windows with the places of the answers as labels.
struct QuestionData {
  SequenceSet train;
  QuestionSet validation, test;
};
QuestionData ReadQuestionData(const TrainOptions& options, bool do_eval, const Tokenizer& tokenizer,
                              const ModelConfig& config);

}  // namespace lshformer
