#include "synth/synth.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/philox.h"
#include "synth/words.h"

namespace lshformer {
namespace {

using synth::Past;
using synth::Plural;
using synth::ThirdPerson;

// Keeps the streams of the generators apart; 2 to 4 are those of synth/questions.cc.
enum class Kind : uint32_t { kText = 0, kReview = 1, kDuplicate = 5 };
constexpr int kSymbols = 127;  // of the duplication task, beside 0

class Dice {
 public:
  Dice(uint64_t seed, uint64_t index, Kind kind)
      : random_(StreamKey(seed, index, static_cast<uint32_t>(kind), 0, Purpose::kSynthetic)) {}
  int Below(int bound) { return static_cast<int>(random_.Below(static_cast<uint64_t>(bound))); }
  bool Chance(int percent) { return Below(100) < percent; }
  template <class T>
  const T& Pick(std::span<const T> list) {
    return list[static_cast<size_t>(Below(static_cast<int>(list.size())))];
  }
  std::string Word(std::span<const std::string_view> list) { return std::string(Pick(list)); }

 private:
  PhiloxStream random_;
};

std::string Capitalised(std::string sentence) {
  char& first = sentence[sentence[0] == '"' ? 1 : 0];
  first = static_cast<char>(std::toupper(static_cast<unsigned char>(first)));
  return sentence;
}

// "a" or "an" by the first letter.
std::string WithArticle(const std::string& words) {
  return (std::string_view("aeiou").find(words[0]) != std::string_view::npos ? "an " : "a ") + words;
}

// One clause about one aspect of a film with the given polarity: "the plot is never dull".
// `other` is an aspect that is spoken of already.
std::string Opinion(Dice& dice, bool positive, std::string* other = nullptr) {
  std::string aspect = dice.Word(synth::Aspects());
  while (other != nullptr && aspect == *other) aspect = dice.Word(synth::Aspects());
  if (other != nullptr) *other = aspect;
  const std::string subject = "the " + aspect;
  const int form = dice.Below(10);
  if (form < 2) {
    return subject + " is " + dice.Word(synth::Negations()) + " " + dice.Word(synth::MildAdjectives(!positive));
  }
  if (form < 5) return subject + " " + dice.Word(synth::Verdicts(positive));
  std::string adjective =
      dice.Word(dice.Chance(50) ? synth::MildAdjectives(positive) : synth::StrongAdjectives(positive));
  if (dice.Chance(40)) adjective = dice.Word(synth::Intensifiers()) + " " + adjective;
  return subject + " is " + adjective;
}

// A sentence whose main clause has the given polarity; in a contrast the other clause says the opposite.
std::string OpinionSentence(Dice& dice, bool positive) {
  std::string aspect;
  const std::string main = Opinion(dice, positive, &aspect);
  const int form = dice.Below(20);
  if (form < 2) return Opinion(dice, !positive, &aspect) + ", but " + main;
  if (form < 3) return "although " + Opinion(dice, !positive, &aspect) + ", " + main;
  if (form < 5) return main + ", even though " + Opinion(dice, !positive, &aspect);
  if (form < 6) return "whether or not " + Opinion(dice, !positive, &aspect) + ", " + main;
  if (form < 10) return main + " and " + Opinion(dice, positive, &aspect);
  if (form < 12) return dice.Word(synth::NeutralRemarks()) + ", and " + main;
  return main;
}

// One document: its topic, its person and its tense hold for all sentences.
class Story {
 public:
  Story(uint64_t seed, uint64_t index)
      : dice_(seed, index, Kind::kText),
        topic_(dice_.Pick(synth::Topics())),
        person_(dice_.Pick(synth::People())),
        role_(dice_.Word(topic_.roles)),
        past_(dice_.Chance(60)),
        review_(dice_.Chance(20)),
        liked_(dice_.Chance(50)) {}

  std::string Write() {
    std::string document;
    const int paragraphs = 3 + dice_.Below(4);
    for (int p = 0; p < paragraphs; ++p) {
      const int sentences = 3 + dice_.Below(5);
      if (p > 0) document += '\n';
      for (int s = 0; s < sentences; ++s) {
        if (s > 0) document += ' ';
        const bool first = p == 0 && s == 0;
        const std::string sentence = first ? Opening() : review_ ? Review() : Sentence();
        document += Capitalised(sentence) + (sentence.back() == '"' ? "" : ".");
      }
    }
    return document + "\n";
  }

 private:
  std::string Noun() { return dice_.Word(topic_.nouns); }
  std::string Adjective() { return dice_.Word(topic_.adjectives); }
  std::string Place() { return dice_.Word(topic_.places); }
  std::string Base() { return dice_.Word(topic_.verbs); }
  std::string Verb() { return past_ ? Past(Base()) : ThirdPerson(Base()); }
  std::string PluralVerb() { return past_ ? Past(Base()) : Base(); }
  std::string Is() const { return past_ ? "was" : "is"; }
  std::string Are() const { return past_ ? "were" : "are"; }
  std::string Name() const { return std::string(person_.name); }
  std::string Pronoun() const { return person_.female ? "she" : "he"; }
  std::string Possessive() const { return person_.female ? "her" : "his"; }
  std::string Somebody() { return dice_.Chance(30) ? Name() : dice_.Chance(40) ? Pronoun() : "the " + role_; }
  std::string Thing() { return "the " + (dice_.Chance(40) ? Adjective() + " " : "") + Noun(); }
  std::string Things() { return dice_.Word(synth::Quantities()) + " " + Plural(Noun()); }

  std::string Opening() {
    if (review_) return Name() + (past_ ? " wrote " : " writes ") + "about the new film";
    return Name() + " " + Is() + " " + WithArticle(role_) + " " + Place();
  }

  std::string Review() {
    if (dice_.Chance(15)) return Pronoun() + (past_ ? " said" : " says") + " that " + Opinion(dice_, liked_);
    if (dice_.Chance(15)) return dice_.Word(synth::NeutralRemarks());
    return OpinionSentence(dice_, liked_);
  }

  std::string Sentence() {
    switch (dice_.Below(10)) {
      case 0:
        return Somebody() + " " + Verb() + " " + Thing() + " " + Place();
      case 1:
        return "the " + Plural(role_) + " " + PluralVerb() + " " + Things();
      case 2:
        return dice_.Word(synth::TimePhrases()) + ", " + Pronoun() + " " + Verb() + " " + Thing() + " and " + Verb() +
               " " + Thing();
      case 3:
        return "every " + Noun() + " " + Is() + " " + Adjective() + ", but the " + Plural(Noun()) + " " + Are() + " " +
               Adjective();
      case 4:
        return "when the " + Noun() + " " + Is() + " " + Adjective() + ", the " + Plural(role_) + " " + PluralVerb() +
               " it";
      case 5:
        return Things() + " " + Are() + " " + Past(Base()) + " " + Place();
      case 6:
        return Pronoun() + (past_ ? " could" : " can") + " not " + Base() + " the " + Noun() + " because it " + Is() +
               " " + Adjective();
      case 7:
        return "\"the " + Noun() + " is " + Adjective() + ",\" " + dice_.Word(synth::SpeechVerbs()) + " " + Name();
      case 8:
        return Somebody() + " " + Verb() + " " + Possessive() + " " + Noun() + " " + dice_.Word(synth::TimePhrases());
      default:
        return "there " + (past_ ? std::string("was ") : std::string("is ")) + WithArticle(Adjective() + " " + Noun()) +
               " " + Place();
    }
  }

  Dice dice_;
  const synth::Topic& topic_;
  const synth::Person& person_;
  std::string role_;
  bool past_, review_, liked_;
};

int64_t CountWords(std::string_view text) {
  int64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n';
    words += inside && space;
    inside = !space;
  }
  return words + inside;
}

}  // namespace

std::string SyntheticDocument(uint64_t seed, uint64_t index) { return Story(seed, index).Write(); }

SyntheticReview MakeSyntheticReview(uint64_t seed, uint64_t index) {
  Dice dice(seed, index, Kind::kReview);
  const bool positive = dice.Chance(50);
  return {OpinionSentence(dice, positive), positive ? 1 : 0};
}

std::string MakeSyntheticDuplicate(uint64_t seed, uint64_t index, int64_t words) {
  Dice dice(seed, index, Kind::kDuplicate);
  std::string half = "0";
  for (int64_t i = 0; i < std::max<int64_t>(1, (words - 2) / 2); ++i)
    half += fmt::format(" {}", 1 + dice.Below(kSymbols));
  return half + " " + half;
}

int64_t WriteSyntheticText(const TextSink& sink, int64_t words, uint64_t seed) {
  int64_t written = 0;
  for (uint64_t index = 0; written < words; ++index) {
    std::string document = SyntheticDocument(seed, index);
    written += CountWords(document);
    // A blank line ends a paragraph.
    for (size_t end = document.find('\n'); end != std::string::npos; end = document.find('\n', end + 2))
      document.insert(end, "\n");
    sink(document, written);
  }
  return written;
}

void WriteSyntheticClassification(const TextSink& sink, int64_t examples, uint64_t seed, uint64_t first) {
  sink("sentence\tlabel\n", 0);
  for (int64_t i = 0; i < examples; ++i) {
    const SyntheticReview review = MakeSyntheticReview(seed, first + static_cast<uint64_t>(i));
    sink(fmt::format("{}\t{}\n", review.sentence, review.label), i + 1);
  }
}

void WriteSyntheticDuplicates(const TextSink& sink, int64_t examples, int64_t words, uint64_t seed) {
  for (int64_t i = 0; i < examples; ++i)
    sink(MakeSyntheticDuplicate(seed, static_cast<uint64_t>(i), words) + "\n", i + 1);
}

}  // namespace lshformer
