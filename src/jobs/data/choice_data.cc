#include "jobs/data/choice_data.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/logging.h"
#include "data/corpus.h"

namespace lshformer {
namespace {

constexpr std::pair<RaceLevel, const char*> kLevels[] = {{RaceLevel::kMiddle, "eval_accuracy_middle"},
                                                         {RaceLevel::kHigh, "eval_accuracy_high"}};

void Append(ChoiceData& all, ChoiceData part) {
  const auto before = static_cast<int32_t>(all.contexts.size());
  for (ChoiceQuestion& question : part.questions) question.context += before;
  std::move(part.contexts.begin(), part.contexts.end(), std::back_inserter(all.contexts));
  std::move(part.questions.begin(), part.questions.end(), std::back_inserter(all.questions));
}

void Limit(ChoiceData& data, int64_t questions) {
  if (questions > 0 && questions < static_cast<int64_t>(data.questions.size()))
    data.questions.resize(static_cast<size_t>(questions));
}

// Takes the first questions out of the training data.
ChoiceData SplitFront(ChoiceData& train, double percentage) {
  const auto size = static_cast<int64_t>(train.questions.size());
  const auto first = train.questions.begin() + ValidationShare(size, percentage, "question");
  ChoiceData front{train.contexts, {train.questions.begin(), first}};
  train.questions.erase(train.questions.begin(), first);
  return front;
}

}  // namespace

ChoiceTables ReadChoiceTables(const TrainOptions& options, bool do_eval) {
  const bool folder = !options.data_dir.empty(), split = options.validation_split_percentage > 0;
  const auto path = [&](const std::string& file, Split part) {
    return file.empty() ? RacePath(options.data_dir, part) : file;
  };
  ChoiceTables tables;
  int64_t left = options.max_train_samples;
  for (const std::string& file : folder ? std::vector<std::string>{""} : options.train_files) {
    if (options.max_train_samples > 0 && !split && left == 0) break;
    ChoiceData part = ReadChoices(path(file, Split::kTrain), /*labelled=*/true, split ? 0 : left);
    left -= std::min(left, static_cast<int64_t>(part.questions.size()));
    Append(tables.train, std::move(part));
  }
  if (split) {
    tables.validation = SplitFront(tables.train, options.validation_split_percentage);
    Limit(tables.validation, options.max_eval_samples);
    Limit(tables.train, options.max_train_samples);
  } else if (do_eval) {
    tables.validation =
        ReadChoices(path(options.validation_file, Split::kValidation), /*labelled=*/true, options.max_eval_samples);
  }
  if (options.do_predict) tables.test = ReadChoices(path(options.test_file, Split::kTest), /*labelled=*/false);
  return tables;
}

int ChoiceLimit(int max_seq_length, const Tokenizer& tokenizer, const ModelConfig& config) {
  const int limit = SequenceLimit(max_seq_length, config);
  CheckMaxSeqLength(limit, /*texts=*/2, &tokenizer, config.max_position_embeddings);
  return limit;
}

SequenceSet EncodeWarned(const ChoiceData& data, bool labelled, const Tokenizer& tokenizer, int max_seq_length) {
  int64_t truncated = 0;
  SequenceSet set = EncodeChoices(data, labelled, tokenizer, max_seq_length, &truncated);
  if (truncated > 0)
    Warn("of {} of {} questions the text was cut at {} {}", truncated, set.size(), OptionName{"max_seq_length"},
         max_seq_length);
  return set;
}

Json WithLevels(const ChoiceData& data, const Evaluation& evaluation) {
  Json metrics = evaluation.metrics;
  for (const auto& [level, key] : kLevels) {
    int64_t correct = 0, of = 0;
    for (size_t q = 0; q < data.questions.size(); ++q) {
      if (data.questions[q].level != level) continue;
      ++of;
      correct += evaluation.predictions[q] == data.questions[q].label;
    }
    if (of > 0) metrics[key] = static_cast<double>(correct) / static_cast<double>(of);
  }
  return metrics;
}

std::vector<std::string> LevelKeys(const ChoiceData& data) {
  std::vector<std::string> keys;
  for (const auto& [level, key] : kLevels)
    if (std::any_of(data.questions.begin(), data.questions.end(),
                    [wanted = level](const ChoiceQuestion& question) { return question.level == wanted; }))
      keys.emplace_back(key);
  return keys;
}

std::vector<std::string> OptionNumbers() {
  std::vector<std::string> numbers;
  for (size_t option = 0; option < kMostOptions; ++option) numbers.push_back(std::to_string(option));
  return numbers;
}

}  // namespace lshformer
