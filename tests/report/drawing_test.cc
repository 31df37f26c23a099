#include "report/drawing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "report/palette.h"
#include "report/xml_check.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// One of each kind; `value` is one of its numbers, and 2 the others.
std::vector<Drawing> OfEachKind(double value) {
  HeatMap map{.title = "<t>",
              .row_label = "bands",
              .column_label = "hashes",
              .rows = {"1"},
              .columns = {"3", "4"},
              .values = {{value, 2}}};
  return {LineChart{"<t>", {"step"}, {"loss"}, {{"a", {{1, 2}, {7, value}}}}},
          BarChart{"<t>", "ms", {"g", "h"}, {{"a", {value, 2}}}}, map,
          RadarChart{"<t>", {{"p", 1}, {"q", -1}, {"r", 1}}, {{"a", {2, value, 2}}, {"b", {2, 2, 2}}}}};
}

TEST(DrawingTest, AChangedNumberChangesEverythingThatTellsIt) {
  const std::vector<Drawing> before = OfEachKind(3.125), after = OfEachKind(3.25);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_NE(Svg(before[i]), Svg(after[i])) << i;
    EXPECT_NE(SvgFile(before[i]), SvgFile(after[i])) << i;
    EXPECT_NE(Description(before[i]), Description(after[i])) << i;
    EXPECT_NE(PlainText(NumbersOf(before[i])), PlainText(NumbersOf(after[i]))) << i;
    EXPECT_THAT(Description(after[i]), HasSubstr("3.250")) << i;
    EXPECT_THAT(PlainText(NumbersOf(after[i])), HasSubstr("3.250")) << i;
    EXPECT_EQ(Svg(before[i]), Svg(OfEachKind(3.125)[i])) << i;
  }
}

TEST(DrawingTest, AFileOfItsOwnNeedsNothingElse) {
  for (const Drawing& drawing : OfEachKind(1)) {
    const std::string file = SvgFile(drawing);
    EXPECT_EQ(XmlProblem(file), "");
    EXPECT_THAT(file, HasSubstr("role=\"img\" aria-label=\"&lt;t&gt;\""));
    EXPECT_THAT(file, HasSubstr("<desc>" + EscapeXml(Description(drawing)) + "</desc>"));
    for (const char* needs : {"var(", "url(", "@import", "<script", "href"}) EXPECT_THAT(file, Not(HasSubstr(needs)));
    // Every class that it uses has a rule, but for those that only say what a thing is.
    const auto rule = [&](const std::string& name) {
      return std::regex_search(file, std::regex("\\." + name + "[ .{,:]"));
    };
    std::string unstyled;
    const std::regex used("class=\"([^\"]*)\""), word("[a-z0-9]+");
    for (std::sregex_iterator match(file.begin(), file.end(), used), end; match != end; ++match) {
      const std::string classes = (*match)[1];
      for (std::sregex_iterator one(classes.begin(), classes.end(), word); one != end; ++one)
        unstyled += one->str() != "tick" && one->str() != "label" && !rule(one->str()) ? one->str() + " " : "";
    }
    EXPECT_EQ(unstyled, "");
  }
}

TEST(DrawingTest, AFileHasTheColoursOfLightAndDark) {
  const std::string file = SvgFile(OfEachKind(1)[0]);
  const size_t dark = file.find("@media (prefers-color-scheme: dark) {");
  ASSERT_NE(dark, file.npos);
  for (const NamedColor& color : ChartColors()) {
    if (std::string("ink paper soft line s0").find(color.name) == std::string::npos) continue;
    EXPECT_LT(file.find(color.light), dark) << color.name;
    EXPECT_GT(file.find(color.dark), dark) << color.name;
  }
}

TEST(PaletteTest, AColourThatThereIsNotIsAnError) {
  EXPECT_EQ(WithColors("a { fill: var(--x); }\n", {{"x", "#111111", "#eeeeee"}}),
            "a { fill: #111111; }\n@media (prefers-color-scheme: dark) {\na { fill: #eeeeee; }\n}\n");
  EXPECT_ANY_THROW(WithColors("a { fill: var(--y); }", {{"x", "#111111", "#eeeeee"}}));
}

TEST(DrawingTest, TheNumbersOfALongCurveAreASelectionWithBothEnds) {
  for (const int count : {40, 41, 79, 80, 5000}) {
    Series series{"a", {}};
    for (int i = 0; i < count; ++i) series.points.emplace_back(3 * i, 0.5 * i);
    std::string selected;
    const Table table = NumbersOf(LineChart{"t", {"step"}, {"loss"}, {series}}, &selected);
    ASSERT_EQ(table.lines.size(), 40U) << count;
    EXPECT_EQ(table.lines.front().cells[0], "0");
    EXPECT_EQ(table.lines.back().cells[0], std::to_string(3 * (count - 1)));
    EXPECT_EQ(selected, count == 40 ? "" : "40 of " + std::to_string(count) + " points");
  }
}

TEST(DrawingTest, NumbersStandByXAcrossCurves) {
  LineChart chart{
      "t", {"step"}, {"loss"}, {{"a", {{1, 5}, {2, 4}}}, {"empty", {}}, {"b", {{2, 3}, {3, std::nan("")}}}}};
  chart.levels = {{"plateau", 5.82}};
  const Table table = NumbersOf(chart);
  EXPECT_THAT(table.columns, ElementsAre("step", "a", "b"));
  ASSERT_EQ(table.lines.size(), 3U);
  EXPECT_THAT(table.lines[0].cells, ElementsAre("1", "5", "–"));
  EXPECT_THAT(table.lines[1].cells, ElementsAre("2", "4", "3"));
  EXPECT_THAT(table.lines[2].cells, ElementsAre("plateau: 5.820"));
}

TEST(DrawingTest, DescriptionsNameEndsAndExtremes) {
  EXPECT_EQ(Description(LineChart{"t", {"step"}, {"loss"}, {{"a", {{1, 5}, {2, 9}, {3, 1}, {4, 2}}}}}),
            "Line chart: loss by step. a: 5 at 1 to 2 at 4, lowest 1 at 3, highest 9 at 2.");
  EXPECT_EQ(Description(OfEachKind(1)[2]),
            "Heat map: 1 bands by 2 hashes. Lowest 1 at bands 1, hashes 3, highest 2 at bands 1, hashes 4.");
  EXPECT_THAT(Description(OfEachKind(1)[3]), HasSubstr("Lower is better: q."));
}

TEST(DrawingTest, WithoutDataItIsStillOneFile) {
  for (const Drawing& drawing : std::vector<Drawing>{LineChart{}, BarChart{}, HeatMap{}, RadarChart{}}) {
    EXPECT_EQ(XmlProblem(SvgFile(drawing)), "");
    EXPECT_THAT(SvgFile(drawing), HasSubstr("no data"));
    EXPECT_TRUE(NumbersOf(drawing).lines.empty());
  }
}

}  // namespace
}  // namespace lshformer
