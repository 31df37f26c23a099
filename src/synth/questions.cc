// Long documents with one question each: a fact to be found among others like it, far from the beginning. Short ones
// with options.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/philox.h"
#include "synth/synth.h"
#include "synth/words.h"

namespace lshformer {
namespace {

constexpr int kFacts = 4;
constexpr uint32_t kQuestionKind = 2, kChoiceKind = 3,
                   kUnanswerableKind = 4;  // beside those of synth.cc: keep the streams apart

class QuestionDice {
 public:
  explicit QuestionDice(uint64_t key) : random_(key) {}
  bool Chance(double probability) { return random_.Uniform() < probability; }
  size_t Below(size_t bound) { return static_cast<size_t>(random_.Below(bound)); }
  template <class T>
  const T& Pick(std::span<const T> list) {
    return list[Below(list.size())];
  }

 private:
  PhiloxStream random_;
};

template <class T>
void Shuffle(std::vector<T>& list, QuestionDice& dice) {
  for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[dice.Below(i)]);
}

struct Fact {
  std::string name, kind, thing, place;
  std::string Sentence() const { return name + " hid the " + thing + " " + place + "."; }
};

// Of different people and different kinds of things.
std::vector<Fact> MakeFacts(QuestionDice& dice) {
  std::vector<Fact> facts;
  while (facts.size() < kFacts) {
    const synth::Kind& kind = dice.Pick(synth::Kinds());
    const Fact fact{std::string(dice.Pick(synth::People()).name), std::string(kind.name),
                    std::string(dice.Pick(kind.members)), std::string(dice.Pick(dice.Pick(synth::Topics()).places))};
    const auto clashes = [&](const Fact& other) { return other.name == fact.name || other.kind == fact.kind; };
    if (std::none_of(facts.begin(), facts.end(), clashes)) facts.push_back(fact);
  }
  return facts;
}

// One that none of the facts is about.
std::string_view OtherKind(const std::vector<Fact>& facts, QuestionDice& dice) {
  std::vector<std::string_view> kinds;
  for (const synth::Kind& kind : synth::Kinds()) {
    const auto told = [&](const Fact& fact) { return fact.kind == kind.name; };
    if (std::none_of(facts.begin(), facts.end(), told)) kinds.push_back(kind.name);
  }
  return kinds[dice.Below(kinds.size())];
}

int64_t WordsOfSentence(std::string_view sentence) { return 1 + std::count(sentence.begin(), sentence.end(), ' '); }

// Sentences of one document after another, until they have `words` words; at least one.
std::vector<std::string> MakeFiller(uint64_t seed, int64_t words) {
  std::vector<std::string> sentences;
  int64_t written = 0;
  for (uint64_t index = 0; written < words || sentences.empty(); ++index) {
    std::string document = SyntheticDocument(seed, index);
    std::replace(document.begin(), document.end(), '\n', ' ');
    for (size_t begin = 0, end; (end = document.find(". ", begin)) != document.npos && written < words;
         begin = end + 2) {
      sentences.push_back(document.substr(begin, end + 1 - begin));
      written += WordsOfSentence(sentences.back());
    }
  }
  return sentences;
}

}  // namespace

SyntheticQuestion MakeSyntheticQuestion(uint64_t seed, uint64_t index, int64_t words, double unanswerable) {
  const uint64_t key = StreamKey(seed, index, kQuestionKind, 0, Purpose::kSynthetic);
  QuestionDice dice(key);
  const std::vector<Fact> facts = MakeFacts(dice);
  std::vector<std::string> sentences = MakeFiller(/*seed=*/key, words);
  for (size_t i = 1; i < facts.size(); ++i)
    sentences.insert(sentences.begin() + static_cast<int64_t>(dice.Below(sentences.size() + 1)), facts[i].Sentence());
  // The one that is asked for comes last, so that its half is that of the whole document.
  const size_t half = (sentences.size() + 1) / 2, place = half + dice.Below(sentences.size() + 1 - half);
  SyntheticQuestion made;
  made.answer = facts[0].thing;
  const std::string fact = facts[0].Sentence();
  for (size_t i = 0; i <= sentences.size(); ++i) {
    if (i == place) {
      if (i > 0) made.context += ' ';
      made.answer_start = static_cast<int64_t>(made.context.size() + fact.find(made.answer));
      made.context += fact;
    }
    if (i == sentences.size()) break;
    if (!made.context.empty()) made.context += ' ';
    made.context += sentences[i];
  }
  std::string_view kind = facts[0].kind;
  // Of a stream of its own: the documents are the same, whatever the share.
  QuestionDice none(StreamKey(seed, index, kUnanswerableKind, 0, Purpose::kSynthetic));
  if (none.Chance(unanswerable)) {
    kind = OtherKind(facts, none);
    made.answer.clear();
    made.answer_start = 0;
  }
  made.question = fmt::format("Which {0} was hidden? Name the {0}.", kind);
  return made;
}

void WriteSyntheticQuestions(const TextSink& sink, int64_t examples, int64_t words, uint64_t seed,
                             const std::function<void(const SyntheticQuestion&)>& look, double unanswerable) {
  const bool version_2 = unanswerable > 0;
  sink(fmt::format("{{\"version\": \"{}\", \"data\": [", version_2 ? "v2.0" : "1.1"), 0);
  for (int64_t i = 0; i < examples; ++i) {
    const SyntheticQuestion made = MakeSyntheticQuestion(seed, static_cast<uint64_t>(i), words, unanswerable);
    if (look) look(made);
    Json answers = Json::array();
    if (!made.answer.empty()) answers.push_back({{"text", made.answer}, {"answer_start", made.answer_start}});
    Json question = {{"id", fmt::format("synth-{}-{}", seed, i)}, {"question", made.question}, {"answers", answers}};
    if (version_2) question["is_impossible"] = made.answer.empty();
    const Json paragraph = {{"context", made.context}, {"qas", Json::array({question})}};
    const Json article = {{"title", fmt::format("document {}", i)}, {"paragraphs", Json::array({paragraph})}};
    sink((i == 0 ? "\n" : ",\n") + article.dump(), i + 1);
  }
  sink("\n]}\n", examples);
}

SyntheticChoice MakeSyntheticChoice(uint64_t seed, uint64_t index) {
  QuestionDice dice(StreamKey(seed, index, kChoiceKind, 0, Purpose::kSynthetic));
  const std::vector<Fact> facts = MakeFacts(dice);  // the last one is not told
  const std::string& right = facts[0].thing;
  const auto kind = std::find_if(synth::Kinds().begin(), synth::Kinds().end(),
                                 [&](const synth::Kind& other) { return other.name == facts[0].kind; });
  std::string another = right;
  while (another == right) another = dice.Pick(kind->members);
  SyntheticChoice made;
  made.options = {right, another, facts[1].thing, facts.back().thing};
  std::vector<std::string> sentences;
  for (size_t i = 0; i + 1 < facts.size(); ++i) sentences.push_back(facts[i].name + " hid the " + facts[i].thing + ".");
  Shuffle(sentences, dice);
  Shuffle(made.options, dice);
  made.context = fmt::format("{}", fmt::join(sentences, " "));
  made.question = fmt::format("Which {} was hidden?", facts[0].kind);
  made.label = static_cast<int>(std::find(made.options.begin(), made.options.end(), right) - made.options.begin());
  return made;
}

void WriteSyntheticChoices(const TextSink& sink, int64_t examples, uint64_t seed) {
  for (int64_t i = 0; i < examples; ++i) {
    const SyntheticChoice made = MakeSyntheticChoice(seed, static_cast<uint64_t>(i));
    const Json line = {
        {"context", made.context}, {"question", made.question}, {"options", made.options}, {"label", made.label}};
    sink(line.dump() + "\n", i + 1);
  }
}

}  // namespace lshformer
