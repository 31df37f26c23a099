#include "jobs/mislabelled_questions.h"

#include <algorithm>
#include <vector>

#include "base/json.h"
#include "text/code_points.h"

namespace lshformer {
namespace {

struct Word {
  int64_t begin = 0, end = 0;  // code points
};

std::vector<Word> WordsOf(const CodePointIndex& text) {
  std::vector<Word> words;
  bool inside = false;
  for (int64_t i = 0; i < text.size(); ++i) {
    const std::string_view c = text.Slice(i, i + 1);
    const bool blank = c == " " || c == "\t" || c == "\n";
    if (!blank && !inside) words.push_back({i, i});
    if (!blank) words.back().end = i + 1;
    inside = !blank;
  }
  return words;
}

const Word* WordAt(const std::vector<Word>& words, int64_t place) {
  for (const Word& word : words)
    if (word.begin <= place && place < word.end) return &word;
  return nullptr;
}

}  // namespace

MislabelledAnswer MislabelledAnswerOf(std::string_view question, const SquadAnswer& answer) {
  constexpr size_t kFirst = 1, kLast = 2;  // of the words: tokens 2 and 3 behind [CLS], token 0
  const CodePointIndex index(question);
  const std::vector<Word> words = WordsOf(index);
  const int64_t end = answer.start + CountCodePoints(answer.text) - 1;
  const Word* first = WordAt(words, answer.start);
  const Word* last = first == nullptr ? nullptr : WordAt(words, end);
  if (last == nullptr) last = first;
  if (first == nullptr) {
    first = &words[std::min(kFirst, words.size() - 1)];
    last = &words[std::min(kLast, words.size() - 1)];
  }
  return {std::string(index.Slice(first->begin, last->end)), first->begin};
}

void WriteMislabelledQuestions(const std::function<void(std::string_view text, int64_t done)>& sink,
                               const SquadData& data) {
  sink("{\"version\": \"1.1\", \"data\": [\n", 0);
  int64_t done = 0;
  for (const SquadQuestion& question : data.questions) {
    if (question.answers.empty()) continue;
    const MislabelledAnswer answer = MislabelledAnswerOf(question.text, question.answers[0]);
    const std::string context = question.text + " " + data.contexts[static_cast<size_t>(question.context)];
    const Json asked{{"id", question.id},
                     {"question", "?"},
                     {"answers", Json::array({Json{{"text", answer.text}, {"answer_start", answer.start}}})}};
    const Json paragraph{{"context", context}, {"qas", Json::array({asked})}};
    const Json article{{"title", ""}, {"paragraphs", Json::array({paragraph})}};
    ++done;
    sink((done == 1 ? "" : ",\n") + article.dump(), done);
  }
  sink("\n]}\n", done);
}

}  // namespace lshformer
