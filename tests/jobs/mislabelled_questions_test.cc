// The labels of BERT-LSH's script: of places in the passage, looked up in the question.
#include "jobs/mislabelled_questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace lshformer {
namespace {

TEST(MislabelledQuestions, AreOfTheQuestion) {
  const auto label = [](const char* question, const char* text, int start) {
    const MislabelledAnswer answer = MislabelledAnswerOf(question, {text, start});
    return std::pair(answer.text, answer.start);
  };
  EXPECT_EQ(label("Who hid the bird?", "Karla", 100), std::pair(std::string("hid the"), int64_t{4})) << "beyond it";
  EXPECT_EQ(label("Who hid the bird?", "Karla", 3), std::pair(std::string("hid the"), int64_t{4})) << "at a blank";
  EXPECT_EQ(label("Who hid the bird?", "ka", 1), std::pair(std::string("Who"), int64_t{0})) << "inside a word";
  EXPECT_EQ(label("Who hid the bird?", "Karla", 5), std::pair(std::string("hid the"), int64_t{4}));
  EXPECT_EQ(label("Who hid the bird?", "Karla the maid", 13), std::pair(std::string("bird?"), int64_t{12}));
  EXPECT_EQ(label("Ölüm nerede?", "x", 5), std::pair(std::string("nerede?"), int64_t{5})) << "counted in code points";
  EXPECT_EQ(label("Who?", "Karla", 50), std::pair(std::string("Who?"), int64_t{0}));
}

TEST(MislabelledQuestions, AreSquadsFile) {
  SquadData data;
  data.contexts = {"Far away in the old mill Karla hid the bird."};
  data.questions = {{"a", "Who hid the bird?", 0, {{"Karla", 25}}}, {"b", "Where?", 0, {}}};
  std::string text;
  WriteMislabelledQuestions([&](std::string_view piece, int64_t) { text += piece; }, data);
  const Json json = ParseJson(text, "made");
  ASSERT_EQ(json.at("data").size(), 1u) << "questions without answers are left out";
  const Json& paragraph = json.at("data")[0].at("paragraphs")[0];
  EXPECT_EQ(paragraph.at("context"), "Who hid the bird? Far away in the old mill Karla hid the bird.");
  EXPECT_EQ(paragraph.at("qas")[0].at("question"), "?");
  EXPECT_EQ(paragraph.at("qas")[0].at("answers")[0], (Json{{"text", "hid the"}, {"answer_start", 4}}));
}

}  // namespace
}  // namespace lshformer
