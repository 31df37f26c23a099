// Synthetic data: English-like text, reviews with a sentiment, questions on long documents, and with options, and
// sequences said twice. Every one is a pure function of (seed, index), so files of any size are streamed, and a smaller
// file is the beginning of a larger one. The grammars are in docs/data.md.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lshformer {

// A document of 3 to 6 paragraphs, one a line, of 3 to 7 sentences, about one of a dozen topics; one document in five
// reviews a film. What can be learned from
// context: grammar (agreement, tense, fixed prepositions), the topic's own nouns, verbs and adjectives, and who the
// document is about.
std::string SyntheticDocument(uint64_t seed, uint64_t index);

struct SyntheticReview {
  std::string sentence;
  int label = 0;  // 0 negative, 1 positive
};
// Graded adjectives, intensifiers, negation ("not very good", "never dull") and contrast ("though the plot is weak, the
// acting is superb": the main clause decides). Labels without noise, both equally frequent.
SyntheticReview MakeSyntheticReview(uint64_t seed, uint64_t index);

struct SyntheticQuestion {
  std::string context, question, answer;  // ASCII; no answer: ""
  int64_t answer_start = 0;
};
// A document of about `words` words of SyntheticDocument's grammar, in which four people each hide something somewhere
// ("Karla hid the canary behind the old mill."), each a thing of another kind, and a question about one kind ("Which
// bird was hidden? Name the bird."). The sentence that answers it lies in the second half of the document, the other
// three anywhere. With the probability `unanswerable` the same document is asked for a kind of which it names no thing.
SyntheticQuestion MakeSyntheticQuestion(uint64_t seed, uint64_t index, int64_t words, double unanswerable = 0);

struct SyntheticChoice {
  std::string context, question;     // ASCII
  std::vector<std::string> options;  // four
  int label = 0;                     // the right one
};
// Three people hide things of different kinds ("Karla hid the canary."), and the question is which thing of one kind
// was hidden. Beside it there are, of which the text says nothing, a thing of that kind and one of another, and a thing
// that somebody else hid: whoever looks at the text alone, or at the question alone, is right once in two times.
SyntheticChoice MakeSyntheticChoice(uint64_t seed, uint64_t index);

// "0 w 0 w": w are (words − 2) / 2 numbers from 1 to 127, each as likely as the others, at least one. The other half
// alone tells what is hidden in one: the duplication task of Reformer (Kitaev et al., ICLR 2020, §5).
std::string MakeSyntheticDuplicate(uint64_t seed, uint64_t index, int64_t words);

// Takes the next piece of text; `done` words or examples are written with it.
using TextSink = std::function<void(std::string_view text, int64_t done)>;
// Documents, paragraphs separated by blank lines, until `words` words are written (the last document is whole). Returns
// the number of words written.
int64_t WriteSyntheticText(const TextSink& sink, int64_t words, uint64_t seed);
// "sentence<TAB>label" and `examples` rows, numbered from `first`.
void WriteSyntheticClassification(const TextSink& sink, int64_t examples, uint64_t seed, uint64_t first = 0);

// `examples` documents of about `words` words with one question each, as SQuAD JSON, one document a line: 1.1, or 2.0
// where some may be unanswerable. `look` sees each of them.
void WriteSyntheticQuestions(const TextSink& sink, int64_t examples, int64_t words, uint64_t seed,
                             const std::function<void(const SyntheticQuestion&)>& look = {}, double unanswerable = 0);

// `examples` lines {"context", "question", "options", "label"}.
void WriteSyntheticChoices(const TextSink& sink, int64_t examples, uint64_t seed);

// `examples` lines of about `words` words: MakeSyntheticDuplicate.
void WriteSyntheticDuplicates(const TextSink& sink, int64_t examples, int64_t words, uint64_t seed);

}  // namespace lshformer
