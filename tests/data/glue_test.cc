#include "data/glue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <sstream>

#include "base/logging.h"
#include "data/shared_folder.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

// One row of every task in its official layout.
TEST(Glue, ReadsEveryTask) {
  struct Case {
    const char* name;
    const char* header;
    const char* row;
    const char* text;
    const char* pair;
    int label;
  };
  const Case cases[] = {
      {"sst2", "sentence\tlabel", "a \"film \t1", "a \"film ", "", 1},
      {"cola", "gj04\t1\t\tp \"q", "gj04\t0\t*\tq p", "p \"q", "", 1},  // no header: a row
      {"mrpc", "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", "0\t1\t2\tp\tq", "p", "q", 0},
      {"qqp", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "1\t2\t3\tp\tq\t1", "p", "q", 1},
      {"mnli",
       "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_"
       "parse\tsentence1\tsentence2\tlabel1\tgold_label",
       "0\t1\t2\tg\t\t\t\t\tp\tq\tneutral\tcontradiction", "p", "q", 2},
      {"qnli", "index\tquestion\tsentence\tlabel", "0\tp\tq\tnot_entailment", "p", "q", 1},
      {"rte", "index\tsentence1\tsentence2\tlabel", "0\tp\tq\tentailment", "p", "q", 0},
      {"wnli", "index\tsentence1\tsentence2\tlabel", "0\tp\tq\t0", "p", "q", 0},
      {"stsb", "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
       "0\tg\tf\t2012\t0001\tnone\tnone\tp\tq\t3.800", "p", "q", 0},
  };
  for (const Case& example : cases) {
    TempFolder folder;
    const GlueTask& task = FindGlueTask(example.name);
    std::string capitals = example.name;
    for (char& letter : capitals) letter = static_cast<char>(std::toupper(letter));
    EXPECT_EQ(&FindGlueTask(capitals), &task) << "as Hugging Face's scripts take them";
    folder.Write("train.tsv", std::string(example.header) + "\n" + example.row + "\n");
    const TextTable table = ReadGlue(task, folder.path(), Split::kTrain);
    EXPECT_THAT(table.texts.front(), example.text) << example.name;
    EXPECT_EQ(table.rows(), task.header.empty() ? 1 : 2) << example.name;
    using Pairs = std::vector<std::optional<std::string>>;
    EXPECT_EQ(table.pairs, *example.pair == '\0' ? Pairs{} : Pairs{example.pair}) << example.name;
    if (task.regression()) {
      EXPECT_THAT(LabelValues(table), ElementsAre(3.8)) << example.name;
    } else {
      EXPECT_EQ(LabelIds(table, task.labels).front(), example.label) << example.name;
    }
  }
}

TEST(Glue, TestFilesHaveNoLabels) {
  TempFolder folder;
  folder.Write("test.tsv", "index\tsentence\n0\ta\n1\tb\n");
  const TextTable table = ReadGlue(FindGlueTask("sst2"), folder.path(), Split::kTest);
  EXPECT_THAT(table.texts, ElementsAre("a", "b"));
  EXPECT_TRUE(table.labels.empty());
}

TEST(Glue, ColaHasAHeaderInTestFilesAlone) {
  TempFolder folder;
  const GlueTask& cola = FindGlueTask("cola");
  folder.Write("test.tsv", "index\tsentence\n0\ta\n1\tb\n");
  EXPECT_THAT(ReadGlue(cola, folder.path(), Split::kTest).texts, ElementsAre("a", "b"));
  folder.Write("dev.tsv", "gj04\t1\t\ta\ngj04\t0\t*\tb\ngj04\t0\tb\n");
  EXPECT_THAT(ErrorOf([&] { ReadGlue(cola, folder.path(), Split::kValidation); }),
              HasSubstr("dev.tsv:3: expected 4 fields separated by tabs, got 3"));
}

TEST(Glue, BrokenRowsOfQqpAreLeftOutAndCounted) {
  TempFolder folder;
  const std::string header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n";
  folder.Write("dev.tsv", header + "1\t2\n1\t2\t3\tp\tq\t0\n4\t5\t6\tr\n7\t8\t9\ts\tt\t1\n");
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
  spdlog::default_logger()->set_level(spdlog::level::warn);
  const TextTable table = ReadGlue(FindGlueTask("qqp"), folder.path(), Split::kValidation);
  spdlog::set_default_logger(before);
  EXPECT_EQ(table.rows(), 2);
  EXPECT_EQ(table.skipped, 2);
  EXPECT_THAT(table.lines, ElementsAre(3, 5));
  EXPECT_THAT(log.str(), HasSubstr("dev.tsv: 2 of 4 rows have too few fields and are left out"));
  EXPECT_EQ(log.str().find('\n'), log.str().size() - 1) << "one line: " << log.str();
  folder.Write("dev.tsv", header + "1\t2\n");
  EXPECT_THAT(ErrorOf([&] { ReadGlue(FindGlueTask("qqp"), folder.path(), Split::kValidation); }),
              HasSubstr("dev.tsv: holds no examples (all rows are too short)"));
  folder.Write("test.tsv", "id\tquestion1\tquestion2\n0\tp\tq\n1\tr\n");
  EXPECT_THAT(ErrorOf([&] { ReadGlue(FindGlueTask("qqp"), folder.path(), Split::kTest); }),
              HasSubstr("test.tsv:3: expected 3 fields separated by tabs, as in the header, got 2"));
  // Too many fields are no known flaw of the data, and other tasks have none at all.
  folder.Write("dev.tsv", header + "1\t2\t3\tp\tq\t0\t0\n");
  EXPECT_THAT(ErrorOf([&] { ReadGlue(FindGlueTask("qqp"), folder.path(), Split::kValidation); }),
              HasSubstr("dev.tsv:2: expected 6 fields separated by tabs, as in the header, got 7"));
  folder.Write("dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\tp\n");
  EXPECT_THAT(ErrorOf([&] { ReadGlue(FindGlueTask("rte"), folder.path(), Split::kValidation); }),
              HasSubstr("dev.tsv:2: expected 4 fields"));
}

class GlueFileTest : public ::testing::Test {
 protected:
  TextTable Read(const char* task, const std::string& name, const std::string& contents, bool need_label = true,
                 const TableColumns& otherwise = {}) {
    return ReadGlueFile(FindGlueTask(task), folder_.Write(name, contents), need_label, otherwise);
  }
  std::string Error(const char* task, const std::string& name, const std::string& contents) {
    return ErrorOf([&] { Read(task, name, contents); });
  }
  TempFolder folder_;
};

// Whatever stands for a class in the file, number or name, it is the task's name that a model's own order is held to.
TEST_F(GlueFileTest, LabelsAreTheTasksNames) {
  EXPECT_THAT(Read("sst2", "a.tsv", "sentence\tlabel\nx\t1\ny\tnegative\n").labels,
              ElementsAre("positive", "negative"));
  EXPECT_THAT(Read("wnli", "a.tsv", "index\tsentence1\tsentence2\tlabel\n0\tp\tq\t1\n").labels,
              ElementsAre("entailment"));
  EXPECT_THAT(Error("sst2", "a.tsv", "sentence\tlabel\nx\t1\ny\t2\n"),
              HasSubstr("a.tsv:3: label \"2\" is unknown, known: negative, positive"));
  EXPECT_THAT(Error("rte", "a.tsv", "index\tsentence1\tsentence2\tlabel\n0\tp\tq\tneutral\n"),
              HasSubstr("a.tsv:2: label \"neutral\" is unknown, known: entailment, not_entailment"));
}

TEST_F(GlueFileTest, FilesOfOtherLayoutsAreReadToo) {
  // Hugging Face's columns as JSON lines, with the task's texts or without.
  const TextTable questions =
      Read("qqp", "a.jsonl", "{\"idx\": 0, \"question2\": \"q\", \"question1\": \"p\", \"label\": 1}\n");
  EXPECT_EQ(questions.columns.text, "question1");
  EXPECT_THAT(questions.pairs, ElementsAre("q"));
  EXPECT_THAT(questions.labels, ElementsAre("duplicate"));
  const TextTable premises = Read("mnli", "a.tsv", "premise\thypothesis\tlabel\np\tq\t2\n");
  EXPECT_THAT(premises.texts, ElementsAre("p"));
  EXPECT_THAT(premises.labels, ElementsAre("contradiction"));
  EXPECT_THAT(Read("sst2", "a.tsv", "x\ttext\tlabel\np\tq\t0\n", true, {"text", "", "label"}).texts, ElementsAre("q"));
  EXPECT_THAT(Read("cola", "a.tsv", "text\tlabel\np\t0\n").texts, ElementsAre("p"));
  EXPECT_THAT(Read("cola", "a.tsv", "text\np\n", false).texts, ElementsAre("p"));
  EXPECT_THAT(Read("cola", "a.tsv", "gj04\t1\t\tp\n", false).texts, ElementsAre("p")) << "a train.tsv, to predict";
}

TEST_F(GlueFileTest, AMissingColumnIsNamed) {
  EXPECT_THAT(Error("mrpc", "a.tsv", "Quality\t#1 ID\t#2 ID\t#1 String\n1\t2\t3\tp\n"),
              HasSubstr("a.tsv:1: no column \"#2 String\" among Quality, #1 ID, #2 ID, #1 String"));
  EXPECT_THAT(Error("stsb", "a.tsv", "sentence1\tsentence2\np\tq\n"), HasSubstr("a.tsv:1: no column \"score\""));
}

TEST_F(GlueFileTest, ByteOrderMarksAndCarriageReturnsAreNoContent) {
  const TextTable table =
      Read("mrpc", "a.tsv", "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n0\t1\t2\tp\tq\r\n");
  EXPECT_THAT(table.pairs, ElementsAre("q"));
  EXPECT_THAT(table.labels, ElementsAre("not_equivalent"));
  const TextTable headless = Read("cola", "a.tsv", "\xEF\xBB\xBFgj04\t1\t\tp\r\ngj04\t0\t*\tq\r\n");
  EXPECT_THAT(headless.texts, ElementsAre("p", "q"));
}

TEST_F(GlueFileTest, ScoresAreNumbersOfTheirScale) {
  const auto scores = [](const std::string& score) {
    return "sentence1\tsentence2\tscore\na\tb\t0\nc\td\t" + score + "\n";
  };
  EXPECT_THAT(LabelValues(Read("stsb", "a.tsv", scores("5.000"))), ElementsAre(0.0, 5.0));
  for (const char* bad : {"5.001", "-0.5", "1e3"})
    EXPECT_THAT(Error("stsb", "a.tsv", scores(bad)), HasSubstr(std::string("a.tsv:3: label \"") + bad +
                                                               "\": expected a number from 0 to 5 (task_name stsb"));
  for (const char* bad : {"high", "nan", "inf"})
    EXPECT_THAT(Error("stsb", "a.tsv", scores(bad)), HasSubstr("a.tsv:3: label \"" + std::string(bad)));
}

// A test file's labels say nothing, right or wrong: Hugging Face's are −1.
TEST_F(GlueFileTest, LabelsToPredictAreNotRead) {
  for (const char* label : {"1", "-1", "", "what"}) {
    const TextTable table = Read("sst2", "a.tsv", "sentence\tlabel\nx\t" + std::string(label) + "\n", false);
    EXPECT_THAT(table.texts, ElementsAre("x"));
    EXPECT_TRUE(table.labels.empty()) << label;
  }
}

TEST(Glue, EveryTaskHasAFileOfPredictions) {
  std::set<std::string> names;
  for (const GlueTask& task : GlueTasks()) {
    names.insert(task.submission);
    EXPECT_EQ(task.regression(), task.most > task.least) << task.name;
    if (!task.mismatched.empty()) {
      EXPECT_EQ(FindGlueTask(task.mismatched).labels, task.labels);
    }
  }
  EXPECT_THAT(names, ElementsAre("CoLA", "MNLI-m", "MNLI-mm", "MRPC", "QNLI", "QQP", "RTE", "SST-2", "STS-B", "WNLI"));
}

TEST(Glue, NamesFilesAndTasks) {
  EXPECT_THAT(ErrorOf([] { FindGlueTask("sst-2"); }), AllOf(HasSubstr("task_name: expected one of sst2, cola, mrpc"),
                                                            HasSubstr("got \"sst-2\"; did you mean sst2?")));
  TempFolder folder;
  EXPECT_EQ(GluePath(FindGlueTask("mnli-mm"), "d", Split::kValidation), "d/dev_mismatched.tsv");
  folder.Write("train.tsv.gz", "");
  EXPECT_EQ(GluePath(FindGlueTask("sst2"), folder.path(), Split::kTrain), folder / "train.tsv.gz");
  EXPECT_THAT(ErrorOf([&] { ReadGlue(FindGlueTask("sst2"), folder.path(), Split::kValidation); }),
              HasSubstr(folder / "dev.tsv"));
}

// Rows and labels of the real files (checked with Python's str.split on them).
TEST(Glue, RealFiles) {
  const std::string shared = testing::SharedFolder();
  if (shared.empty()) GTEST_SKIP() << "no real data here (LSHFORMER_SHARED_DIR)";
  struct Case {
    const char* task;
    const char* folder;
    Split split;
    int64_t rows, ones;
  };
  const Case cases[] = {
      {"sst2", "SST-2", Split::kTrain, 67349, 37569},    {"sst2", "SST-2", Split::kValidation, 436, -1},
      {"cola", "CoLA", Split::kTrain, 8551, 6023},       {"cola", "CoLA", Split::kValidation, 1043, 721},
      {"mrpc", "MRPC", Split::kTrain, 3668, 2474},       {"mrpc", "MRPC", Split::kValidation, 408, 279},
      {"rte", "RTE", Split::kTrain, 2490, -1},           {"wnli", "WNLI", Split::kTrain, 635, -1},
      {"mnli", "MNLI", Split::kTrain, 6999, -1},         {"mnli", "MNLI", Split::kValidation, 1521, -1},
      {"mnli-mm", "MNLI", Split::kValidation, 1551, -1}, {"stsb", "STS-B", Split::kTrain, 5749, 212},
      {"stsb", "STS-B", Split::kValidation, 1500, 45},
  };
  for (const Case& example : cases) {
    const GlueTask& task = FindGlueTask(example.task);
    const TextTable table = ReadGlue(task, shared + "/data/glue/" + example.folder, example.split);
    EXPECT_EQ(table.rows(), example.rows) << example.task;
    if (task.regression()) {
      const std::vector<double> values = LabelValues(table);
      EXPECT_EQ(std::count(values.begin(), values.end(), 1.0), example.ones) << example.task;
      EXPECT_EQ(*std::min_element(values.begin(), values.end()), 0);
      EXPECT_EQ(*std::max_element(values.begin(), values.end()), 5);
      continue;
    }
    const std::vector<int32_t> labels = LabelIds(table, task.labels);
    if (example.ones >= 0) {
      EXPECT_EQ(std::count(labels.begin(), labels.end(), 1), example.ones) << example.task;
    }
  }
  const TextTable reviews = ReadTextTable(shared + "/data/longdoc/movie_reviews/dev.jsonl.gz", true);
  EXPECT_EQ(reviews.rows(), 200);
  EXPECT_EQ(reviews.columns.text, "text");
  EXPECT_THAT(DiscoverLabels(reviews), ElementsAre("neg", "pos"));
}

}  // namespace
}  // namespace lshformer
