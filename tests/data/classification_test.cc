#include "data/classification.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <zlib.h>

#include <algorithm>
#include <sstream>

#include "base/parallel.h"
#include "data/small_tokenizer.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::SmallTokenizer;
using testing::TempFolder;

class TableTest : public ::testing::Test {
 protected:
  TextTable Read(const std::string& name, const std::string& contents, bool need_label = true) {
    return ReadTextTable(folder_.Write(name, contents), need_label);
  }
  std::string Error(const std::string& name, const std::string& contents, bool need_label = true) {
    return ErrorOf([&] { Read(name, contents, need_label); });
  }
  TempFolder folder_;
};

TEST_F(TableTest, TsvOneText) {
  const TextTable table = Read("a.tsv", "sentence\tlabel\ngood \"film\t1\n 'bad'  \t0\n");
  EXPECT_THAT(table.texts, ElementsAre("good \"film", " 'bad'  ")) << "quotes and spaces are literal";
  EXPECT_TRUE(table.pairs.empty());
  EXPECT_THAT(table.labels, ElementsAre("1", "0"));
  EXPECT_THAT(table.lines, ElementsAre(2, 3));
}

TEST_F(TableTest, ByteOrderMarkAndCarriageReturnsAreNoContent) {
  const TextTable table = Read("a.tsv", "\xEF\xBB\xBFsentence\tlabel\r\na\t1\r\nb\t0");
  EXPECT_EQ(table.columns.text, "sentence");
  EXPECT_THAT(table.texts, ElementsAre("a", "b"));
  EXPECT_THAT(table.labels, ElementsAre("1", "0"));
}

TEST_F(TableTest, AColumnThatIsReadStandsOnce) {
  EXPECT_THAT(Error("a.tsv", "sentence\tsentence\tlabel\na\tb\t1\n"),
              HasSubstr("a.tsv: the header has column \"sentence\" twice"));
  EXPECT_THAT(Error("a.tsv", "sentence\tlabel\tlabel\na\t0\t1\n"), HasSubstr("column \"label\" twice"));
  EXPECT_THAT(Read("a.tsv", "sentence1\tsentence2\tnote\tnote\tlabel\na\tb\tx\ty\t0\n").texts, ElementsAre("a"));
}

TEST_F(TableTest, GzipIsReadDirectly) {
  const std::string path = folder_ / "a.tsv.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, "sentence\tlabel\na\t1\n");
  gzclose(file);
  EXPECT_THAT(ReadTextTable(path, true).texts, ElementsAre("a"));
}

struct ColumnCase {
  const char* header;
  const char* text;
  const char* pair;
};
class ColumnRule : public ::testing::TestWithParam<ColumnCase> {};

TEST_P(ColumnRule, IsThatOfRunGlue) {
  TempFolder folder;
  std::string header = GetParam().header;
  const size_t fields = static_cast<size_t>(std::count(header.begin(), header.end(), '\t'));
  const std::string path = folder.Write("a.tsv", header + "\n" + std::string(fields, '\t') + "x\n");
  const TextTable table = ReadTextTable(path, false);
  EXPECT_EQ(table.columns.text, GetParam().text);
  EXPECT_EQ(table.columns.pair, GetParam().pair);
}

INSTANTIATE_TEST_SUITE_P(Headers, ColumnRule,
                         ::testing::Values(ColumnCase{"sentence", "sentence", ""}, ColumnCase{"a\tb\tc", "a", "b"},
                                           ColumnCase{"x\tsentence2\tsentence1", "sentence1", "sentence2"},
                                           ColumnCase{"sentence2\tother", "sentence2", "other"},
                                           ColumnCase{"id\tidx\tindex\ttext", "text", ""},
                                           ColumnCase{"index\tq\tp", "q", "p"}));

TEST_F(TableTest, JsonLines) {
  const TextTable table = Read("a.jsonl",
                               "{\"id\": 7, \"label\": 1, \"text\": \"tab\\there\", \"x\": [1]}\n\n{\"text\": \"b\", "
                               "\"label\": 0, \"new\": 1}\n");
  EXPECT_THAT(table.texts, ElementsAre("tab\there", "b"));
  EXPECT_THAT(table.labels, ElementsAre("1", "0"));
  EXPECT_THAT(table.lines, ElementsAre(1, 3));
  const TextTable pair = Read("b.jsonl", "{\"sentence2\": \"q\", \"sentence1\": \"p\", \"label\": \"yes\"}");
  EXPECT_THAT(pair.texts, ElementsAre("p"));
  EXPECT_THAT(pair.pairs, ElementsAre("q"));
}

// Whatever stands there: nobody reads it.
TEST_F(TableTest, UnlabelledDataHasNoLabels) {
  EXPECT_TRUE(Read("b.csv", "text,label\na,\nb,1\n", false).labels.empty());
  for (const char* label : {"null", "[1]", "{}", "1", "\"\""}) {
    const TextTable table =
        Read("b.jsonl", "{\"text\": \"a\", \"label\": " + std::string(label) + "}\n{\"text\": \"b\"}\n", false);
    EXPECT_THAT(table.texts, ElementsAre("a", "b")) << label;
    EXPECT_TRUE(table.labels.empty() && table.pairs.empty()) << label;
  }
  EXPECT_TRUE(Read("c.jsonl", "{\"text\": \"a\", \"labels\": \"x\"}\n", false).pairs.empty());
  EXPECT_TRUE(Read("c.csv", "text,labels\na,x\n", false).pairs.empty());
  EXPECT_TRUE(Read("a.tsv", "index\tsentence\n0\ta\n", false).labels.empty());
  EXPECT_TRUE(Read("a.jsonl", "{\"sentence\": \"a\"}\n", false).labels.empty());
}

TEST_F(TableTest, BadTablesAreNamedWithTheirLine) {
  EXPECT_THAT(Error("a.tsv", ""), HasSubstr("a.tsv: is empty, expected a header and rows"));
  EXPECT_THAT(Error("a.tsv", "sentence\tlabel\n"), HasSubstr("a.tsv: holds no examples (a header alone)"));
  EXPECT_THAT(Error("a.jsonl", "\n\n"), HasSubstr("a.jsonl: holds no examples (no rows)"));
  EXPECT_THAT(Error("a.tsv", "sentence\nx\n"), HasSubstr("a.tsv:1: no column \"label\" among sentence"));
  EXPECT_THAT(Error("a.tsv", "label\n1\n"), HasSubstr("a.tsv:1: no column with text among label"));
  EXPECT_THAT(Error("a.tsv", "\n\n"), HasSubstr("a.tsv: is empty, expected a header and rows"));
  EXPECT_THAT(Error("a.tsv", "s\t label\na\t1\n"), HasSubstr("a.tsv:1: no column \"label\" among s, \" label\""));
  EXPECT_THAT(Error("a.tsv", "s\tlabel\na\t1\nb\n"),
              HasSubstr("a.tsv:3: expected 2 fields separated by tabs, as in the header, got 1"));
  EXPECT_THAT(Error("a.tsv", "s\tlabel\na\t1\t2\n"),
              HasSubstr("a.tsv:2: expected 2 fields separated by tabs, as in the header, got 3"));
  EXPECT_THAT(Error("a.tsv", "s\tlabel\n\n"), HasSubstr("a.tsv: holds no examples (a header alone)"));
  EXPECT_THAT(Error("a.tsv", "s\tlabel\na\t\n"), HasSubstr("a.tsv:2: the label is empty"));
  EXPECT_THAT(Error("a.tsv", "s\tlabel\n\xFF\t1\n"), HasSubstr("a.tsv:2: is not valid UTF-8"));
  EXPECT_THAT(Error("a.tsv", "s\xC3\tlabel\na\t1\n"), HasSubstr("a.tsv:1: is not valid UTF-8"));
  EXPECT_THAT(Error("a.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\"}\n"),
              HasSubstr("a.jsonl:2: no key \"label\""));
  EXPECT_THAT(Error("a.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"label\": 1}\n"),
              HasSubstr("a.jsonl:2: no key \"text\", which line 1 has"));
  EXPECT_THAT(Error("a.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": 5, \"label\": 1}\n"),
              HasSubstr("a.jsonl:2: \"text\" is 5, expected a string"));
  EXPECT_THAT(Error("a.jsonl", "{\"text\": \"a\", \"label\": [1]}\n"),
              HasSubstr("a.jsonl:1: \"label\" is a list of 1 value, expected a string, a number, true or false"));
  EXPECT_THAT(Error("a.jsonl", "{\"text\": \"a\", \"label\": NaN}\n"), HasSubstr("a.jsonl:1: \"label\" is NaN"));
  EXPECT_THAT(Error("a.jsonl", "{\"text\": \"a\", \"label\": null}\n"), HasSubstr("a.jsonl:1: \"label\" is null"));
  EXPECT_THAT(Error("a.jsonl", "\"text\"\n"), HasSubstr("a.jsonl:1: expected a JSON object"));
  EXPECT_THAT(Error("a.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\"\n"), HasSubstr("a.jsonl:2"));
  EXPECT_THAT(Error("a.jsonl", "{\"text\": \"\xFF\", \"label\": 1}\n"), HasSubstr("a.jsonl:1"));
  EXPECT_THAT(ErrorOf([&] { ReadTextTable(folder_ / "missing.tsv", true); }), HasSubstr("missing.tsv"));
  EXPECT_THAT(ErrorOf([&] {
                ReadTextTable(folder_.Write("b.tsv", "a\tlabel\nx\t1\n"), true, {"title", "", "label"});
              }),
              HasSubstr("b.tsv:1: no column \"title\" among a, label"));
}

// Columns are those of all rows: the first decides nothing.
TEST_F(TableTest, JsonColumnsAreThoseOfAllRows) {
  const TextTable table = Read("a.jsonl", R"({"sentence1": "p", "sentence2": null, "label": 0}
{"sentence1": "q", "sentence2": "r", "label": 1}
{"sentence1": "s", "sentence2": "", "label": 1}
{"sentence1": "t", "label": 1})");
  EXPECT_EQ(table.columns.pair, "sentence2");
  EXPECT_THAT(table.pairs, ElementsAre(std::nullopt, "r", "", std::nullopt)) << "null is none, and empty is a text";
  const TextTable late =
      Read("b.jsonl", "{\"n\": 1, \"label\": 0, \"text\": \"p\"}\n{\"text\": \"q\", \"label\": 1, \"n\": 2}\n");
  EXPECT_EQ(late.columns.text, "text");
  EXPECT_TRUE(late.pairs.empty());
  EXPECT_THAT(Error("c.jsonl", "{\"text\": null, \"label\": 0}\n{\"text\": \"q\", \"label\": 1}\n"),
              HasSubstr("c.jsonl:1: \"text\" is null, expected a string"));
}

TEST_F(TableTest, JsonAsAListOrUnderData) {
  const std::string rows = "{\"text\": \"a\", \"label\": 0},\n {\"text\": \"b\", \"label\": 1}]";
  for (const std::string& text : {"[\n " + rows, "{\"data\":\n [" + rows + ", \"x\": NaN}"}) {
    const TextTable table = Read("a.json", text);
    EXPECT_THAT(table.texts, ElementsAre("a", "b"));
    EXPECT_THAT(table.labels, ElementsAre("0", "1"));
    EXPECT_THAT(table.lines, ElementsAre(2, 3));
  }
  EXPECT_THAT(Error("a.json", "[{\"text\": \"a\", \"label\": 0},\n{\"text\": \"b\"}]"),
              HasSubstr("a.json:2: no key \"label\""));
}

TEST_F(TableTest, Csv) {
  const TextTable table = Read("a.csv", "text,label\r\n\"the boat, old\",0\r\n\r\n\"she said \"\"no\"\"\",1\r\n");
  EXPECT_THAT(table.texts, ElementsAre("the boat, old", "she said \"no\""));
  EXPECT_THAT(table.labels, ElementsAre("0", "1"));
  EXPECT_THAT(table.lines, ElementsAre(2, 4));
  EXPECT_THAT(Error("a.csv", "text,label\na,0\nb\n"),
              HasSubstr("a.csv:3: expected 2 fields separated by commas, as in the header, got 1"));
  EXPECT_THAT(Error("a.csv", "text,label\n\"a\nb\",0\nc,0,1\n"), HasSubstr("a.csv:4: expected 2 fields"));
  EXPECT_THAT(Read("b.csv", "sentence1,sentence2,label\na,,0\n").pairs, ElementsAre("")) << "an empty cell is a text";
}

TEST_F(TableTest, EmptyLinesAreNoRows) {
  const TextTable table = Read("a.tsv", "\nsentence\tlabel\n\na\t1\n  \nb\t0\n\n");
  EXPECT_THAT(table.texts, ElementsAre("a", "b"));
  EXPECT_THAT(table.lines, ElementsAre(4, 6));
  EXPECT_THAT(Read("b.tsv", "sentence1\tsentence2\tlabel\na\t\t1\n").pairs, ElementsAre("")) << "tabs are cells";
}

TEST_F(TableTest, IndexColumnsAreNoText) {
  for (const char* index : {"", "Unnamed: 0", "ID", "Index", "idx"}) {
    const TextTable table = Read("a.tsv", std::string(index) + "\tsentence\tlabel\n0\ta\t1\n");
    EXPECT_EQ(table.columns.text, "sentence") << index;
    EXPECT_TRUE(table.pairs.empty()) << index;
  }
  EXPECT_EQ(Read("a.csv", ",sentence,label\n0,a,1\n").columns.text, "sentence") << "as pandas writes it";
}

TEST_F(TableTest, TrueAndFalseAreLabels) {
  const TextTable table =
      Read("a.jsonl", "{\"text\": \"a\", \"label\": true}\n{\"text\": \"b\", \"label\": false, \"score\": NaN}\n");
  EXPECT_THAT(table.labels, ElementsAre("true", "false"));
  EXPECT_THAT(DiscoverLabels(table), ElementsAre("false", "true"));
}

class LabelSets : public TableTest {};

TEST_F(LabelSets, ByName) {
  const TextTable table = Read("a.jsonl", R"({"text": "x", "labels": ["b", "a"]}
{"text": "y", "labels": []}
{"text": "z", "labels": ["c"]})");
  ASSERT_TRUE(table.multi_label());
  EXPECT_EQ(table.columns.label, "labels");
  EXPECT_TRUE(table.labels.empty());
  const std::vector<std::string> names = DiscoverLabels(table);
  EXPECT_THAT(names, ElementsAre("a", "b", "c"));
  EXPECT_THAT(LabelFlags(table, names), ElementsAre(ElementsAre(1, 1, 0), ElementsAre(0, 0, 0), ElementsAre(0, 0, 1)));
  EXPECT_THAT(ErrorOf([&] {
                LabelFlags(table, {"a", "b"});
              }),
              HasSubstr("a.jsonl:3: label \"c\" is unknown, known: a, b"));
}

TEST_F(LabelSets, ByPlace) {
  const TextTable table = Read("a.jsonl", R"({"text": "x", "labels": [0, 1.0, true]}
{"text": "y", "labels": [0, 0, 0]})");
  EXPECT_EQ(table.label_places, 3);
  EXPECT_THAT(DiscoverLabels(table), ElementsAre("0", "1", "2"));
  EXPECT_THAT(LabelFlags(table, {"7", "8", "9"}), ElementsAre(ElementsAre(0, 1, 1), ElementsAre(0, 0, 0)));
  EXPECT_THAT(ErrorOf([&] { LabelFlags(table, {"a", "b"}); }), HasSubstr("a.jsonl:1: \"labels\" has 3 numbers"));
}

TEST_F(LabelSets, BadOnesAreNamedWithTheirLine) {
  const auto after = [&](const std::string& row) {
    return Error("a.jsonl", "{\"text\": \"x\", \"labels\": [\"a\"]}\n" + row + "\n");
  };
  EXPECT_THAT(after(R"({"text": "y", "labels": ["a"], "label": "a"})"),
              HasSubstr("a.jsonl:1: has \"labels\", but the row of line 2"));
  EXPECT_THAT(Error("a.jsonl", R"({"text": "y", "labels": ["a"], "label": "a"})"),
              HasSubstr("a.jsonl:1: has \"label\" and \"labels\""));
  EXPECT_THAT(after(R"({"text": "y", "label": "a"})"),
              HasSubstr("a.jsonl:1: has \"labels\", but the row of line 2 has \"label\""));
  EXPECT_THAT(after(R"({"text": "y"})"), HasSubstr("a.jsonl:2: no key \"labels\""));
  EXPECT_THAT(after(R"({"text": "y", "labels": "a"})"), HasSubstr("a.jsonl:2: \"labels\" is \"a\", expected a list"));
  EXPECT_THAT(after(R"({"text": "y", "labels": [1]})"), HasSubstr("a.jsonl:2: \"labels\" has 1, expected names alone"));
  EXPECT_THAT(after(R"({"text": "y", "labels": ["a", "a"]})"), HasSubstr("a.jsonl:2: \"labels\" has \"a\" twice"));
  EXPECT_THAT(after(R"({"text": "y", "labels": ["b", ""]})"), HasSubstr("a.jsonl:2: \"labels\" has an empty label"));
  const auto flags = [&](const std::string& list) {
    return Error("f.jsonl", "{\"text\": \"x\", \"labels\": [0, 1]}\n{\"text\": \"y\", \"labels\": " + list + "}\n");
  };
  EXPECT_THAT(flags("[1]"), HasSubstr("f.jsonl:2: \"labels\" has 1 numbers, others have 2"));
  EXPECT_THAT(flags("[0, 2]"), HasSubstr("f.jsonl:2: \"labels\"[1] is 2, expected 0 or 1"));
  EXPECT_THAT(flags("[0, \"a\"]"), HasSubstr("f.jsonl:2: \"labels\"[1] is \"a\""));
}

// Shown as it stands, also where it could be read as a second text.
TEST_F(LabelSets, AStringIsNoSet) {
  const std::string rows = "{\"text\": \"x\", \"labels\": \"a\"}\n{\"text\": \"y\", \"labels\": \"b\"}\n";
  EXPECT_THAT(Error("a.jsonl", rows),
              HasSubstr("a.jsonl:1: \"labels\" is \"a\", expected a list of labels; a row's only label stands under"));
  EXPECT_TRUE(Read("a.jsonl", rows, /*need_label=*/false).pairs.empty()) << "no text of what is only asked either";
  for (const char* labels : {"\"a\"", "1", "null"})
    EXPECT_EQ(
        Read("b.jsonl", "{\"text\": \"x\", \"labels\": " + std::string(labels) + ", \"label\": 1}\n").columns.pair, "")
        << labels;
  EXPECT_EQ(Read("b.csv", "text,labels,label\nx,a,1\n").columns.pair, "");
}

// What warnings an action leaves.
template <class Action>
std::string WarningsOf(const Action& action) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
  spdlog::default_logger()->set_level(spdlog::level::warn);
  action();
  spdlog::set_default_logger(before);
  return log.str();
}

TEST_F(TableTest, LabelsOfSeveralKindsAreToldOnce) {
  const auto warnings = [&](const std::string& labels, bool need_label = true) {
    std::string rows;
    for (size_t begin = 0; begin < labels.size(); begin = labels.find_first_not_of(' ', labels.find(' ', begin)))
      rows += "{\"text\": \"x\", \"label\": " + labels.substr(begin, labels.find(' ', begin) - begin) + "}\n";
    return WarningsOf([&] { Read("a.jsonl", rows, need_label); });
  };
  const std::string told = warnings("1 0 true \"1\"");
  EXPECT_THAT(told, HasSubstr("a.jsonl:3: label true is a truth value, but line 1 has 1, a number"));
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
  EXPECT_THAT(warnings("\"1\" 1"), HasSubstr("a.jsonl:2: label 1 is a number, but line 1 has \"1\", a string"));
  EXPECT_EQ(warnings("1 0.5 2"), "");
  EXPECT_EQ(warnings("true false"), "");
  EXPECT_EQ(warnings("1 \"1\"", /*need_label=*/false), "");
}

// A column that is missing may hide in another one, or under a name that is nearly its own.
TEST_F(TableTest, MissingColumnsComeWithAReason) {
  EXPECT_THAT(Error("a.csv", "text;label\nx;1\n"),
              HasSubstr("no column \"label\" among text;label; the header seems to be separated by semicolons"));
  EXPECT_THAT(Error("a.tsv", "text;label\nx;1\n"),
              HasSubstr("by semicolons: fields are by commas in .csv, else by tabs"));
  EXPECT_THAT(Error("a.csv", "text\tlabel\nx\t1\n"), HasSubstr("separated by tabs"));
  EXPECT_THAT(Error("a.tsv", "text,label\nx,1\n"), HasSubstr("separated by commas"));
  EXPECT_THAT(Error("a.csv", "a;text, raw;label\n0;x, y;1\n"), HasSubstr("separated by semicolons"));
  EXPECT_THAT(WarningsOf([&] { Read("a.csv", "text;id\nx;1\n", /*need_label=*/false); }),
              HasSubstr("a.csv:1: \"text;id\" is read as one column; the header seems"));
  EXPECT_EQ(WarningsOf([&] { Read("a.csv", "text,id\nx,1\n", /*need_label=*/false); }), "");
  EXPECT_EQ(WarningsOf([&] { Read("a.tsv", "the text, raw\tlabel\nx\t1\n"); }), "") << "nothing is missing";
  for (const char* name : {"a.csv", "a.tsv"})
    EXPECT_THAT(
        Error(name, std::string("text") + (name[2] == 'c' ? "," : "\t") + "labels\nx" + (name[2] == 'c' ? "," : "\t") +
                        "1\n"),
        HasSubstr("\"labels\" is for lists of labels, in rows of JSON: a column with one label a row is \"label\""));
  EXPECT_THAT(Error("a.csv", "text,Label\nx,1\n"), HasSubstr("(did you mean \"Label\"?)"));
}

TextTable TableOf(std::vector<std::string> labels) {
  TextTable table;
  table.path = "t.tsv";
  for (size_t i = 0; i < labels.size(); ++i) {
    table.texts.push_back("x");
    table.lines.push_back(static_cast<int64_t>(i) + 2);
  }
  table.labels = std::move(labels);
  return table;
}

// As pandas has them: a column of integers is one of numbers, JSON's strings are what they are.
TEST_F(TableTest, IntegersAreOneClassHoweverTheyAreSpelled) {
  for (const char* name : {"a.csv", "a.tsv"}) {
    const std::string sign = name[2] == 'c' ? "," : "\t";
    const auto labels = [&](const std::vector<std::string>& written) {
      std::string rows = "text" + sign + "label\n";
      for (const std::string& label : written) rows += "x" + sign + label + "\n";
      return Read(name, rows).labels;
    };
    EXPECT_THAT(labels({"-0", "0", "01", "1", "+1", "007"}), ElementsAre("0", "0", "1", "1", "1", "7"));
    EXPECT_THAT(labels({"-0", "0", "x"}), ElementsAre("-0", "0", "x")) << "names";
  }
  EXPECT_THAT(Read("a.jsonl", "{\"text\": \"x\", \"label\": \"01\"}\n{\"text\": \"x\", \"label\": \"1\"}\n").labels,
              ElementsAre("01", "1"));
  EXPECT_EQ(LabelId("1", {"01", "02"}), 0) << "a model's names";
  EXPECT_EQ(LabelId("1", {"0", "001", "01"}), -1) << "either of two";
}

TEST_F(TableTest, StringsOfJsonAreNames) {
  const auto values = [&](const std::vector<std::string>& labels) {
    std::string rows;
    for (const std::string& label : labels) rows += "{\"text\": \"x\", \"label\": " + label + "}\n";
    const TextTable table = Read("a.jsonl", rows);
    return AreValues({&table, 1});
  };
  EXPECT_TRUE(values({"1.5", "0.5"}));
  EXPECT_FALSE(values({"\"1.5\"", "\"0.5\""}));
  EXPECT_FALSE(values({"\"1.5\"", "0.5"}));
  EXPECT_FALSE(values({"\"99999999999999999999\"", "\"1\""}));
}

TEST(Labels, AreSortedAsTextOrByValue) {
  EXPECT_THAT(DiscoverLabels(TableOf({"pos", "neg", "pos", "10", "9"})), ElementsAre("10", "9", "neg", "pos"));
  EXPECT_THAT(DiscoverLabels(TableOf({"10", "9", "-1", "9", "100"})), ElementsAre("-1", "9", "10", "100"));
  EXPECT_THAT(ErrorOf([] {
                DiscoverLabels(TableOf({"a", "a"}));
              }),
              HasSubstr("t.tsv: expected at least two different labels, got only \"a\""));
}

TEST(Labels, AreValuesWhereAllAreNumbersAndNotAllIntegers) {
  const auto are_values = [](std::vector<std::vector<std::string>> files) {
    std::vector<TextTable> tables;
    for (auto& labels : files) tables.push_back(TableOf(std::move(labels)));
    return AreValues(tables);
  };
  EXPECT_TRUE(are_values({{"0.5", "2", "-3.25e-1"}}));
  EXPECT_TRUE(are_values({{"1", "2"}, {"3", "2.0"}}));  // one column over several files
  EXPECT_TRUE(are_values({{"1", "nan"}}));              // and then refused, by LabelValues
  EXPECT_FALSE(are_values({{"1", "2"}, {"0"}}));
  EXPECT_FALSE(are_values({{"good", "bad", "1"}}));
  EXPECT_FALSE(are_values({{"nan", "fan"}}));
  EXPECT_THAT(ErrorOf([&] {
                are_values({{"3.5", "2"}, {"1", "high"}});
              }),
              HasSubstr("t.tsv:3: label \"high\" is no number, but t.tsv:2 has 3.5"));
  EXPECT_THAT(ErrorOf([&] {
                are_values({{"1", "-99999999999999999999"}, {"0"}});
              }),
              HasSubstr("t.tsv:3: label \"-99999999999999999999\": expected an integer of 64 bits at most"));
  EXPECT_FALSE(are_values({{"99999999999999999999", "x"}})) << "names";
}

TEST(Labels, AsValuesAreFiniteNumbers) {
  EXPECT_THAT(LabelValues(TableOf({"0", "5.000", "-1e2", "0.1"})), ElementsAre(0.0, 5.0, -100.0, 0.1));
  for (const char* bad : {"nan", "inf", "-inf", "1e39", "five", "1,5", " 1", "0x1", "1 "})
    EXPECT_THAT(ErrorOf([&] {
                  LabelValues(TableOf({"1.5", bad}));
                }),
                HasSubstr(std::string("t.tsv:3: label \"") + bad + "\": expected a finite number"));
}

// A loss is a mean of squares.
TEST(Labels, AsValuesHaveFiniteSquares) {
  EXPECT_THAT(LabelValues(TableOf({"1.5", "1e19"})), ElementsAre(1.5, 1e19));
  for (const char* bad : {"2e19", "-1e38", "99999999999999999999"})
    EXPECT_THAT(ErrorOf([&] {
                  LabelValues(TableOf({"1.5", bad}));
                }),
                HasSubstr(std::string("t.tsv:3: label \"") + bad + "\": too large to learn"));
}

// As pandas reads a column of numbers, and with it HF's run_glue.
TEST(Labels, OfTsvMayHaveASignOrSpaces) {
  TempFolder folder;
  const auto labels = [&](const std::string& rows) {
    return ReadTextTable(folder.Write("t.tsv", "sentence\tlabel\n" + rows), true);
  };
  const TextTable values = labels("a\t+1.5\nb\t 2\nc\t1e-400\nd\t-.5 \ne\t-1e-400\n");
  EXPECT_TRUE(AreValues({&values, 1}));
  EXPECT_THAT(LabelValues(values), ElementsAre(1.5, 2.0, 0.0, -0.5, 0.0));
  const TextTable classes = labels("a\t+1\nb\t 0\nc\t1\n");
  EXPECT_FALSE(AreValues({&classes, 1}));
  EXPECT_THAT(DiscoverLabels(classes), ElementsAre("0", "1"));
  // What is no number is a name, spaces and all.
  EXPECT_THAT(labels("a\t +x\nb\t+-1\nc\t+\n").labels, ElementsAre(" +x", "+-1", "+"));
  for (const char* bad : {"1e400", "-1e400", "0x1"})
    EXPECT_THAT(ErrorOf([&] { LabelValues(labels("a\t0.5\nb\t" + std::string(bad) + "\n")); }),
                HasSubstr("expected a finite number"));
}

TEST(Labels, AreFoundByNameOrByNumber) {
  const std::vector<std::string> names{"negative", "positive"};
  EXPECT_EQ(LabelId("positive", names), 1);
  EXPECT_EQ(LabelId("0", names), 0);
  for (const char* bad : {"2", "-1", "Positive", "", "1x", "99999999999"}) EXPECT_EQ(LabelId(bad, names), -1) << bad;
  // Names that are numbers are names: no second meaning.
  EXPECT_EQ(LabelId("1", {"-1", "1"}), 1);
  EXPECT_EQ(LabelId("0", {"-1", "1"}), -1);
  EXPECT_THAT(LabelIds(TableOf({"1", "negative"}), names), ElementsAre(1, 0));
  EXPECT_THAT(ErrorOf([&] {
                LabelIds(TableOf({"1", "2"}), names);
              }),
              HasSubstr("t.tsv:3: label \"2\" is unknown, known: negative, positive"));
}

TEST(EncodeTable, KeepsOrderTypesLabelsAndLength) {
  const auto tokenizer = SmallTokenizer();
  TextTable table = TableOf({"0", "1", "0"});
  table.texts = {"a b c", "d", ""};
  table.pairs = {"e", "f g h", "i"};
  const std::vector<int32_t> labels{0, 1, 0};
  int64_t truncated = 0;
  const SequenceSet set = EncodeTable(table, labels, *tokenizer, {.max_seq_length = 6}, &truncated);
  ASSERT_EQ(set.size(), 3);
  EXPECT_THAT(std::vector<int32_t>(set.ids(0).begin(), set.ids(0).end()), ElementsAre(2, 5, 6, 3, 9, 3));
  EXPECT_THAT(set.type_ids(0), ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_EQ(truncated, 2);
  EXPECT_EQ(set.labels(), labels);
}

TEST(EncodeTable, ManyRowsComeInOrderFromSeveralThreads) {
  const auto tokenizer = SmallTokenizer();
  const int before = Threads();
  SetThreads(4);
  TextTable table;
  for (int i = 0; i < 20000; ++i)
    table.texts.push_back(std::string(1, static_cast<char>('a' + i % 26)) + " " + std::to_string(i % 10));
  const SequenceSet set = EncodeTable(table, {}, *tokenizer, {.max_seq_length = 16});
  SetThreads(before);
  ASSERT_EQ(set.size(), 20000);
  for (int i = 0; i < 20000; ++i) ASSERT_EQ(set.ids(i)[1], 5 + i % 26) << i;
  EXPECT_FALSE(set.labelled());
}

}  // namespace
}  // namespace lshformer
