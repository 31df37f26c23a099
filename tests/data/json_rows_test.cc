#include "data/json_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class JsonRowsTest : public ::testing::Test {
 protected:
  // Each row as "LINE:JSON"; of the file and of the same text in memory.
  std::vector<std::string> Read(const std::string& text) {
    JsonRows file(folder_.Write("a.json", text), {}), memory(text, "a.json", {});
    const auto all = [](JsonRows& rows) {
      std::vector<std::string> found;
      for (Json row; rows.Next(row);) found.push_back(fmt::format("{}:{}", rows.line_number(), row.dump()));
      return found;
    };
    std::vector<std::string> rows = all(file);
    EXPECT_EQ(all(memory), rows);
    return rows;
  }
  std::string Error(const std::string& text) {
    return ErrorOf([&] { Read(text); });
  }
  testing::TempFolder folder_;
};

TEST_F(JsonRowsTest, LinesAreRows) {
  EXPECT_THAT(Read("{\"a\":1}\n\n \r\n{\"a\":2}\r\n"), ElementsAre("1:{\"a\":1}", "4:{\"a\":2}"));
  EXPECT_THAT(Read("\xEF\xBB\xBF{\"a\":1}"), ElementsAre("1:{\"a\":1}"));
  EXPECT_THAT(Read(""), IsEmpty());
  EXPECT_THAT(Read(" \n\n"), IsEmpty());
}

TEST_F(JsonRowsTest, AListOfRowsOnOneLineOrMany) {
  EXPECT_THAT(Read("[{\"a\":1}, {\"a\":\"],[{\"}]"), ElementsAre("1:{\"a\":1}", "1:{\"a\":\"],[{\"}"));
  EXPECT_THAT(Read("\n[\n {\n  \"a\": 1\n },\n {\"a\": \"\\\"\"}\n]\n"),
              ElementsAre("3:{\"a\":1}", "6:{\"a\":\"\\\"\"}"));
  EXPECT_THAT(Read("[]"), IsEmpty());
  EXPECT_THAT(Read("[\n]\n"), IsEmpty());
}

TEST_F(JsonRowsTest, AListUnderData) {
  EXPECT_THAT(Read("{\"version\": {\"data\": [{}]}, \"data\": [{\"a\":1},\n{\"a\":2}], \"more\": 3}"),
              ElementsAre("1:{\"a\":1}", "2:{\"a\":2}"));
  EXPECT_THAT(Read("{\n \"data\": [\n  {\"a\":1}]\n}\n"), ElementsAre("3:{\"a\":1}"));
  EXPECT_THAT(Read("{\"data\": [{\"a\":1}]}\n"), ElementsAre("1:{\"a\":1}"));
}

// A row may have a member of that name.
TEST_F(JsonRowsTest, DataOfARowIsItsOwn) {
  EXPECT_THAT(Read("{\"data\":[{\"a\":1}]}\n{\"data\":[{\"a\":2}]}\n"),
              ElementsAre("1:{\"data\":[{\"a\":1}]}", "2:{\"data\":[{\"a\":2}]}"));
  EXPECT_THAT(Read("{\"data\":[1,2]}"), ElementsAre("1:{\"data\":[1,2]}"));
  EXPECT_THAT(Read("{\n\"a\": 1\n}\n"), ElementsAre("1:{\"a\":1}")) << "an object on several lines";
}

TEST_F(JsonRowsTest, ErrorsNameTheLineOfTheRow) {
  EXPECT_THAT(Error("{\"a\":1}\n{\"a\":}\n"), HasSubstr("a.json:2: invalid JSON"));
  EXPECT_THAT(Error("[\n{\"a\":1},\n{\"a\":}\n]"), HasSubstr("a.json:3: invalid JSON"));
  EXPECT_THAT(Error("[\n{\"a\":1},\n5\n]"), HasSubstr("a.json:3: expected a JSON object, got 5"));
  EXPECT_THAT(Error("[{\"a\":1}\n{\"a\":2}]"), HasSubstr("a.json:2: expected ',' or ']' behind a row"));
  EXPECT_THAT(Error("[{\"a\":1},\n{\"a\":2}"), HasSubstr("a.json:2: the list of rows has no end"));
  EXPECT_THAT(Error("[{\"a\":1},\n{\"a\": \"x"), HasSubstr("a.json:2: the list of rows has no end"));
  EXPECT_THAT(Error("[{\"a\":1}] x"), HasSubstr("a.json: invalid JSON"));
  EXPECT_THAT(Error("{\n\"data\": [{\"a\":1}], \"a\": }"), HasSubstr("a.json: invalid JSON"));
}

// What is kept whole is told by the line and column of the file, with what stands there.
TEST_F(JsonRowsTest, PlacesAreThoseOfTheFile) {
  EXPECT_THAT(Error(R"([{"text":"a","label":"x"},{"text":"b","label":"y"}] junk)"),
              HasSubstr("a.json: invalid JSON at column 53: invalid literal, near 'j'"));
  EXPECT_THAT(Error("{\"version\":\"1\",\n\"data\":[\n{\"title\":\"t\",\"paragraphs\":[]}\n]\n} x\n"),
              HasSubstr("a.json: invalid JSON at line 5, column 3: invalid literal, near 'x'"));
  EXPECT_THAT(Error("\n\n[\n{\"a\":1}\n]]\n"), HasSubstr("a.json: invalid JSON at line 5, column 2:"));
  EXPECT_THAT(Error("[{\"a\":1}, {\"a\":}]"), HasSubstr("a.json:1: invalid JSON at column 16:"));
  EXPECT_THAT(Error("[\n {\"a\":1}, {\"a\":}]"), HasSubstr("a.json:2: invalid JSON at column 16:"));
  EXPECT_THAT(Error("[\n {\"a\":1},\n {\n  \"a\":}]"), HasSubstr("a.json:3: invalid JSON at line 4, column 7:"));
  EXPECT_THAT(Error("\n{\n\"a\":}\n"), HasSubstr("a.json:2: invalid JSON at line 3, column 5:"));
}

TEST_F(JsonRowsTest, AnEmptyListUnderData) {
  for (const char* text :
       {"{\"data\":[]}", "{\"version\": \"1\", \"data\": [ ]}\n", "{\n\"data\": [],\n\"version\": 2}"})
    EXPECT_THAT(Read(text), IsEmpty()) << text;
  EXPECT_THAT(Read("{\"text\":\"a\",\"data\":[]}"), ElementsAre("1:{\"text\":\"a\",\"data\":[]}"))
      << "a row of its own";
  EXPECT_THAT(Error("{\"data\":[]} x"), HasSubstr("a.json: invalid JSON at column 13"));
}

// A place without a row is told for what stands there, by the line of the comma.
TEST_F(JsonRowsTest, CommasThatPartNothing) {
  EXPECT_THAT(Error("[{\"a\":1},]"), HasSubstr("a.json:1: a comma too many: expected a row behind it, got ']'"));
  EXPECT_THAT(Error("[\n{\"a\":1},\n\n]"), HasSubstr("a.json:2: a comma too many"));
  EXPECT_THAT(Error("{\"data\": [{\"a\":1},\n]}"), HasSubstr("a.json:1: a comma too many"));
  EXPECT_THAT(Error("[{\"a\":1},,{\"a\":2}]"),
              HasSubstr("a.json:1: a comma too many: expected a row behind it, got ','"));
  EXPECT_THAT(Error("[\n,{\"a\":1}]"), HasSubstr("a.json:2: expected a row, got ','"));
  EXPECT_THAT(Error("[}"), HasSubstr("a.json:1: expected a row, got '}'"));
}

}  // namespace
}  // namespace lshformer
