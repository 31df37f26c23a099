// The words of the synthetic grammars. Verbs and nouns are regular, so that endings follow a rule that can be learned.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace lshformer::synth {

struct Topic {
  std::span<const std::string_view> roles, nouns, verbs, adjectives, places;
};
std::span<const Topic> Topics();

struct Person {
  std::string_view name;
  bool female;
};
std::span<const Person> People();

// "canary" is one of the birds. None of the members is a word of the other lists: a text names one of them only where
// it is put.
struct Kind {
  std::string_view name;
  std::span<const std::string_view> members;
};
std::span<const Kind> Kinds();

std::span<const std::string_view> TimePhrases();
std::span<const std::string_view> Quantities();   // before a plural
std::span<const std::string_view> SpeechVerbs();  // in the past: "said"

// Reviews. Mild adjectives may be negated; "not superb" says little.
std::span<const std::string_view> MildAdjectives(bool positive);
std::span<const std::string_view> StrongAdjectives(bool positive);
std::span<const std::string_view> Verdicts(bool positive);  // "delights from the first scene"
std::span<const std::string_view> Aspects();                // singular: "plot"
std::span<const std::string_view> Intensifiers();
std::span<const std::string_view> Negations();  // "is" follows or precedes: "is not"
std::span<const std::string_view> NeutralRemarks();

std::string Plural(std::string_view noun);
std::string ThirdPerson(std::string_view verb);
std::string Past(std::string_view verb);  // also the participle

}  // namespace lshformer::synth
