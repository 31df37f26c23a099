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

TEST(TableTest, SectionsAreGroupsOfLinesOfTheirOwn) {
  Table table{{"", "a"}, {}};
  table.Row({"x", "1"}).Section("s").Row({"y", "2"}).Section("t").Row({"z", "3"});
  const std::string html = Html(table);
  EXPECT_EQ(XmlProblem(html), "");
  size_t bodies = 0;
  for (size_t at = html.find("<tbody>"); at != html.npos; at = html.find("<tbody>", at + 1)) ++bodies;
  EXPECT_EQ(bodies, 3U);
  EXPECT_THAT(html,
              ::testing::HasSubstr("</tbody>\n<tbody>\n<tr class=\"section\"><th scope=\"rowgroup\" colspan=\"2\">t"));
}

TEST(TableTest, ColumnsOfWordsStandLeft) {
  Table table{{"", "value", "verdict", "n"}, {}, {2}};
  table.Row({"a", "1.5", "holds", "1"}, 2).Row({"b", "12.5", "does not", "10"});
  EXPECT_EQ(PlainText(table),
            "   value  verdict    n\n"
            "----------------------\n"
            "a    1.5  holds      1\n"
            "b   12.5  does not  10\n");
  EXPECT_THAT(Html(table), ::testing::HasSubstr("<td>1.5</td><td class=\"words best\">holds</td>"));
  EXPECT_THAT(Html(table), ::testing::HasSubstr("<th scope=\"col\" class=\"words\">verdict</th>"));
}

TEST(TableTest, MarkdownHasTheSameCells) {
  Table table = Example();
  table.columns.push_back("verdict");
  for (Table::Line& line : table.lines)
    if (!line.section) line.cells.push_back("holds");
  table.words = {3};
  EXPECT_EQ(Markdown(table),
            "| | exact | SimHash | verdict |\n"
            "| --- | ---: | ---: | --- |\n"
            "| **Pretraining** | | | |\n"
            "| loss | 5.607 | **5.551** | holds |\n"
            "| naïve 日本 | 1 | – | holds |\n");
}

TEST(TableTest, NoCellEndsAColumnOrALineOfMarkdown) {
  Table table{{"a|b", "c\nd"}, {}};
  table.Row({"<b>\\|*x*`", "R&D\r[1]"});
  EXPECT_EQ(Markdown(table),
            "| a\\|b | c d |\n"
            "| --- | ---: |\n"
            "| &lt;b>\\\\\\|\\*x\\*\\` | R&amp;D \\[1] |\n");
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
