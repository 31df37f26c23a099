#include "data/squad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <set>

#include "base/json.h"
#include "data/shared_folder.h"
#include "util/command.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

class Squad : public ::testing::Test {
 protected:
  // One paragraph with the context "Das Café in Köln." and these questions.
  std::string File(const std::string& questions, const std::string& context = "Das Café in Köln.") {
    return folder_.Write("dev.json", R"({"version": "x", "data": [{"title": "t", "paragraphs": [{"context": ")" +
                                         context + R"(", "qas": [)" + questions + "]}]}]}");
  }
  SquadData Read(const std::string& questions, SquadUse use = SquadUse::kMayHaveNone) {
    return ReadSquad(File(questions), use);
  }
  std::string Wrong(const std::string& questions, SquadUse use = SquadUse::kMayHaveNone) {
    return ErrorOf([&] { Read(questions, use); });
  }
  // A question about Köln with this answer.
  static std::string Asked(const std::string& answers) {
    return R"({"id": "q7", "question": "Where?", "answers": [)" + answers + "]}";
  }
  TempFolder folder_;
};

TEST_F(Squad, CountsCodePoints) {
  const SquadData data = Read(Asked(R"({"text": "Köln", "answer_start": 12}, {"text": "Café", "answer_start": 4})"));
  ASSERT_EQ(data.questions.size(), 1U);
  EXPECT_EQ(data.contexts, std::vector<std::string>{"Das Café in Köln."});
  EXPECT_EQ(data.questions[0].id, "q7");
  EXPECT_EQ(data.questions[0].text, "Where?");
  ASSERT_EQ(data.questions[0].answers.size(), 2U);
  EXPECT_EQ(data.questions[0].answers[0].text, "Köln");
  EXPECT_EQ(data.questions[0].answers[1].start, 4);
}

TEST_F(Squad, QuestionsWithoutAnswers) {
  const std::string none = R"({"id": "q1", "question": "Who?", "answers": [], "is_impossible": true,
                               "plausible_answers": [{"text": "nobody", "answer_start": 900}]})";
  EXPECT_TRUE(Read(none).questions[0].answers.empty());
  EXPECT_THAT(Wrong(none, SquadUse::kAnswerable),
              HasSubstr("dev.json: question \"q1\" has no answer; version_2_with_negative allows such questions"));
  const std::string bare = R"({"id": "q1", "question": "Who?"})";
  EXPECT_EQ(Read(bare, SquadUse::kQuestionsOnly).questions.size(), 1U);
  EXPECT_THAT(Wrong(bare), HasSubstr("question \"q1\": \"answers\" is missing"));
}

TEST_F(Squad, LimitKeepsTheFirstQuestionsAndTheirContexts) {
  const std::string path = folder_.Write("many.json", R"({"data": [{"paragraphs": [{"context": "a", "qas": []},
        {"context": "b", "qas": [{"id": "1", "question": "?"}, {"id": "2", "question": "?"}]},
        {"context": "c", "qas": [{"id": "3", "question": "?"}]}]}]})");
  const SquadData all = ReadSquad(path, SquadUse::kQuestionsOnly);
  EXPECT_EQ(all.contexts, (std::vector<std::string>{"b", "c"})) << "a context without questions is of no use";
  EXPECT_EQ(all.questions[2].context, 1);
  EXPECT_EQ(all.articles, (std::vector<int32_t>{0, 0}));
  const SquadData some = ReadSquad(path, SquadUse::kQuestionsOnly, 2);
  EXPECT_EQ(some.questions.size(), 2U);
  EXPECT_EQ(some.contexts, std::vector<std::string>{"b"});
}

TEST_F(Squad, ContextsKnowTheirArticles) {
  const std::string path = folder_.Write("articles.json", R"({"data": [
      {"paragraphs": [{"context": "a", "qas": [{"id": "1", "question": "?"}]}]},
      {"paragraphs": [{"context": "b", "qas": []}]},
      {"paragraphs": [{"context": "c", "qas": [{"id": "2", "question": "?"}]},
                      {"context": "d", "qas": [{"id": "3", "question": "?"}]}]}]})");
  EXPECT_EQ(ReadSquad(path, SquadUse::kQuestionsOnly).articles, (std::vector<int32_t>{0, 2, 2}));
}

TEST_F(Squad, NumbersAreIdsToo) {
  EXPECT_EQ(Read(R"({"id": 917, "question": "Who?", "answers": []})").questions[0].id, "917");
  EXPECT_THAT(Wrong(R"({"id": 9.5, "question": "Who?", "answers": []})"), HasSubstr("\"id\": expected a string"));
  EXPECT_THAT(Wrong(R"({"id": 1, "question": "?", "answers": []}, {"id": "1", "question": "?", "answers": []})"),
              HasSubstr("question \"1\" is there for the second time"));
}

TEST_F(Squad, BadAnswersNameFileAndQuestion) {
  EXPECT_THAT(
      Wrong(Asked(R"({"text": "Köln", "answer_start": 18})")),
      HasSubstr("dev.json: question \"q7\": answers[0]: \"answer_start\" is 18, the context has 17 characters"));
  EXPECT_THAT(Wrong(Asked(R"({"text": "Köln", "answer_start": -1})")), HasSubstr("\"answer_start\" is -1"));
  EXPECT_THAT(Wrong(Asked(R"({"text": "Köln", "answer_start": 13})")),
              HasSubstr("question \"q7\": answers[0]: \"text\" is \"Köln\", but the context has \"öln.\" at "
                        "\"answer_start\" 13"));
  EXPECT_THAT(Wrong(Asked(R"({"text": "öln. Mehr", "answer_start": 13})")), HasSubstr("the context has \"öln.\""));
  EXPECT_THAT(Wrong(Asked(R"({"text": "", "answer_start": 1})")), HasSubstr("answers[0]: \"text\" is empty"));
  EXPECT_THAT(Wrong(Asked(R"({"text": "Köln"})")), HasSubstr("answers[0]: \"answer_start\" is missing"));
  EXPECT_THAT(Wrong(Asked(R"({"text": "Köln", "answer_start": "12"})")), HasSubstr("expected an integer, got \"12\""));
  EXPECT_THAT(Wrong(Asked(R"({"answer_start": 12})")), HasSubstr("answers[0]: \"text\" is missing"));
  EXPECT_THAT(Wrong(Asked("3")), HasSubstr("answers[0]: \"text\" is missing"));
}

TEST_F(Squad, BadQuestionsNameFileAndPlace) {
  EXPECT_THAT(Wrong(R"({"question": "Who?", "answers": []})"),
              HasSubstr("dev.json: data[0].paragraphs[0].qas[0]: \"id\" is missing"));
  EXPECT_THAT(Wrong(R"({"id": "q1", "answers": []})"), HasSubstr("question \"q1\": \"question\" is missing"));
  EXPECT_THAT(Wrong(R"({"id": "q1", "question": " \t", "answers": []})"),
              HasSubstr("question \"q1\": \"question\" is blank"));
  const std::string one = R"({"id": "q1", "question": "?", "answers": []})";
  EXPECT_THAT(Wrong(one + "," + one), HasSubstr("dev.json: question \"q1\" is there for the second time"));
  EXPECT_THAT(Wrong(""), HasSubstr("dev.json: has no questions"));
  EXPECT_THAT(ErrorOf([&] { ReadSquad(File(one, "  "), SquadUse::kMayHaveNone); }),
              HasSubstr("data[0].paragraphs[0]: \"context\" is blank"));
}

TEST_F(Squad, BadFiles) {
  const auto wrong = [&](const std::string& text) {
    return ErrorOf([&] { ReadSquad(folder_.Write("dev.json", text), SquadUse::kMayHaveNone); });
  };
  EXPECT_THAT(wrong(""), HasSubstr("dev.json: is empty, expected JSON"));
  EXPECT_THAT(wrong("[]"), HasSubstr("dev.json: has no questions"));
  EXPECT_THAT(wrong("{\"data\": ["), HasSubstr("dev.json:1: invalid JSON"));
  EXPECT_THAT(wrong(R"({"data": {}})"), HasSubstr("dev.json: \"data\": expected a list, got an object"));
  EXPECT_THAT(wrong(R"({"data": [{}]})"), HasSubstr("dev.json: data[0]: \"paragraphs\" is missing"));
  EXPECT_THAT(wrong(R"({"data": [{"paragraphs": [{"context": "x"}]}]})"),
              HasSubstr("dev.json: data[0].paragraphs[0]: \"qas\" is missing"));
  EXPECT_THAT(wrong(R"({"data": [{"paragraphs": [{"qas": []}]}]})"),
              HasSubstr("data[0].paragraphs[0]: \"context\" is missing"));
  EXPECT_THAT(ErrorOf([&] { ReadSquad(folder_ / "none.json", SquadUse::kMayHaveNone); }), HasSubstr("none.json"));
}

// The rows that HF's scripts read give what the official form of the same content gives.
TEST_F(Squad, TheFlatForm) {
  const std::string first =
      R"({"id": "1", "title": "t", "context": "a b", "question": "b?", "answers": {"text": ["b"], "answer_start": [2]}})";
  const std::string second =
      R"({"id": "2", "title": "t", "context": "a b", "question": "c?", "answers": {"text": [], "answer_start": []}})";
  const std::string third =
      R"({"id": "3", "title": "u", "context": "é d", "question": "d?", "answers": {"text": ["d", "é"], "answer_start": [2, 0]}})";
  const SquadData nested = ReadSquad(
      folder_.Write("nested.json", R"({"version": "x", "data": [{"title": "t", "paragraphs": [{"context": "a b",
      "qas": [{"id": "1", "question": "b?", "answers": [{"text": "b", "answer_start": 2}]}, {"id": "2", "question": "c?", "answers": []}]}]},
      {"title": "u", "paragraphs": [{"context": "é d", "qas": [{"id": "3", "question": "d?",
      "answers": [{"text": "d", "answer_start": 2}, {"text": "é", "answer_start": 0}]}]}]}]})"),
      SquadUse::kMayHaveNone);
  const std::string lines = first + "\n" + second + "\n" + third + "\n",
                    list = "[" + first + ",\n" + second + ",\n" + third + "]";
  for (const auto& [name, text] :
       {std::pair("a.jsonl", lines), {"b.json", list}, {"c.json", "{\"version\": \"x\",\n\"data\": " + list + "}"}}) {
    const SquadData flat = ReadSquad(folder_.Write(name, text), SquadUse::kMayHaveNone);
    EXPECT_EQ(flat.contexts, nested.contexts) << name;
    EXPECT_EQ(flat.articles, nested.articles) << name;
    ASSERT_EQ(flat.questions.size(), nested.questions.size()) << name;
    for (size_t q = 0; q < flat.questions.size(); ++q) {
      const SquadQuestion &one = flat.questions[q], &other = nested.questions[q];
      EXPECT_EQ(one.id, other.id);
      EXPECT_EQ(one.text, other.text);
      EXPECT_EQ(one.context, other.context);
      ASSERT_EQ(one.answers.size(), other.answers.size());
      for (size_t a = 0; a < one.answers.size(); ++a) {
        EXPECT_EQ(one.answers[a].text, other.answers[a].text);
        EXPECT_EQ(one.answers[a].start, other.answers[a].start);
      }
    }
    EXPECT_EQ(ReadSquadReferences(folder_ / name)[2].answers, (std::vector<std::string>{"d", "é"}));
  }
}

TEST_F(Squad, BadFlatRowsNameTheirLine) {
  const auto wrong = [&](const std::string& row) {
    return ErrorOf([&] { ReadSquad(folder_.Write("a.jsonl", "\n" + row + "\n"), SquadUse::kAnswerable); });
  };
  EXPECT_THAT(wrong(R"({"id": "1", "context": "a", "question": "?"})"),
              HasSubstr("a.jsonl:2: question \"1\": \"answers\" is missing"));
  EXPECT_THAT(wrong(R"({"id": "1", "question": "?"})"), HasSubstr("a.jsonl:2: \"context\" is missing"));
  EXPECT_THAT(wrong(R"({"context": "a", "question": "?"})"), HasSubstr("a.jsonl:2: \"id\" is missing"));
  EXPECT_THAT(wrong(R"({"id": "1", "context": "a", "question": "?", "answers": {"text": [], "answer_start": []}})"),
              HasSubstr("a.jsonl:2: question \"1\" has no answer"));
  EXPECT_THAT(wrong(R"({"id": "1", "context": "a", "question": "?", "answers": {"text": ["a"], "answer_start": []}})"),
              HasSubstr("a.jsonl:2: question \"1\": \"answers\": 1 of \"text\", but 0 of \"answer_start\""));
  EXPECT_THAT(wrong(R"({"id": "1", "context": "a", "question": "?", "answers": {"text": ["b"], "answer_start": [0]}})"),
              HasSubstr("a.jsonl:2: question \"1\": answers[0]: \"text\" is \"b\", but the context has \"a\""));
}

// A file of holes: reading it to the limit would take a gigabyte of memory first.
TEST_F(Squad, TooLargeAFileIsRefusedBeforeItIsRead) {
  const std::string path = folder_.Write("dev.json", "");
  std::filesystem::resize_file(path, uint64_t{3} << 30);
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  EXPECT_THAT(ErrorOf([&] { ReadSquad(path, SquadUse::kMayHaveNone); }), HasSubstr("has more than 1073741824 bytes"));
  EXPECT_THAT(ErrorOf([&] { ReadSquadReferences(path); }), HasSubstr("has more than 1073741824 bytes"));
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 100 << 10) << "kilobytes";
}

TEST_F(Squad, ReferencesNeedIdsAndTextsAlone) {
  const std::string path =
      folder_.Write("r.json", R"({"data": [{"paragraphs": [{"qas": [{"id": "1", "answers": [{"text": "x"}]},
                                                                     {"id": "2", "answers": []}]}]}]})");
  const std::vector<SquadReference> references = ReadSquadReferences(path);
  ASSERT_EQ(references.size(), 2U);
  EXPECT_EQ(references[0].answers, std::vector<std::string>{"x"});
  EXPECT_TRUE(references[1].answers.empty());
}

TEST_F(Squad, AContextOf100000Words) {
  std::string context;
  for (int i = 0; i < 100'000; ++i) context += "wörd ";
  const SquadData data = ReadSquad(
      File(R"({"id": "1", "question": "?", "answers": [{"text": "end", "answer_start": 500000}]})", context + "end"),
      SquadUse::kAnswerable);
  EXPECT_EQ(data.questions[0].answers[0].start, 500'000);
}

TEST_F(Squad, RealFilesAreReadWhole) {
  const std::string shared = testing::SharedFolder();
  if (shared.empty()) GTEST_SKIP() << "no shared data (LSHFORMER_SHARED_DIR)";
  const std::vector<std::pair<std::string, std::pair<size_t, size_t>>> files{
      {"squad1.1/train-v1.1.json.gz", {87'599, 0}},
      {"squad1.1/dev-v1.1.groupB.json.gz", {5'108, 0}},
      {"squad2.0/train-v2.0.groupA.json.gz", {4'417, 2'256}},
      {"squad2.0/dev-v2.0.groupB.json.gz", {3'889, 1'871}},
      {"xquad/xquad.en.groupB.json", {476, 0}},
      {"policyqa/dev.json.gz", {3'809, 0}},
      {"subjqa/train.json.gz", {3'609, 1'345}},
      {"covidqa/covidQA.dev.json.gz", {233, 0}},
  };
  for (const auto& [name, counts] : files) {
    SCOPED_TRACE(name);
    const SquadData data = ReadSquad(shared + "/data/qa/" + name, SquadUse::kMayHaveNone);
    EXPECT_EQ(data.questions.size(), counts.first);
    EXPECT_EQ(static_cast<size_t>(std::count_if(data.questions.begin(), data.questions.end(),
                                                [](const SquadQuestion& q) { return q.answers.empty(); })),
              counts.second);
  }
}

}  // namespace
}  // namespace lshformer
