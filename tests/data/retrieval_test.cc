// Files in BEIR's layout: what is read, and what is wrong with them.
#include "data/passages/retrieval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::vector<CorpusDocument> ReadAll(const std::string& path) {
  std::vector<CorpusDocument> documents;
  CorpusReader corpus(path);
  for (CorpusDocument document; corpus.Next(document);) documents.push_back(document);
  return documents;
}

TEST(Corpus, LinesAreDocuments) {
  const TempFolder folder;
  const std::string path = folder.Write("corpus.jsonl",
                                        "\xEF\xBB\xBF{\"_id\": \"a\", \"title\": \"T\", \"text\": \"one\"}\n\n"
                                        "{\"id\": 7, \"text\": \"\", \"metadata\": {}}\n"
                                        "{\"_id\": \"c\", \"title\": null, \"text\": \"three\"}");
  const std::vector<CorpusDocument> documents = ReadAll(path);
  ASSERT_EQ(documents.size(), 3U);
  EXPECT_EQ(documents[0].Whole(), "T one");
  EXPECT_EQ(documents[1].id, "7");
  EXPECT_EQ(documents[1].line, 3);
  EXPECT_EQ(documents[1].Whole(), "");
  EXPECT_EQ(documents[2].Whole(), "three");
  CorpusReader corpus(path);
  EXPECT_EQ(corpus.Find(3).id, "7");
  EXPECT_EQ(corpus.Find(4).id, "c");
  EXPECT_THAT(ErrorOf([&] { corpus.Find(5); }), EndsWith("corpus.jsonl:5: the document is gone"));
}

TEST(Corpus, LinesOfTextHaveTheirNumbers) {
  const TempFolder folder;
  const std::vector<CorpusDocument> documents = ReadAll(folder.Write("corpus.txt", "one\n\n{two}\n"));
  ASSERT_EQ(documents.size(), 2U);
  EXPECT_EQ(documents[1].id, "3");
  EXPECT_EQ(documents[1].text, "{two}");
}

TEST(Corpus, SaysWhatIsWrongAndWhere) {
  const TempFolder folder;
  const auto error = [&](const std::string& contents) {
    return ErrorOf([&] { ReadAll(folder.Write("corpus.jsonl", contents)); });
  };
  const std::string good = "{\"_id\": \"a\", \"text\": \"one\"}\n";
  EXPECT_THAT(error(good + "{\"_id\": \"b\", \"te"), HasSubstr("corpus.jsonl:2"));
  EXPECT_THAT(error(good + "[1]"), HasSubstr("corpus.jsonl:2: expected an object"));
  EXPECT_THAT(error(good + "{\"text\": \"x\"}"), EndsWith(":2: \"_id\" is missing"));
  EXPECT_THAT(error(good + "{\"_id\": \"\", \"text\": \"x\"}"), EndsWith(":2: \"_id\" is empty"));
  EXPECT_THAT(error(good + "{\"_id\": \"b\"}"), EndsWith(":2: \"text\" is missing"));
  EXPECT_THAT(error(good + "{\"_id\": \"b\", \"text\": 3}"), HasSubstr(":2: \"text\""));
  EXPECT_THAT(ErrorOf([&] { ReadAll(folder.Write("corpus.tsv", "a\tb\n")); }), HasSubstr("not a table"));
  EXPECT_THAT(ErrorOf([&] { ReadAll(folder.Write("corpus.txt", "\xFF\n")); }), EndsWith(":1: expected UTF-8"));
  DistinctIds ids;
  ids.Add("a", "f:1");
  EXPECT_EQ(ErrorOf([&] { ids.Add("a", "f:2"); }), "f:2: id \"a\" for the second time");
}

TEST(Queries, SaysWhatIsWrongAndWhere) {
  const TempFolder folder;
  const auto read = [&](const std::string& contents) { return ReadQueries(folder.Write("queries.jsonl", contents)); };
  const std::string good = "{\"_id\": \"a\", \"text\": \"one\"}\n";
  EXPECT_EQ(read("\n" + good + "\n").size(), 1U);
  EXPECT_THAT(ErrorOf([&] { read("\n\n"); }), EndsWith("has no queries"));
  EXPECT_THAT(ErrorOf([&] { read(good + good); }), EndsWith(":2: id \"a\" for the second time"));
  EXPECT_THAT(ErrorOf([&] { read(good + "{\"_id\": \"b\", \"text\": \" \"}"); }), EndsWith(":2: \"text\" is empty"));
  EXPECT_THAT(ErrorOf([&] { read(good + "{\"_id\""); }), HasSubstr("queries.jsonl:2"));
  EXPECT_THAT(ErrorOf([&] { ReadQueries(folder.Write("queries.txt", "a\n")); }),
              HasSubstr("queries.txt:1: expected lines of JSON"));
}

// What a file is called says nothing against what its first line says.
TEST(Retrieval, KindsAreToldByWhatFilesHold) {
  const TempFolder folder;
  const std::string line = "{\"_id\": \"a\", \"text\": \"one\"}\n";
  for (const char* name : {"a.txt", "a.tsv", "a"}) {
    EXPECT_EQ(ReadQueries(folder.Write(name, line)).at(0).id, "a") << name;
    EXPECT_EQ(ReadAll(folder.Write(name, line)).at(0).id, "a") << name;
  }
}

TEST(Corpus, SpansAreReadWhereTheyAreAskedFor) {
  const TempFolder folder;
  const auto read = [&](const std::string& spans) {
    CorpusReader corpus(
        folder.Write("corpus.jsonl", "{\"_id\": \"a\", \"text\": \"one two\", \"spans\": " + spans + "}\n"), true);
    CorpusDocument document;
    corpus.Next(document);
    return document.spans;
  };
  const auto error = [&](const std::string& spans) { return ErrorOf([&] { read(spans); }); };
  EXPECT_EQ(read("[[0, 3], [4, 7]]"), (std::vector<CodePointSpan>{{0, 3}, {4, 7}}));
  EXPECT_THAT(error("[]"), EndsWith(":1: \"spans\": expected one or more, got an empty list"));
  EXPECT_THAT(error("\"0-3\""), EndsWith(":1: \"spans\": expected a list, got \"0-3\""));
  EXPECT_THAT(error("[[0, 3], 4]"), EndsWith(":1: \"spans\"[1]: expected [start, end], got 4"));
  EXPECT_THAT(error("[[0, 3, 4]]"), EndsWith(":1: \"spans\"[0]: expected [start, end], got a list of 3 values"));
  EXPECT_THAT(error("[[0, 2.5]]"), HasSubstr(":1: \"spans\"[0]: expected whole numbers from 0 to 2147483647, got 2.5"));
  EXPECT_THAT(error("[[-1, 2]]"), EndsWith("got -1"));
  EXPECT_THAT(error("[[\"a\", 2]]"), EndsWith("got \"a\""));
  EXPECT_THAT(error("null"), HasSubstr("expected a list"));
}

class JudgementsTest : public ::testing::Test {
 protected:
  std::vector<std::vector<Judgement>> Read(const std::string& contents) {
    return ReadJudgements(folder_.Write("qrels.tsv", contents), {{"q1", "x"}, {"q2", "y"}});
  }
  std::string Error(const std::string& contents) {
    return ErrorOf([&] { Read(contents); });
  }
  TempFolder folder_;
};

TEST_F(JudgementsTest, WithHeaderWithoutAndTrecs) {
  for (const char* contents : {"query-id\tcorpus-id\tscore\nq2\td1\t2\n\nq2\td2\t0\r\n", "q2\td1\t2\nq2\td2\t0",
                               "q2\t0\td1\t2\nq2\t0\td2\t0\n"}) {
    const auto judgements = Read(contents);
    ASSERT_EQ(judgements.size(), 2U);
    EXPECT_TRUE(judgements[0].empty());
    ASSERT_EQ(judgements[1].size(), 2U);
    EXPECT_EQ(judgements[1][0].document, "d1");
    EXPECT_EQ(judgements[1][0].relevance, 2);
    EXPECT_EQ(judgements[1][1].relevance, 0);
  }
}

TEST_F(JudgementsTest, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(Error("q1\td1\t1\nq3\td1\t1\n"), EndsWith("qrels.tsv:2: query \"q3\" is not among the queries"));
  EXPECT_THAT(Error("q1\td1\t1\nq1\td1\t0\n"), EndsWith(":2: query \"q1\" and document \"d1\" for the second time"));
  EXPECT_THAT(Error("q1\td1\t1\nq1\td2\tmuch\n"), EndsWith(":2: score \"much\": expected a whole number"));
  EXPECT_THAT(Error("q1\td1\t0.5\n"), EndsWith(":1: score \"0.5\": expected a whole number"));
  EXPECT_THAT(Error("q1\td1\t1001\n"), EndsWith(":1: score 1001: expected -1 to 1000"));
  EXPECT_THAT(Error("q1\td1\t99999999999999999999\n"), EndsWith("expected a whole number"));
  EXPECT_THAT(Error("q1\td1\t1\nq1\td2\n"), EndsWith(":2: expected query-id, corpus-id and score, got 2 columns"));
  EXPECT_THAT(Error("query-id\tcorpus-id\tscore\n"), EndsWith("has no judgements"));
}

}  // namespace
}  // namespace lshformer::testing
