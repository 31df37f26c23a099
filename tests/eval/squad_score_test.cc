// Against the published rules in plain Python (tools/make_squad_golden.py), and what happens to bad files.
#include "eval/squad_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "eval/answer_text.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

const Json& Golden() {
  static const Json golden = ReadJsonFile(LSHFORMER_SOURCE_DIR "/tests/golden/squad.json");
  return golden;
}

TEST(AnswerWords, AreThoseOfPython) {
  for (const Json& text : Golden()["texts"])
    EXPECT_EQ(AnswerWords(text["text"].get<std::string>()), text["words"].get<std::vector<std::string>>())
        << text["text"].dump(-1, ' ', true);
}

class SquadScore : public ::testing::Test {
 protected:
  Json Score(const Json& references, const Json& predictions, const Json& na_prob = nullptr,
             const SquadScoring& scoring = {}) {
    return ScoreSquadFiles(folder_.Write("P.json", predictions.dump()), folder_.Write("R.json", references.dump()),
                           na_prob.is_null() ? "" : folder_.Write("N.json", na_prob.dump()), scoring);
  }
  static Json References(const std::string& questions) {
    return ParseJson(R"({"data": [{"paragraphs": [{"qas": [)" + questions + "]}]}]}", "references");
  }
  TempFolder folder_;
  const Json one_ = References(R"({"id": "q1", "answers": [{"text": "cat"}]})");
  const Json none_ = References(R"({"id": "q1", "answers": []})");
};

TEST_F(SquadScore, FiguresAreThoseOfThePublishedRules) {
  int cases = 0;
  for (const Json& item : Golden()["cases"]) {
    SCOPED_TRACE(cases++);
    const Json got = Score(item["references"], item["predictions"], item["na_prob"],
                           {item["version_2"].get<bool>(), item["na_prob_thresh"].get<double>()});
    EXPECT_EQ(got.size(), item["expected"].size()) << got.dump();
    for (const auto& [key, value] : item["expected"].items()) {
      ASSERT_TRUE(got.contains(key)) << key;
      EXPECT_NEAR(got[key].get<double>(), value.get<double>(), 1e-10) << key;
    }
  }
  EXPECT_GT(cases, 100);
}

TEST_F(SquadScore, BadFilesAreNamed) {
  const auto error = [&](const Json& references, const Json& predictions, const Json& na_prob = nullptr,
                         bool version_2 = true) {
    return ErrorOf([&] { Score(references, predictions, na_prob, {version_2, 1}); });
  };
  EXPECT_THAT(error(one_, Json::object()), HasSubstr("P.json: no prediction for question \"q1\""));
  EXPECT_THAT(error(one_, {{"q1", 3}}), HasSubstr("P.json: question \"q1\": expected a string, got 3"));
  EXPECT_THAT(error(one_, Json::array()), HasSubstr("P.json: expected an object, question id to value, got a list"));
  EXPECT_THAT(error(one_, {{"q1", "x"}}, {{"q2", 0.5}}), HasSubstr("N.json: no probability for question \"q1\""));
  EXPECT_THAT(error(one_, {{"q1", "x"}}, {{"q1", "y"}}),
              HasSubstr("N.json: question \"q1\": expected a number, got \"y\""));
  EXPECT_THAT(error(one_, {{"q1", "x"}}, Json::object()), HasSubstr("N.json: has no probabilities"));
  EXPECT_THAT(error(none_, {{"q1", "x"}}, nullptr, false),
              HasSubstr("question \"q1\" has no gold answer; version_2_with_negative scores such files"));
  EXPECT_THAT(error(Json::object(), {{"q1", "x"}}), HasSubstr("R.json: \"data\" is missing"));
}

TEST_F(SquadScore, TheOldRulesCountMissingPredictionsAsWrong) {
  const Json two =
      References(R"({"id": "q1", "answers": [{"text": "cat"}]}, {"id": "q2", "answers": [{"text": "mat"}]})");
  const Json scores = Score(two, {{"q1", "the cat"}, {"unknown", "cat"}});
  EXPECT_EQ(scores["exact"], 50);
  EXPECT_EQ(scores["f1"], 50);
  EXPECT_EQ(scores["total"], 2);
  EXPECT_EQ(scores["AvNA"], 50);
}

}  // namespace
}  // namespace lshformer
