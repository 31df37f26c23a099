#include "data/multiple_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "data/small_tokenizer.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::SmallTokenizer;
using testing::TempFolder;

constexpr const char* kLine = R"({"context": "a b c", "question": "d e", "options": ["f", "g"], "label": 1, "id": 7})";
constexpr const char* kRace = R"({"answers": ["B", "A"], "options": [["x", "y", "z"], ["k", "l"]],
  "questions": ["It is _ .", "why"],
  "article": "a b",
  "id": "high1.txt"})";

std::string OneLine(std::string text) {
  std::erase(text, '\n');
  return text;
}

TEST(ReadChoices, ReadsBothLayoutsInLinesAndAsAWhole) {
  const TempFolder folder;
  // RACE's object spread over lines, in one line, and among lines of the other kind; letters and numbers as labels.
  const std::string letter = R"({"context": "a b c", "question": "", "options": ["f", "g", "h"], "label": "c"})";
  for (const std::string& text :
       {std::string(kRace), OneLine(kRace), "\xEF\xBB\xBF\n" + OneLine(kRace) + "\n \n" + kLine}) {
    const ChoiceData data = ReadChoices(folder.Write("a.txt", text), /*labelled=*/true);
    ASSERT_GE(data.questions.size(), 2u);
    EXPECT_EQ(data.contexts[0], "a b");
    EXPECT_EQ(data.questions[0].text, "It is _ .");
    EXPECT_THAT(data.questions[0].options, ElementsAre("x", "y", "z"));
    EXPECT_EQ(data.questions[0].label, 1);
    EXPECT_EQ(data.questions[1].label, 0);
    EXPECT_EQ(data.questions[1].context, 0);
    EXPECT_EQ(data.questions[1].level, RaceLevel::kNone);
  }
  const ChoiceData data =
      ReadChoices(folder.Write("b.jsonl", std::string(kLine) + "\r\n" + letter + "\n" + OneLine(kRace)), true);
  ASSERT_EQ(data.questions.size(), 4u);
  EXPECT_THAT(data.contexts, ElementsAre("a b c", "a b")) << "the same text again is kept once";
  EXPECT_EQ(data.questions[0].label, 1);
  EXPECT_EQ(data.questions[1].label, 2);
  EXPECT_EQ(data.questions[3].context, 1);
  EXPECT_THAT(data.questions[3].where, HasSubstr("b.jsonl:3: questions[1]"));
  EXPECT_EQ(ReadChoices(folder / "b.jsonl", true, 3).questions.size(), 3u);
}

TEST(ReadChoices, AFolderHasLevelsAndAnOrder) {
  const TempFolder folder;
  const auto line = [](const char* question) {
    return fmt::format(R"({{"article": "a", "questions": ["{}"], "options": [["x", "y"]], "answers": ["A"]}})",
                       question);
  };
  folder.Write("dev/high/2.txt", line("h2"));
  folder.Write("dev/high/1.txt", line("h1"));
  folder.Write("dev/middle/9.txt", line("m9"));
  folder.Write("dev/readme.md", "not a file of questions");
  folder.Write("dev/middle/.9.txt", "nor is this");
  const ChoiceData data = ReadChoices(RacePath(folder.path(), Split::kValidation), true);
  std::vector<std::string> names;
  for (const ChoiceQuestion& question : data.questions) names.push_back(question.text);
  EXPECT_THAT(names, ElementsAre("m9", "h1", "h2"));
  EXPECT_EQ(data.questions[0].level, RaceLevel::kMiddle);
  EXPECT_EQ(data.questions[2].level, RaceLevel::kHigh);
  EXPECT_EQ(ReadChoices(folder / "dev", true, 2).questions.back().text, "h1");
  EXPECT_EQ(ReadChoices(folder / "dev/high/", true).questions[0].level, RaceLevel::kHigh);
  EXPECT_EQ(ReadChoices(folder / "dev/middle/9.txt", true).questions[0].level, RaceLevel::kMiddle);
  EXPECT_THAT(ErrorOf([&] { RacePath(folder.path(), Split::kTrain); }), HasSubstr("/train: no such folder"));
  folder.Write("none/readme.md", "x");
  EXPECT_THAT(ErrorOf([&] { ReadChoices(folder / "none", true); }),
              HasSubstr("has no .txt, .json, .jsonl or .ndjson file"));
}

// Data sets are often put together of links.
TEST(ReadChoices, AFolderIsReadThroughItsLinks) {
  const TempFolder folder;
  const auto line = [](const char* question) {
    return fmt::format(R"({{"context": "a", "question": "{}", "options": ["x", "y"], "label": 0}})", question);
  };
  folder.Write("real/2.ndjson", line("h2"));
  folder.Write("other/3.jsonl", line("l3"));
  folder.Write("d/middle/1.txt", line("m1"));
  std::filesystem::create_symlink("../real", folder / "d/high");
  std::filesystem::create_symlink("../other/3.jsonl", folder / "d/3.json");
  std::filesystem::create_symlink("..", folder / "d/middle/up");  // around itself
  std::filesystem::create_symlink("d", folder / "link");
  std::filesystem::create_symlink("nowhere", folder / "d/.hidden.txt");
  for (const char* name : {"d", "link"}) {
    const ChoiceData data = ReadChoices(folder / name, true);
    ASSERT_EQ(data.questions.size(), 3u) << name;
    EXPECT_EQ(data.questions[0].text, "m1");
    EXPECT_EQ(data.questions[1].text, "l3");
    EXPECT_EQ(data.questions[2].text, "h2");
    EXPECT_EQ(data.questions[2].level, RaceLevel::kHigh) << "the name of the link";
  }
}

// Nothing is left out in silence.
TEST(ReadChoices, WhatCannotBeReadInAFolderIsNamed) {
  const TempFolder folder;
  folder.Write("d/1.txt", OneLine(kRace));
  const auto error = [&] { return ErrorOf([&] { ReadChoices(folder / "d", true); }); };
  const auto with_link = [&](const char* name, const char* target) {
    std::filesystem::create_symlink(target, folder / name);
    const std::string text = error();
    std::filesystem::remove(folder / name);
    return text;
  };
  EXPECT_THAT(with_link("d/3.txt", "nowhere"), HasSubstr("d/3.txt: No such file"));
  EXPECT_THAT(with_link("d/high", "nowhere"), HasSubstr("d/high: No such file"));
  EXPECT_THAT(with_link("d/self", "self"), HasSubstr("d/self: Too many levels"));
  EXPECT_THAT(with_link("d/null.json", "/dev/null"), HasSubstr("d/null.json: is no regular file"));
  ASSERT_EQ(mkfifo((folder / "d/a.txt").c_str(), 0600), 0);
  EXPECT_THAT(error(), HasSubstr("d/a.txt: is no regular file"));
}

TEST(ReadChoices, SaysWhatIsWrongAndWhere) {
  const TempFolder folder;
  const auto error = [&](const std::string& text, bool labelled = true) {
    return ErrorOf([&] { ReadChoices(folder.Write("a.jsonl", text), labelled); });
  };
  const auto line = [&](const char* options, const char* label = "0", const char* context = "\"c\"") {
    return error(
        fmt::format(R"({{"context": {}, "question": "q", "options": {}, "label": {}}})", context, options, label));
  };
  EXPECT_THAT(line("[]"), HasSubstr("a.jsonl:1: expected 2 to 26 options, got 0"));
  EXPECT_THAT(line("[\"x\"]"), HasSubstr("a.jsonl:1: expected 2 to 26 options, got 1"));
  EXPECT_THAT(line("\"x\""), HasSubstr("a.jsonl:1: \"options\": expected a list, got \"x\""));
  EXPECT_THAT(line("[\"x\", 3]"), HasSubstr("a.jsonl:1: options[1]: expected a string, got 3"));
  for (const char* label : {"2", "-1", "\"C\"", "\"AB\"", "\"1\"", "0.5", "true", "18446744073709551615", "[0]"})
    EXPECT_THAT(line("[\"x\", \"y\"]", label), HasSubstr("\"label\": expected 0 to 1 or \"A\" to \"B\", got "));
  EXPECT_THAT(line("[\"x\", \"y\"]", "null"), HasSubstr("\"label\": expected 0 to 1 or \"A\" to \"B\", got null"));
  EXPECT_THAT(error(R"({"context": "c", "question": "q", "options": ["x", "y"]})"),
              HasSubstr("a.jsonl:1: \"label\" is missing"));
  EXPECT_THAT(line("[\"x\", \"y\"]", "0", "\" \""), HasSubstr("a.jsonl:1: \"context\" is blank"));
  EXPECT_THAT(line("[\"x\", \"y\"]", "0", "3"), HasSubstr("\"context\": expected a string, got 3"));
  EXPECT_THAT(error(R"({"context": "c", "question": " ", "options": ["x", ""], "label": 0})"),
              HasSubstr("a.jsonl:1: question and options[1] are blank"));
  EXPECT_THAT(error(R"({"text": "c"})"), HasSubstr("expected \"article\" with \"questions\", or"));
  EXPECT_THAT(error("\n[1]"), HasSubstr("expected a JSON object, got 1"));
  EXPECT_THAT(error("{\"context\": "), HasSubstr("a.jsonl"));
  EXPECT_THAT(error(""), HasSubstr("a.jsonl: has no questions"));
  folder.Write("race/1.txt", R"({"article": "c", "questions": ["q"], "options": [["x", "y"]], "answers": ["A"]})");
  folder.Write("race/2.txt", "");
  EXPECT_THAT(testing::ErrorOf([&] { ReadChoices(folder / "race", true, 0); }), HasSubstr("2.txt: has no questions"));
  const auto race = [&](const char* questions, const char* options, const char* answers, bool labelled = true) {
    return error(fmt::format(R"({{"article": "c", "questions": {}, "options": {}, "answers": {}}})", questions, options,
                             answers),
                 labelled);
  };
  constexpr const char* kTwo = R"([["x", "y"], ["x", "y"]])";
  EXPECT_THAT(race(R"(["q"])", kTwo, R"(["A"])"), HasSubstr("a.jsonl:1: 1 \"questions\", but 2 \"options\""));
  EXPECT_THAT(race(R"(["q", "r"])", kTwo, R"(["A"])"), HasSubstr("a.jsonl:1: 2 \"questions\", but 1 \"answers\""));
  EXPECT_THAT(race(R"(["q", "r"])", kTwo, R"(["A", "C"])"), HasSubstr("a.jsonl:1: answers[1]: expected 0 to 1 or"));
  EXPECT_THAT(race(R"(["q", 3])", kTwo, R"(["A", "B"])"), HasSubstr("a.jsonl:1: questions[1]: expected a string"));
  EXPECT_THAT(race(R"(["q", "r"])", R"([["x", "y"], "z"])", R"(["A", "B"])"), HasSubstr("options[1]: expected a list"));
  EXPECT_EQ(race(R"(["q", "r"])", kTwo, "3", /*labelled=*/false), "(nothing thrown)") << "answers are not read";
}

TEST(WithOption, FillsGapsOrStandsBehind) {
  EXPECT_EQ(WithOption("It is _ , not _ .", "blue"), "It is blue , not blue .");
  EXPECT_EQ(WithOption("Why?", "Because."), "Why? Because.");
}

TEST(MakeChoice, CutsTheArticleThenTheQuestion) {
  const auto tokenizer = SmallTokenizer();
  const std::vector<int32_t> article{10, 11, 12, 13}, asked{20, 21, 22};
  const Encoding whole = MakeChoice(article, asked, 10, *tokenizer);
  EXPECT_THAT(whole.ids, ElementsAre(2, 10, 11, 12, 13, 3, 20, 21, 22, 3));
  EXPECT_THAT(whole.type_ids, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_FALSE(whole.truncated);
  const Encoding cut = MakeChoice(article, asked, 8, *tokenizer);
  EXPECT_THAT(cut.ids, ElementsAre(2, 10, 11, 3, 20, 21, 22, 3));
  EXPECT_TRUE(cut.truncated);
  EXPECT_THAT(MakeChoice(article, asked, 6, *tokenizer).ids, ElementsAre(2, 10, 3, 21, 22, 3))
      << "the option is at the end";
}

TEST(EncodeChoices, MakesAnExampleOfEachQuestion) {
  const TempFolder folder;
  const auto tokenizer = SmallTokenizer();
  std::string lines;
  for (int i = 0; i < 300; ++i)  // more than are encoded at once
    lines += fmt::format(R"({{"context": "a b c {}", "question": "d _", "options": ["e", "f g"], "label": {}}})", i / 2,
                         i % 2) +
             "\n";
  lines += std::string(R"({"context": "x", "question": "y", "options": ["p", "q", "r"], "label": "B"})") + "\n";
  const ChoiceData data = ReadChoices(folder.Write("a.jsonl", lines), true);
  EXPECT_EQ(data.contexts.size(), 151u);
  int64_t truncated = 0;
  const SequenceSet set = EncodeChoices(data, true, *tokenizer, 9, &truncated);
  ASSERT_EQ(set.size(), 301);
  EXPECT_EQ(set.sequences(), 603);
  EXPECT_EQ(set.label(1), 1);
  EXPECT_EQ(set.label(300), 1);
  EXPECT_EQ(set.SequencesOf(300), std::pair(int64_t{600}, int64_t{603}));
  for (const int64_t i : {0, 255, 256, 299}) {
    for (const int option : {0, 1}) {
      const Encoding want = tokenizer->Encode(fmt::format("a b c {}", i / 2), option == 0 ? "d e" : "d f g", {});
      const std::span<const int32_t> got = set.ids(2 * i + option);
      if (want.ids.size() <= 9) {
        EXPECT_EQ(std::vector<int32_t>(got.begin(), got.end()), want.ids);
        EXPECT_EQ(set.type_ids(2 * i + option), want.type_ids);
      } else {
        EXPECT_EQ(got.size(), 9u);
      }
    }
  }
  EXPECT_EQ(truncated, 300) << "questions of which an option was cut";
  const ChoiceData control = ReadChoices(
      folder.Write("b.jsonl", R"({"context": "\u0001", "question": "y", "options": ["p", "q"], "label": 0})"), true);
  EXPECT_THAT(ErrorOf([&] { EncodeChoices(control, true, *tokenizer, 10, &truncated); }),
              HasSubstr("b.jsonl:1: the article has no tokens"));
}

}  // namespace
}  // namespace lshformer
