#include "data/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;

class Csv : public ::testing::Test {
 protected:
  std::vector<std::vector<std::string>> Read(const std::string& text) {
    CsvReader reader(folder_.Write("a.csv", text));
    std::vector<std::vector<std::string>> records;
    lines_.clear();
    for (std::vector<std::string> fields; reader.Next(fields);) {
      records.push_back(fields);
      lines_.push_back(reader.line_number());
    }
    return records;
  }
  testing::TempFolder folder_;
  std::vector<int64_t> lines_;
};

TEST_F(Csv, FieldsAndQuotes) {
  EXPECT_THAT(Read("a,b,c\n1,,3\n"), ElementsAre(ElementsAre("a", "b", "c"), ElementsAre("1", "", "3")));
  EXPECT_THAT(Read("\"a, b\",\"she said \"\"no\"\"\",\"\"\n"), ElementsAre(ElementsAre("a, b", "she said \"no\"", "")));
  EXPECT_THAT(Read("\"two\nlines\",x\n\nlast,y"),
              ElementsAre(ElementsAre("two\nlines", "x"), ElementsAre("last", "y")));
  EXPECT_THAT(lines_, ElementsAre(1, 4)) << "where a record begins";
}

TEST_F(Csv, CarriageReturnsEndLinesAndStayWithinQuotes) {
  EXPECT_THAT(Read("\xEF\xBB\xBF"
                   "a,b\r\n\r\n\"x\r\ny\",2\r\n"),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("x\r\ny", "2")));
  EXPECT_THAT(Read("a,\"b\r\"\r\n"), ElementsAre(ElementsAre("a", "b\r")));
}

TEST_F(Csv, QuotesElsewhereAreAsInPython) {
  EXPECT_THAT(Read("5\" wide,a\"b\"\n"), ElementsAre(ElementsAre("5\" wide", "a\"b\"")));
  EXPECT_THAT(Read("\"a\"b,c\n"), ElementsAre(ElementsAre("ab", "c")));
}

TEST_F(Csv, AnOpenQuoteNamesTheLineOfItsRecord) {
  EXPECT_THAT(ErrorOf([&] { Read("a,b\n1,\"never\nclosed\n"); }),
              HasSubstr("a.csv:2: a quote is opened and never closed"));
}

}  // namespace
}  // namespace lshformer
