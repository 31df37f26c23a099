#include "report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/xml_check.h"

namespace lshformer {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace lshformer
