#include "synth/synth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "base/json.h"
#include "data/multiple_choice.h"
#include "data/squad.h"
#include "synth/words.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

std::string Text(int64_t words, uint64_t seed) {
  std::string text;
  WriteSyntheticText([&](std::string_view piece, int64_t) { text += piece; }, words, seed);
  return text;
}

std::string Reviews(int64_t examples, uint64_t seed, uint64_t first = 0) {
  std::string text;
  WriteSyntheticClassification([&](std::string_view piece, int64_t) { text += piece; }, examples, seed, first);
  return text;
}

int64_t Words(const std::string& text) {
  std::istringstream stream(text);
  std::string word;
  int64_t words = 0;
  while (stream >> word) ++words;
  return words;
}

TEST(SyntheticText, IsAFunctionOfSeedAndSize) {
  EXPECT_EQ(Text(2000, 42), Text(2000, 42));
  EXPECT_NE(Text(2000, 42), Text(2000, 43));
  EXPECT_TRUE(Text(20000, 42).starts_with(Text(2000, 42))) << "a larger file begins with the smaller one";
}

TEST(SyntheticText, CountsItsWords) {
  for (const int64_t words : {1, 500, 12345}) {
    std::string text;
    int64_t last = 0;
    const int64_t written = WriteSyntheticText(
        [&](std::string_view piece, int64_t done) {
          text += piece;
          EXPECT_GT(done, last);
          last = done;
        },
        words, 1);
    EXPECT_EQ(written, Words(text));
    EXPECT_EQ(written, last);
    EXPECT_GE(written, words);
    EXPECT_LT(written, words + 1000) << "no more than one document over";
  }
}

TEST(SyntheticText, IsMadeOfSentencesInParagraphs) {
  std::istringstream stream(Text(30000, 7));
  std::string line;
  bool blank = true;  // paragraphs and blank lines alternate
  while (std::getline(stream, line)) {
    EXPECT_EQ(line.empty(), !blank) << line;
    blank = line.empty();
    if (blank) continue;
    EXPECT_TRUE(std::isupper(static_cast<unsigned char>(line[line[0] == '"']))) << line;
    EXPECT_EQ(line.back(), '.') << line;
    EXPECT_EQ(line.find("  "), std::string::npos) << line;
    EXPECT_EQ(line.find(" a a"), std::string::npos) << "article before a vowel: " << line;
  }
}

// The vocabulary is small and documents differ: both are what makes masked words predictable from context.
TEST(SyntheticText, HasTopics) {
  std::set<std::string> vocabulary;
  std::istringstream stream(Text(200000, 3));
  std::string word;
  while (stream >> word) vocabulary.insert(word);
  EXPECT_GT(vocabulary.size(), 500u);
  EXPECT_LT(vocabulary.size(), 2500u);
  for (const synth::Topic& topic : synth::Topics()) {
    EXPECT_TRUE(vocabulary.contains(std::string(topic.nouns.front()))) << topic.nouns.front();
  }
}

TEST(SyntheticReviews, ARangeIsPartOfTheWhole) {
  const std::string whole = Reviews(50, 9), part = Reviews(20, 9, 30);
  EXPECT_TRUE(whole.ends_with(part.substr(part.find('\n') + 1)));
  EXPECT_TRUE(Reviews(500, 9).starts_with(Reviews(100, 9)));
}

TEST(SyntheticReviews, LabelsAreBalanced) {
  int positive = 0;
  constexpr int kReviews = 10000;
  for (int i = 0; i < kReviews; ++i) positive += MakeSyntheticReview(42, i).label;
  EXPECT_NEAR(positive, kReviews / 2, 5 * std::sqrt(kReviews / 4.0));
}

// The meaning of the grammar, read back from the words alone: the main clause decides, negation turns it round.
int ReadReview(const std::string& sentence) {
  std::string clause = sentence;
  const auto keep_after = [&](const std::string& mark) {
    if (const size_t at = clause.find(mark); at != std::string::npos) clause = clause.substr(at + mark.size());
  };
  if (clause.starts_with("although ") || clause.starts_with("whether or not ")) keep_after(", ");
  keep_after(", but ");
  keep_after(", and ");
  clause = clause.substr(0, clause.find(", even though "));
  for (const bool positive : {false, true}) {
    for (const auto verdict : synth::Verdicts(positive)) {
      if (clause.find(verdict) != clause.npos) return positive;
    }
  }
  // Of two clauses ("… and …") both have the label; the last one is looked at, with its own negation.
  for (const bool positive : {false, true}) {
    for (const auto list : {synth::MildAdjectives(positive), synth::StrongAdjectives(positive)}) {
      for (const auto adjective : list) {
        if (clause.ends_with(" " + std::string(adjective))) {
          const size_t last = clause.rfind(" is ");
          bool negated = false;
          for (const auto negation : synth::Negations())
            negated |= clause.compare(last + 4, negation.size(), negation) == 0;
          return positive != negated;
        }
      }
    }
  }
  return -1;
}

TEST(SyntheticReviews, LabelsAreWhatTheSentencesSay) {
  for (int i = 0; i < 20000; ++i) {
    const SyntheticReview review = MakeSyntheticReview(5, i);
    ASSERT_EQ(ReadReview(review.sentence), review.label) << review.sentence;
  }
}

// A bag of words must not be enough, or the task would not need attention.
TEST(SyntheticReviews, ABagOfWordsIsNotEnough) {
  std::map<std::string, double> weight;
  const auto each_word = [](const std::string& sentence, auto visit) {
    std::istringstream stream(sentence);
    for (std::string word; stream >> word;) visit(word);
  };
  std::map<std::string, std::pair<double, double>> counts;
  for (int i = 0; i < 8000; ++i) {
    const SyntheticReview review = MakeSyntheticReview(5, i);
    each_word(review.sentence, [&](const std::string& w) { ++(review.label ? counts[w].first : counts[w].second); });
  }
  for (const auto& [word, count] : counts) weight[word] = std::log((count.first + 1) / (count.second + 1));
  int correct = 0;
  for (int i = 8000; i < 10000; ++i) {
    const SyntheticReview review = MakeSyntheticReview(5, i);
    double sum = 0;
    each_word(review.sentence, [&](const std::string& w) { sum += weight[w]; });
    correct += (sum > 0) == (review.label == 1);
  }
  EXPECT_GT(correct, 1200) << "words carry something";
  EXPECT_LT(correct, 1700) << "but not all";
}

std::string Duplicates(int64_t examples, int64_t words, uint64_t seed) {
  std::string text;
  WriteSyntheticDuplicates([&](std::string_view piece, int64_t) { text += piece; }, examples, words, seed);
  return text;
}

TEST(SyntheticDuplicates, AreTwoEqualHalves) {
  for (const int64_t words : {1, 4, 5, 64, 1024}) {
    std::istringstream line(MakeSyntheticDuplicate(42, 1, words));
    const std::vector<int> numbers{std::istream_iterator<int>(line), {}};
    ASSERT_EQ(numbers.size() % 2, 0U);
    const auto half = numbers.begin() + static_cast<int64_t>(numbers.size() / 2);
    EXPECT_EQ(std::vector<int>(numbers.begin(), half), std::vector<int>(half, numbers.end())) << line.str();
    EXPECT_EQ(numbers[0], 0);
    EXPECT_TRUE(std::all_of(numbers.begin() + 1, half, [](int number) { return number >= 1 && number <= 127; }));
    EXPECT_EQ(static_cast<int64_t>(numbers.size()), std::max<int64_t>(4, words / 2 * 2));
  }
}

TEST(SyntheticDuplicates, AreAFunctionOfSeedIndexAndLength) {
  EXPECT_TRUE(Duplicates(50, 40, 9).starts_with(Duplicates(20, 40, 9)));
  EXPECT_NE(Duplicates(5, 40, 9), Duplicates(5, 40, 10));
  std::istringstream lines(Duplicates(2, 40, 9));
  std::string first, second;
  ASSERT_TRUE(std::getline(lines, first) && std::getline(lines, second));
  EXPECT_EQ(second, MakeSyntheticDuplicate(9, 1, 40));
  EXPECT_NE(first, second);
}

TEST(SyntheticDuplicates, NumbersAreEquallyLikely) {
  constexpr int kLines = 500, kSymbols = 127;
  std::map<int, double> seen;  // of first halves, 0 aside
  std::istringstream stream(Duplicates(kLines, 2 * kSymbols + 2, 3));
  std::string line;
  while (std::getline(stream, line)) {
    std::istringstream words(line);
    for (int i = 0, number; i <= kSymbols && words >> number; ++i)
      if (i > 0) ++seen[number];
  }
  ASSERT_EQ(seen.size(), static_cast<size_t>(kSymbols));
  double chi_squared = 0;
  for (const auto& [number, count] : seen) chi_squared += (count - kLines) * (count - kLines) / kLines;
  EXPECT_LT(chi_squared, 190);  // 126 degrees of freedom: exceeded once in 5,000 seeds
}

TEST(SyntheticQuestions, AreAFunctionOfSeedIndexAndLength) {
  const SyntheticQuestion one = MakeSyntheticQuestion(42, 3, 200), same = MakeSyntheticQuestion(42, 3, 200);
  EXPECT_EQ(one.context, same.context);
  EXPECT_EQ(one.question, same.question);
  EXPECT_EQ(one.answer_start, same.answer_start);
  EXPECT_NE(one.context, MakeSyntheticQuestion(43, 3, 200).context);
  EXPECT_NE(one.context, MakeSyntheticQuestion(42, 4, 200).context);
}

// How many of a kind's members the text names, as whole words.
int MembersIn(const std::string& text, const synth::Kind& kind) {
  int found = 0;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalpha(static_cast<unsigned char>(c))) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    found += std::find(kind.members.begin(), kind.members.end(), word) != kind.members.end();
    word.clear();
  }
  return found;
}

TEST(SyntheticQuestions, TheAnswerIsThereOnceAndFarFromTheBeginning) {
  std::set<std::string> kinds;
  for (const int64_t words : {1, 50, 1000}) {
    for (uint64_t i = 0; i < 200; ++i) {
      const SyntheticQuestion made = MakeSyntheticQuestion(7, i, words);
      SCOPED_TRACE(made.question + " " + made.context.substr(0, 500));
      EXPECT_EQ(made.context.substr(static_cast<size_t>(made.answer_start), made.answer.size()), made.answer);
      const std::string fact = " hid the " + made.answer + " ";
      EXPECT_EQ(made.context.find(fact), static_cast<size_t>(made.answer_start) - 9);
      const std::string kind = made.question.substr(6, made.question.find(' ', 6) - 6);
      EXPECT_EQ(made.question, "Which " + kind + " was hidden? Name the " + kind + ".");
      kinds.insert(kind);
      for (const synth::Kind& listed : synth::Kinds()) {
        const int members = MembersIn(made.context, listed);
        if (listed.name == kind) {
          EXPECT_EQ(members, 1) << "only the answer is a " << kind;
          EXPECT_NE(std::find(listed.members.begin(), listed.members.end(), made.answer), listed.members.end());
        }
        EXPECT_LE(members, 1) << listed.name;
      }
      EXPECT_GE(2 * std::count(made.context.begin(), made.context.begin() + made.answer_start, '.') + 1,
                std::count(made.context.begin(), made.context.end(), '.') - 1)
          << "half of the sentences come before";
      const int64_t written = Words(made.context);
      EXPECT_GE(written, words);
      EXPECT_LE(written, words + 70) << "four facts and the end of a sentence more";
    }
  }
  EXPECT_EQ(kinds.size(), synth::Kinds().size()) << "every kind is asked for";
}

TEST(SyntheticQuestions, TheFileIsSquad) {
  const testing::TempFolder folder;
  std::string text;
  std::vector<SyntheticQuestion> seen;
  WriteSyntheticQuestions([&](std::string_view piece, int64_t) { text += piece; }, 25, 100, 42,
                          [&](const SyntheticQuestion& made) { seen.push_back(made); });
  ASSERT_EQ(seen.size(), 25U);
  const SquadData data = ReadSquad(folder.Write("qa.json", text), SquadUse::kAnswerable);
  ASSERT_EQ(data.questions.size(), 25U);
  const SyntheticQuestion third = MakeSyntheticQuestion(42, 3, 100);
  EXPECT_EQ(data.contexts[3], third.context);
  EXPECT_EQ(seen[3].context, third.context);
  EXPECT_EQ(data.questions[3].text, third.question);
  EXPECT_EQ(data.questions[3].answers[0].text, third.answer);
}

// The same documents, whatever the share; those without an answer are asked for a kind that nothing in them is of.
TEST(SyntheticQuestions, SomeAreUnanswerable) {
  constexpr int kQuestions = 400;
  int without = 0;
  for (uint64_t i = 0; i < kQuestions; ++i) {
    const SyntheticQuestion answered = MakeSyntheticQuestion(7, i, 30), made = MakeSyntheticQuestion(7, i, 30, 0.3);
    EXPECT_EQ(made.context, answered.context);
    if (!made.answer.empty()) {
      EXPECT_EQ(made.question, answered.question);
      EXPECT_EQ(made.answer_start, answered.answer_start);
      continue;
    }
    ++without;
    const std::string kind = made.question.substr(6, made.question.find(' ', 6) - 6);
    EXPECT_EQ(made.question, "Which " + kind + " was hidden? Name the " + kind + ".");
    int listed = 0;
    for (const synth::Kind& one : synth::Kinds()) {
      if (one.name != kind) continue;
      ++listed;
      EXPECT_EQ(MembersIn(made.context, one), 0) << made.question << " " << made.context;
    }
    EXPECT_EQ(listed, 1);
    EXPECT_EQ(MakeSyntheticQuestion(7, i, 30, 1).question, made.question) << "a larger share, the same and more";
  }
  EXPECT_NEAR(without, 0.3 * kQuestions, 4 * std::sqrt(kQuestions * 0.3 * 0.7));
}

TEST(SyntheticQuestions, TheFileMayBeSquad2) {
  const testing::TempFolder folder;
  std::string text;
  std::vector<SyntheticQuestion> seen;
  WriteSyntheticQuestions([&](std::string_view piece, int64_t) { text += piece; }, 25, 100, 42,
                          [&](const SyntheticQuestion& made) { seen.push_back(made); }, 0.5);
  const Json json = ParseJson(text, "qa.json");
  EXPECT_EQ(json["version"], "v2.0");
  const SquadData data = ReadSquad(folder.Write("qa.json", text), SquadUse::kMayHaveNone);
  ASSERT_EQ(data.questions.size(), 25U);
  size_t without = 0;
  for (size_t i = 0; i < 25; ++i) {
    EXPECT_EQ(data.questions[i].answers.empty(), seen[i].answer.empty());
    EXPECT_EQ(json["data"][i]["paragraphs"][0]["qas"][0]["is_impossible"], seen[i].answer.empty());
    without += seen[i].answer.empty();
  }
  EXPECT_GT(without, 0U);
  EXPECT_LT(without, 25U);
}

TEST(SynthWords, Inflect) {
  EXPECT_EQ(synth::Plural("galaxy"), "galaxies");
  EXPECT_EQ(synth::Plural("key"), "keys");
  EXPECT_EQ(synth::Plural("compass"), "compasses");
  EXPECT_EQ(synth::ThirdPerson("stop"), "stops");
  EXPECT_EQ(synth::ThirdPerson("carry"), "carries");
  EXPECT_EQ(synth::Past("stop"), "stopped");
  EXPECT_EQ(synth::Past("water"), "watered");
  EXPECT_EQ(synth::Past("measure"), "measured");
}

// What the documentation says of it: each clue alone leaves two options, both together one.
TEST(SyntheticChoice, HasOneRightOptionAndTwoClues) {
  std::map<int, int> labels;
  for (uint64_t i = 0; i < 500; ++i) {
    const SyntheticChoice made = MakeSyntheticChoice(42, i);
    ASSERT_EQ(made.options.size(), 4u);
    EXPECT_EQ(std::set<std::string>(made.options.begin(), made.options.end()).size(), 4u);
    int told = 0, asked = 0, right = -1;
    for (int o = 0; o < 4; ++o) {
      const std::string& option = made.options[static_cast<size_t>(o)];
      const bool in_text = made.context.find(" the " + option + ".") != std::string::npos;
      const auto kind = std::find_if(synth::Kinds().begin(), synth::Kinds().end(), [&](const synth::Kind& k) {
        return std::find(k.members.begin(), k.members.end(), option) != k.members.end();
      });
      ASSERT_NE(kind, synth::Kinds().end());
      const bool of_kind = made.question.find(" " + std::string(kind->name) + " ") != std::string::npos;
      told += in_text, asked += of_kind;
      if (in_text && of_kind) right = o;
    }
    EXPECT_EQ(told, 2);
    EXPECT_EQ(asked, 2);
    EXPECT_EQ(right, made.label);
    ++labels[made.label];
  }
  for (int label = 0; label < 4; ++label) EXPECT_GT(labels[label], 80) << label;
}

TEST(SyntheticChoice, IsReadAsItWasWritten) {
  const testing::TempFolder folder;
  const auto lines = [](int64_t examples, uint64_t seed) {
    std::string text;
    WriteSyntheticChoices([&](std::string_view piece, int64_t) { text += piece; }, examples, seed);
    return text;
  };
  EXPECT_TRUE(lines(50, 42).starts_with(lines(20, 42)));
  EXPECT_NE(lines(5, 42), lines(5, 43));
  const ChoiceData data = ReadChoices(folder.Write("a.jsonl", lines(50, 42)), /*labelled=*/true);
  ASSERT_EQ(data.questions.size(), 50u);
  for (uint64_t i = 0; i < 50; ++i) {
    const SyntheticChoice made = MakeSyntheticChoice(42, i);
    EXPECT_EQ(data.questions[i].options, made.options);
    EXPECT_EQ(data.questions[i].label, made.label);
  }
}

}  // namespace
}  // namespace lshformer
