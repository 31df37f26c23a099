#include "report/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "report/xml_check.h"

namespace lshformer {
namespace {

Table Example() {
  Table table;
  table.columns = {"", "exact", "SimHash"};
  table.Section("Pretraining").Row({"loss", "5.607", "5.551"}, 2).Row({"naïve 日本", "1", "–"});
  return table;
}

TEST(TableTest, PlainTextAlignsByWhatATerminalShows) {
  EXPECT_EQ(PlainText(Example()),
            "              exact  SimHash\n"
            "----------------------------\n"
            "Pretraining\n"
            "  loss        5.607    5.551\n"
            "  naïve 日本      1        –\n");
}

TEST(TableTest, HtmlIsWellFormedWhateverTheCellsHold) {
  Table table = Example();
  table.Row({"<script>alert('&')</script>", "a\x01\xff", "\"\xef\xbf\xbf\""});
  const std::string html = Html(table);
  EXPECT_EQ(XmlProblem(html), "");
  EXPECT_THAT(html, ::testing::Not(::testing::HasSubstr("<script")));
  EXPECT_THAT(html, ::testing::HasSubstr("<td class=\"best\">5.551</td>"));
}

TEST(TableTest, AWrongNumberOfCellsIsRefused) {
  Table table;
  table.columns = {"a", "b"};
  EXPECT_THROW(table.Row({"1"}), Error);
}

TEST(FormatNumberTest, PlainDigitsWithoutSeparators) {
  EXPECT_EQ(FormatNumber(25.6), "25.60");
  EXPECT_EQ(FormatNumber(1285.25), "1285");
  EXPECT_EQ(FormatNumber(235314), "235314");
  EXPECT_EQ(FormatNumber(0.15053), "0.1505");
  EXPECT_EQ(FormatNumber(0.00123456), "0.001235");
  EXPECT_EQ(FormatNumber(5e-5), "5.000e-05");
  EXPECT_EQ(FormatNumber(-2.5), "-2.500");
  EXPECT_EQ(FormatNumber(-0.0), "0");
  EXPECT_EQ(FormatNumber(0.99999, 3), "1.000");
  EXPECT_EQ(FormatNumber(std::nan("")), "–");
  EXPECT_EQ(FormatNumber(HUGE_VAL), "∞");
  EXPECT_EQ(FormatNumber(4503599627370496.0), "4.504e+15");
}

TEST(DisplayWidthTest, CountsColumns) {
  EXPECT_EQ(DisplayWidth("abc"), 3);
  EXPECT_EQ(DisplayWidth("é"), 1);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1);
  EXPECT_EQ(DisplayWidth("日本"), 4);
  EXPECT_EQ(DisplayWidth("\xff"), 1);
}

}  // namespace
}  // namespace lshformer
