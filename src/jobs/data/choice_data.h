// Questions with options, for `train` and `evaluate`: from RACE's folder or from files.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "data/multiple_choice.h"
#include "data/sequence_set.h"
#include "eval/evaluate.h"
#include "jobs/train.h"
#include "models/config.h"

namespace lshformer {

struct ChoiceTables {
  ChoiceData train, validation, test;
};
// Limited to max_train_samples and max_eval_samples questions.
ChoiceTables ReadChoiceTables(const TrainOptions& options, bool do_eval);

// As SequenceLimit, with room for a token of the article beside one of the question.
int ChoiceLimit(int max_seq_length, const Tokenizer& tokenizer, const ModelConfig& config);

// All questions, cut at max_seq_length with one warning.
SequenceSet EncodeWarned(const ChoiceData& data, bool labelled, const Tokenizer& tokenizer, int max_seq_length);

// The figures of an evaluation of labelled questions, with eval_accuracy_middle and eval_accuracy_high where some are
// of that level; and the latters' names.
Json WithLevels(const ChoiceData& data, const Evaluation& evaluation);
std::vector<std::string> LevelKeys(const ChoiceData& data);

// What a file of predictions calls the options: their numbers.
std::vector<std::string> OptionNumbers();

}  // namespace lshformer
