#include "jobs/question_data.h"

#include <algorithm>
#include <utility>

#include "data/corpus.h"

namespace lshformer {
namespace {

// Takes the first questions out of the training data, and limits both.
SquadData SplitQuestions(SquadData& train, const TrainOptions& options) {
  const auto size = static_cast<int64_t>(train.questions.size());
  const auto first = train.questions.begin() + ValidationShare(size, options.validation_split_percentage, "question");
  SquadData validation{train.path, train.contexts, {train.questions.begin(), first}};
  train.questions.erase(train.questions.begin(), first);
  const auto limit = [](std::vector<SquadQuestion>& questions, int64_t most) {
    if (most > 0 && most < static_cast<int64_t>(questions.size())) questions.resize(static_cast<size_t>(most));
  };
  limit(validation.questions, options.max_eval_samples);
  limit(train.questions, options.max_train_samples);
  return validation;
}

QuestionSet WithWindows(SquadData data, const Tokenizer& tokenizer, const WindowOptions& window) {
  QuestionSet questions;
  questions.data = std::move(data);
  questions.windows.keep_places = true;
  AddSquadWindows(questions.data, tokenizer, window, questions.windows);
  return questions;
}

}  // namespace

SquadUse LabelledUse(const AnswerOptions& answers) {
  return answers.version_2 ? SquadUse::kMayHaveNone : SquadUse::kAnswerable;
}

QuestionSet ReadQuestions(const std::string& path, SquadUse use, int64_t limit, const Tokenizer& tokenizer,
                          const WindowOptions& window) {
  return WithWindows(ReadSquad(path, use, limit), tokenizer, window);
}

QuestionData ReadQuestionData(const TrainOptions& options, bool do_eval, const Tokenizer& tokenizer,
                              const ModelConfig& config) {
  const WindowOptions window{SequenceLimit(options.max_seq_length, config), options.answers.doc_stride};
  const SquadUse use = LabelledUse(options.answers);
  const bool split = options.validation_split_percentage > 0;
  QuestionData questions;
  SquadData validation;  // of the split
  SquadWindows train;
  int64_t left = options.max_train_samples;
  for (const std::string& path : options.train_files) {
    if (options.max_train_samples > 0 && left == 0) break;
    SquadData data = ReadSquad(path, use, split ? 0 : left);
    if (split) validation = SplitQuestions(data, options);
    AddSquadWindows(data, tokenizer, window, train);
    left -= std::min(left, static_cast<int64_t>(data.questions.size()));
  }
  questions.train = std::move(train.set);
  if (split) {
    questions.validation = WithWindows(std::move(validation), tokenizer, window);
  } else if (do_eval) {
    questions.validation = ReadQuestions(options.validation_file, use, options.max_eval_samples, tokenizer, window);
  }
  if (options.do_predict)
    questions.test = ReadQuestions(options.test_file, SquadUse::kQuestionsOnly, 0, tokenizer, window);
  return questions;
}

}  // namespace lshformer
