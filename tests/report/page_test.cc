#include "report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "report/xml_check.h"

namespace lshformer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PageTest, ANumberIsNotPartedFromItsUnit) {
  Page page("t", "s");
  page.Paragraph("99.9 % of 100 pairs, 5 % or 2.5 x, not 3 xylophones; a % b & <c>");
  page.Cards({{"2.50 x", "1.02 x at 64, 3 x, 12 %"}});
  const std::string html = page.Html();
  EXPECT_THAT(
      html, HasSubstr("<p>99.9\u00A0% of 100 pairs, 5\u00A0% or 2.5\u00A0x, not 3 xylophones; a % b &amp; &lt;c&gt;"));
  EXPECT_THAT(html, HasSubstr("<b>2.50\u00A0x</b><span>1.02\u00A0x at 64, 3\u00A0x, 12\u00A0%</span>"));
  EXPECT_EQ(XmlCheck(html).Problem(), "");
}

// A table that is wider than the screen says so: its edge is shaded where more follows.
TEST(PageTest, TablesThatAreCutOffShowIt) {
  Page page("t", "s");
  Table table;
  table.columns = {"", "a"};
  table.Row({"b", "1"});
  page.Add(table);
  const std::string html = page.Html();
  EXPECT_THAT(html, HasSubstr("<div class=\"scroll\">\n<table>"));
  const std::string style = html.substr(html.find(".scroll {"), 700);
  EXPECT_THAT(style,
              HasSubstr("linear-gradient(to left, var(--shade), transparent) right / 14px 100% no-repeat scroll"));
  EXPECT_THAT(style,
              HasSubstr("linear-gradient(to left, var(--paper) 40%, transparent) right / 48px 100% no-repeat local"));
}

TEST(PageTest, SeveralChaptersHaveContents) {
  Page page("t", "s");
  page.Heading("before");
  page.Chapter("bert-lsh/table-2", "Table <2>", "holds & more");
  page.Heading("within");
  EXPECT_THAT(page.Html(), Not(HasSubstr("<nav")));
  EXPECT_EQ(XmlCheck(page.Html()).Problem(), "");
  page.Chapter("own file's \"name\"", "another");
  const std::string html = page.Html();
  EXPECT_EQ(XmlCheck(html).Problem(), "");
  EXPECT_THAT(html, HasSubstr("<a href=\"#bert-lsh/table-2\">Table &lt;2&gt;</a><br/><span>holds &amp; more</span>"));
  EXPECT_THAT(html, HasSubstr("<section id=\"bert-lsh/table-2\">\n<h2>Table &lt;2&gt;</h2>"));
  EXPECT_THAT(html, HasSubstr("<a href=\"#own-file-s--name-\">another</a></li>"));
  EXPECT_THAT(html, HasSubstr("<h2>before</h2>"));
  EXPECT_THAT(html, HasSubstr("<h3>within</h3>"));
  EXPECT_LT(html.find("<nav"), html.find("<h2>before"));
  EXPECT_THROW(page.Chapter("bert-lsh/table-2", "again"), Error);
}

TEST(PageTest, AFigureHasItsNumbersAndItsCommand) {
  const auto html_of = [](double value) {
    Page page("t", "s");
    page.Add(std::vector<Illustration>{
        {BarChart{"bars", "ms", {"g"}, {{"a", {value}}}}, "5 % of <all>", "lshformer bench --text '<a>'"}});
    return page.Html();
  };
  const std::string html = html_of(1.5);
  EXPECT_EQ(XmlCheck(html).Problem(), "");
  EXPECT_THAT(html, HasSubstr("<p>5\u00A0% of &lt;all&gt;</p>"));
  EXPECT_THAT(html, HasSubstr("<details><summary>Numbers</summary>\n<div class=\"scroll\">\n<table>"));
  EXPECT_THAT(html, HasSubstr("<tr><th scope=\"row\">g</th><td>1.500</td></tr>"));
  EXPECT_THAT(html, HasSubstr("<pre>lshformer bench --text &#39;&lt;a&gt;&#39;</pre>\n</figcaption></figure>"));
  EXPECT_THAT(html, HasSubstr("<desc>Bar chart: ms. a: g 1.500.</desc>"));
  EXPECT_NE(html, html_of(1.25));
}

// Without "less than" and ampersands the same bytes are read as XML and as HTML.
TEST(PageTest, ItsScriptIsTheSameInXmlAndInHtml) {
  const std::string html = Page("t", "s").Html();
  const size_t begin = html.find("<script>") + 8, end = html.find("</script>");
  ASSERT_LT(begin, end);
  EXPECT_EQ(html.substr(begin, end - begin).find_first_of("<&"), std::string::npos);
}

}  // namespace
}  // namespace lshformer
