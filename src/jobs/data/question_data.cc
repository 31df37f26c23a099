#include "jobs/data/question_data.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/logging.h"
#include "data/corpus.h"
#include "data/unanswerable_pairs.h"

namespace lshformer {
namespace {

// Takes the first questions out of the training data, and limits both.
SquadData SplitQuestions(SquadData& train, const TrainOptions& options) {
  const auto size = static_cast<int64_t>(train.questions.size());
  const auto first = train.questions.begin() + ValidationShare(size, options.validation_split_percentage, "question");
  SquadData validation{train.path, train.contexts, {train.questions.begin(), first}, train.articles};
  train.questions.erase(train.questions.begin(), first);
  const auto limit = [](std::vector<SquadQuestion>& questions, int64_t most) {
    if (most > 0 && most < static_cast<int64_t>(questions.size())) questions.resize(static_cast<size_t>(most));
  };
  limit(validation.questions, options.max_eval_samples);
  limit(train.questions, options.max_train_samples);
  return validation;
}

// Of one file; what was drawn and could not be made is told, not dropped in silence.
void AddPairs(SquadData& data, const TrainOptions& options, size_t file) {
  if (!options.answers.version_2 || options.unanswerable_pairs == 0) return;
  const auto before = data.questions.size();
  const int64_t without =
      AddUnanswerablePairs(data, options.unanswerable_pairs, options.training.seed, static_cast<uint64_t>(file));
  if (without > 0)
    Warn(
        "{}: {}: of {} questions drawn {} are not asked again, no other paragraph of their article is free of "
        "their answers",
        data.path, Marked("unanswerable_pairs"), data.questions.size() - before + static_cast<size_t>(without),
        without);
}

QuestionSet WithExcerpts(SquadData data, const Tokenizer& tokenizer, const ExcerptOptions& excerpt) {
  QuestionSet questions;
  questions.data = std::move(data);
  questions.excerpts.keep_places = true;
  AddSquadExcerpts(questions.data, tokenizer, excerpt, questions.excerpts);
  return questions;
}

}  // namespace

SquadUse LabelledUse(const AnswerOptions& answers) {
  return answers.version_2 ? SquadUse::kMayHaveNone : SquadUse::kAnswerable;
}

QuestionSet ReadQuestions(const std::string& path, SquadUse use, int64_t limit, const Tokenizer& tokenizer,
                          const ExcerptOptions& excerpt) {
  return WithExcerpts(ReadSquad(path, use, limit), tokenizer, excerpt);
}

QuestionData ReadQuestionData(const TrainOptions& options, bool do_eval, const Tokenizer& tokenizer,
                              const ModelConfig& config) {
  const ExcerptOptions excerpt = options.answers.Excerpts(SequenceLimit(options.max_seq_length, config));
  const SquadUse use = LabelledUse(options.answers);
  const bool split = options.validation_split_percentage > 0;
  QuestionData questions;
  SquadData validation;  // of the split
  SquadExcerpts train;
  int64_t left = options.max_train_samples;
  for (size_t file = 0; file < options.train_files.size(); ++file) {
    if (options.max_train_samples > 0 && left == 0) break;
    SquadData data = ReadSquad(options.train_files[file], use, split ? 0 : left);
    if (split) validation = SplitQuestions(data, options);
    left -= std::min(left, static_cast<int64_t>(data.questions.size()));
    AddPairs(data, options, file);
    AddSquadExcerpts(data, tokenizer, excerpt, train);
  }
  if (train.within_words > 0)
    Warn("training questions whose answer begins or ends inside a word: {}; the words around it are its label",
         train.within_words);
  questions.train = std::move(train.set);
  if (split) {
    questions.validation = WithExcerpts(std::move(validation), tokenizer, excerpt);
  } else if (do_eval) {
    questions.validation = ReadQuestions(options.validation_file, use, options.max_eval_samples, tokenizer, excerpt);
  }
  if (options.do_predict)
    questions.test = ReadQuestions(options.test_file, SquadUse::kQuestionsOnly, 0, tokenizer, excerpt);
  return questions;
}

}  // namespace lshformer
