#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "infer/fake_model.h"
#include "infer/stream.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::Answer;
using testing::ErrorOf;
using testing::FakeSetup;
using ::testing::HasSubstr;

Json AnswerOf(FakeSetup& setup, const std::string& line) { return Answer(setup.Make(), line); }

TEST(QuestionAnswering, ASpanWithItsPlaceInCodePoints) {
  FakeSetup setup(PredictTask::kQuestionAnswering);
  // Of the context's ids 6, 1, 8 and 5 the largest pair is (8, 8).
  const Json answer = AnswerOf(setup, R"({"id": "x", "question": "a mat", "context": "cat é東 sat the"})");
  EXPECT_EQ(answer["id"], "x");
  ASSERT_EQ(answer["results"].size(), 1U);
  const Json& best = answer["results"][0];
  EXPECT_EQ(best.size(), 4U);
  EXPECT_EQ(best["answer"], "sat");
  EXPECT_EQ(best["start"], 7);
  EXPECT_EQ(best["end"], 10);
  // Scores: sums of two ids, over start ≤ end among 6, 1, 1, 8, 5 ("é" and "東" are unknown words).
  const std::vector<int> ids{6, 1, 1, 8, 5};
  double sum = 0;
  for (size_t s = 0; s < ids.size(); ++s)
    for (size_t e = s; e < ids.size(); ++e) sum += std::exp(ids[s] + ids[e] - 16);
  EXPECT_NEAR(best["score"].get<double>(), 1 / sum, 1e-6);
}

TEST(QuestionAnswering, TopKListsDifferentSpansBestFirst) {
  FakeSetup setup(PredictTask::kQuestionAnswering);
  const Json answer = AnswerOf(setup, R"({"question": "a", "context": "cat sat the", "top_k": 4})");
  std::vector<std::string> texts;
  double last = 1;
  for (const Json& result : answer["results"]) {
    texts.push_back(result["answer"]);
    EXPECT_LE(result["score"].get<double>(), last);
    last = result["score"];
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"sat", "cat sat", "sat the", "cat"}));
}

TEST(QuestionAnswering, ALongContextIsReadToItsEnd) {
  FakeSetup setup(PredictTask::kQuestionAnswering);
  std::string context;
  for (int i = 0; i < 5000; ++i) context += "the cat ";
  context += "sat.";
  const Pipeline pipeline = setup.Make();
  const Json answer = Answer(pipeline, R"({"question": "a", "context": ")" + context + "\"}");
  EXPECT_EQ(answer["results"][0]["answer"], ".");
  EXPECT_EQ(answer["results"][0]["start"], 40'003);
  EXPECT_GT(setup.model->calls.size(), 1U);
  for (const int64_t tokens : setup.model->calls) EXPECT_LE(tokens, setup.options.batch_tokens);
}

TEST(QuestionAnswering, AnAnswerDoesNotDependOnItsNeighbours) {
  FakeSetup setup(PredictTask::kQuestionAnswering);
  setup.options.batch_tokens = 40;
  const Pipeline pipeline = setup.Make();
  std::vector<std::string> lines;
  for (int i = 0; i < 30; ++i) {
    std::string context = "mat";
    for (int k = 0; k < i * 3 % 50; ++k) context += k % 7 == i % 7 ? " sat" : " the";
    lines.push_back(R"({"question": "cat", "context": ")" + context + "\"}");
  }
  std::string all;
  for (const std::string& line : lines) all += (all.empty() ? "" : "\n") + line;
  std::istringstream together(testing::Written(pipeline, all));
  for (const std::string& line : lines) {
    std::string answer;
    ASSERT_TRUE(std::getline(together, answer));
    EXPECT_EQ(ParseJson(answer, "together"), Answer(pipeline, line)) << line;
  }
}

TEST(QuestionAnswering, NoAnswerOnlyWhereItIsAllowed) {
  FakeSetup setup(PredictTask::kQuestionAnswering);
  const std::string line = R"({"question": "a", "context": "[PAD] [UNK]"})";  // ids 0 and 1; [CLS] has 2
  EXPECT_EQ(AnswerOf(setup, line)["results"][0]["answer"], "[UNK]");
  setup.options.answers.version_2 = true;
  const Json none = AnswerOf(setup, line)["results"][0];
  EXPECT_EQ(none["answer"], "");
  EXPECT_EQ(none["start"], 0);
  EXPECT_EQ(none["end"], 0);
  EXPECT_GT(none["score"].get<double>(), 0.5);
  setup.options.answers.null_score_diff_threshold = 2.5;  // (2 + 2) − (1 + 1) = 2 is not above it
  const Json kept = AnswerOf(setup, R"({"question": "a", "context": "[PAD] [UNK]", "top_k": 2})")["results"];
  EXPECT_EQ(kept[0]["answer"], "[UNK]");
  EXPECT_EQ(kept[1]["answer"], "");
}

TEST(QuestionAnswering, BadLinesSayWhatIsWrong) {
  FakeSetup setup(PredictTask::kQuestionAnswering);
  const auto error = [&](const std::string& line) { return AnswerOf(setup, line).value("error", ""); };
  EXPECT_THAT(error(R"({"context": "x"})"), HasSubstr("in:1: \"question\" is missing"));
  EXPECT_THAT(error(R"({"question": "x"})"), HasSubstr("in:1: \"context\" is missing"));
  EXPECT_THAT(error(R"({"question": " ", "context": "x"})"), HasSubstr("\"question\" has no tokens"));
  EXPECT_THAT(error(R"({"question": "x", "context": ""})"), HasSubstr("\"context\" has no tokens"));
  EXPECT_THAT(error(R"({"question": 3, "context": "x"})"), HasSubstr("\"question\": expected a string, got 3"));
  EXPECT_THAT(error(R"({"question": "x", "context": "y", "top_k": 0})"), HasSubstr("\"top_k\": expected 1 to 20"));
  EXPECT_THAT(error(R"({"id": 1, "question": "a a a a a a a a a a", "context": "the cat sat on a mat"})"),
              HasSubstr("the question has 10 tokens, at most 7 leave room for the context"));
}

TEST(QuestionAnswering, OutputsThatAreNotFiniteAreAnError) {
  FakeSetup setup(PredictTask::kQuestionAnswering);
  const Pipeline pipeline = setup.Make();
  setup.model->scale = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Answer(pipeline, R"({"question": "a", "context": "cat"})")["error"].get<std::string>(),
              HasSubstr("not finite"));
}

}  // namespace
}  // namespace lshformer
