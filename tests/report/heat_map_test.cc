#include "report/heat_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <set>

#include "report/chart.h"
#include "report/page.h"
#include "report/svg_check.h"
#include "report/xml_check.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct DrawnCell {
  std::string css, tip, text;
  double x = 0, y = 0, width = 0, height = 0;
};

// Cells have a tooltip, swatches of a legend none.
std::vector<DrawnCell> CellsOf(const std::string& svg) {
  std::vector<DrawnCell> cells;
  const std::regex cell(
      "<g class=\"([^\"]*)\"><title>([^<]*)</title><rect x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"([0-9.]+)\" "
      "height=\"([0-9.]+)\"/>(<text[^>]*>([^<]*)</text>)?");
  for (std::sregex_iterator match(svg.begin(), svg.end(), cell), end; match != end; ++match)
    cells.push_back({(*match)[1], (*match)[2], (*match)[8], std::stod((*match)[3]), std::stod((*match)[4]),
                     std::stod((*match)[5]), std::stod((*match)[6])});
  return cells;
}

std::vector<std::string> CssOf(const std::string& svg) {
  std::vector<std::string> css;
  for (const DrawnCell& cell : CellsOf(svg)) css.push_back(cell.css);
  return css;
}

HeatMap Map(std::vector<std::vector<double>> values, bool log = false) {
  HeatMap map{.title = "t", .row_label = "layer", .column_label = "head", .rows = {}, .columns = {}, .values = {}};
  for (size_t i = 0; i < values.size(); ++i) map.rows.push_back(std::to_string(i));
  for (size_t i = 0; i < values.front().size(); ++i) map.columns.push_back(std::to_string(i));
  map.values = std::move(values);
  map.log = log;
  return map;
}

TEST(HeatMapTest, EveryCellCarriesItsValue) {
  HeatMap map = Map({{0.25, 1.5}, {-3, std::nan("")}});
  map.cells = {{"a", "b"}, {"c", ""}};
  const std::string svg = Svg(map);
  EXPECT_EQ(XmlProblem(svg), "");
  const std::vector<DrawnCell> cells = CellsOf(svg);
  ASSERT_EQ(cells.size(), 4U);
  EXPECT_EQ(cells[0].tip, "layer 0, head 0: 0.2500");
  EXPECT_EQ(cells[1].tip, "layer 0, head 1: 1.500");
  EXPECT_EQ(cells[2].tip, "layer 1, head 0: -3");
  EXPECT_EQ(cells[3].tip, "layer 1, head 1: –");
  EXPECT_EQ(cells[0].text + cells[1].text + cells[2].text + cells[3].text, "abc–");
  EXPECT_LT(cells[0].x, cells[1].x);
  EXPECT_LT(cells[0].y, cells[2].y);
}

TEST(HeatMapTest, ShadesFollowTheValues) {
  EXPECT_THAT(CssOf(Svg(Map({{0, 0.5, 1}}))), ElementsAre("h0", "h4", "h8"));
  EXPECT_THAT(CssOf(Svg(Map({{1, 1e-2, 1e-4}}, /*log=*/true))), ElementsAre("h8", "h4", "h0"));
  EXPECT_THAT(CssOf(Svg(Map({{-1.7e308, 0, 1.7e308}}))), ElementsAre("h0", "h4", "h8"));
  EXPECT_THAT(CssOf(Svg(Map({{0, 5e-324}}))), ElementsAre("h0", "h8"));
  EXPECT_THAT(CssOf(Svg(Map({{7, 7}}))), ElementsAre("h4", "h4"));
}

TEST(HeatMapTest, WhatHasNoPlaceOnTheScaleHasNoShade) {
  HeatMap map = Map({{std::nan(""), HUGE_VAL, 0, -1, 0.5}}, /*log=*/true);
  map.values[0].pop_back();  // nor has what is missing
  map.rows.push_back("1");
  map.values.push_back({2});
  const std::string svg = Svg(map);
  EXPECT_EQ(XmlProblem(svg), "");
  EXPECT_THAT(CssOf(svg), ElementsAre("hn", "hn", "hn", "hn", "hn", "h4", "hn", "hn", "hn", "hn"));
  EXPECT_THAT(svg, HasSubstr(">none</text>"));
  EXPECT_THAT(svg, HasSubstr(">0</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(HeatMapTest, WithoutAFiniteValueItSaysSo) {
  EXPECT_THAT(Svg(Map({{std::nan("")}})), HasSubstr("no data"));
  const std::string empty =
      Svg(HeatMap{.title = "<t>", .row_label = "", .column_label = "", .rows = {}, .columns = {}, .values = {}});
  EXPECT_EQ(XmlProblem(empty), "");
  EXPECT_THAT(empty, HasSubstr("no data"));
}

TEST(HeatMapTest, TheLegendNamesTheEnds) {
  const std::string svg = Svg(Map({{0.00125, 0.5}}, /*log=*/true));
  EXPECT_THAT(svg, HasSubstr(">0.00125</text>"));
  EXPECT_THAT(svg, HasSubstr(">0.500</text>"));
  EXPECT_THAT(svg, HasSubstr(">0.01</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("none")));
}

TEST(HeatMapTest, CellsStayInsideTheDrawingWhateverTheirNumber) {
  for (const auto& [rows, columns] : {std::pair<size_t, size_t>{1, 1}, {1, 12}, {12, 1}, {24, 16}, {100, 200}}) {
    HeatMap map = Map(std::vector(rows, std::vector<double>(columns, 1.0)));
    map.row_label = "a label that is longer than a row is high";
    map.rows[0] = std::string(60, 'x');
    const std::string svg = Svg(map);
    EXPECT_EQ(XmlProblem(svg), "");
    const std::vector<DrawnCell> cells = CellsOf(svg);
    ASSERT_EQ(cells.size(), rows * columns);
    const double height = SvgHeight(svg);
    EXPECT_EQ(TextProblem(svg), "") << rows << " by " << columns;
    for (const DrawnCell& cell : cells) {
      EXPECT_GT(cell.width, 0);
      EXPECT_GT(cell.height, 0);
      ASSERT_LE(cell.x + cell.width, 400);
      ASSERT_LE(cell.y + cell.height, height);
    }
  }
}

// A text that is cut, or over its neighbour, is worse than a tooltip.
TEST(HeatMapTest, TextStandsInAllCellsOrInNone) {
  HeatMap map = Map({std::vector<double>(12, 1.0)});
  map.cells = {std::vector<std::string>(12, "0.91")};
  EXPECT_EQ(CellsOf(Svg(map))[0].text, "0.91");
  map.cells[0][3] = "1.234e-05";
  for (const DrawnCell& cell : CellsOf(Svg(map))) EXPECT_EQ(cell.text, "");
}

TEST(HeatMapTest, WithoutTextsOfTheirOwnCellsShowTheirValues) {
  const std::vector<DrawnCell> cells = CellsOf(Svg(Map({{10.24, 163.84}, {25.6, std::nan("")}})));
  EXPECT_EQ(cells[0].text + " " + cells[1].text + " " + cells[2].text + " " + cells[3].text, "10.2 164 25.6 –");
}

// The frame is drawn between cells on both sides of the limit, and nowhere else.
TEST(HeatMapTest, CellsWithinTheLimitAreFramed) {
  HeatMap map = Map({{1, 2, 9}, {2, 8, 9}});
  map.limit = 2;
  map.limit_name = "exact & others";
  const std::string svg = Svg(map);
  EXPECT_EQ(XmlProblem(svg), "");
  EXPECT_THAT(svg, HasSubstr(">at most 2: exact &amp; others</text>"));
  const std::vector<DrawnCell> cells = CellsOf(svg);
  const std::regex side("M([0-9.]+) ([0-9.]+)([HV])([0-9.]+)");
  const std::string path = svg.substr(svg.find("<path class=\"frame\""));
  int sides = 0;
  double across = 0, down = 0;
  for (std::sregex_iterator match(path.begin(), path.end(), side), end; match != end; ++match, ++sides) {
    const double from = std::stod((*match)[(*match)[3] == "H" ? 1 : 2]), length = std::stod((*match)[4]) - from;
    ((*match)[3] == "H" ? across : down) += length;
  }
  EXPECT_EQ(sides, 8);  // of an L of three cells
  EXPECT_NEAR(across, 4 * cells[0].width, 0.5);
  EXPECT_NEAR(down, 4 * cells[0].height, 0.5);
  map.limit = 0.5;
  EXPECT_THAT(Svg(map), Not(HasSubstr("<path class=\"frame\"")));
}

TEST(HeatMapTest, CategoriesHaveAColourALetterAndACount) {
  HeatMap map = Map({{0, 1, 0}, {1, 1, 2.5}});
  map.categories = {"16 × 4", "<exact>"};
  map.tips = {{"", "told"}};
  const std::string svg = Svg(map);
  EXPECT_EQ(XmlProblem(svg), "");
  EXPECT_THAT(CssOf(svg), ElementsAre("q0", "q1", "q0", "q1", "q1", "hn"));  // there is no third
  const std::vector<DrawnCell> cells = CellsOf(svg);
  EXPECT_EQ(cells[0].text, "A");
  EXPECT_EQ(cells[0].tip, "layer 0, head 0: 16 × 4");
  EXPECT_EQ(cells[1].tip, "layer 0, head 1: told");
  EXPECT_EQ(cells[3].tip, "layer 1, head 0: &lt;exact&gt;");
  EXPECT_THAT(svg, HasSubstr(">16 × 4 (2)</text>"));
  EXPECT_THAT(svg, HasSubstr(">&lt;exact&gt; (3)</text>"));
  // The legend's swatch is the cells'.
  EXPECT_TRUE(std::regex_search(svg, std::regex("<g class=\"q1\"><rect[^>]*/><text[^>]*>B</text>")));
}

TEST(HeatMapTest, LettersDifferWhereColoursRepeat) {
  HeatMap map = Map({std::vector<double>(60)});
  for (int i = 0; i < 60; ++i) {
    map.values[0][static_cast<size_t>(i)] = i;
    map.categories.push_back("c" + std::to_string(i));
  }
  const std::string svg = Svg(map);
  std::set<std::string> letters;
  const std::regex swatch("<g class=\"q[0-9]+\"><rect[^>]*/><text[^>]*>([^<]*)</text>");
  for (std::sregex_iterator match(svg.begin(), svg.end(), swatch), end; match != end; ++match)
    letters.insert((*match)[1]);
  EXPECT_EQ(letters.size(), 60U);
  EXPECT_EQ(CssOf(svg)[16], "q0");
}

TEST(HeatMapTest, NamesAreEscaped) {
  HeatMap map = Map({{1, 2}});
  map.title = "a < b";
  map.rows[0] = "r&";
  map.columns[1] = "\"c\"";
  map.column_label = "<head>";
  const std::string svg = Svg(map);
  EXPECT_EQ(XmlProblem(svg), "");
  EXPECT_THAT(svg, HasSubstr("layer r&amp;, &lt;head&gt; &quot;c&quot;: 2"));
}

// The colours of a page: light, or where the reader wants it dark.
std::map<std::string, std::string> Variables(const std::string& style, bool dark) {
  std::map<std::string, std::string> variables;
  const std::regex block("(dark\\) \\{ )?:root \\{([^}]*)\\}"), variable("--([a-z0-9]+): (#[0-9a-f]{6})");
  for (std::sregex_iterator match(style.begin(), style.end(), block), end; match != end; ++match) {
    if ((*match)[1].matched && !dark) continue;
    const std::string text = (*match)[2];
    for (std::sregex_iterator one(text.begin(), text.end(), variable); one != end; ++one)
      variables[(*one)[1]] = (*one)[2];
  }
  return variables;
}

// Relative luminance of WCAG.
double Luminance(const std::string& color) {
  double sum = 0;
  for (const auto& [at, weight] : {std::pair<size_t, double>{1, 0.2126}, {3, 0.7152}, {5, 0.0722}}) {
    const double c = std::stoi(color.substr(at, 2), nullptr, 16) / 255.0;
    sum += weight * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
  }
  return sum;
}

double Contrast(const std::string& a, const std::string& b) {
  const double one = Luminance(a), other = Luminance(b);
  return (std::max(one, other) + 0.05) / (std::min(one, other) + 0.05);
}

TEST(HeatMapStyleTest, TextIsReadOnEveryCell) {
  const std::string style = ChartStyle() + HeatMapStyle();
  const std::regex fill("\\.chart \\.([hq][0-9n]+) rect \\{ fill: var\\(--([a-z0-9]+)\\)");
  const std::string on_paper = style.substr(style.find("\n.chart .h5 .cell"));
  for (const bool dark : {false, true}) {
    std::map<std::string, std::string> variables = Variables(style, dark);
    int fills = 0;
    for (std::sregex_iterator match(style.begin(), style.end(), fill), end; match != end; ++match, ++fills) {
      const std::string css = (*match)[1];
      const char* ink = on_paper.find("." + css + " .cell") != std::string::npos ? "paper" : "ink";
      EXPECT_GE(Contrast(variables.at((*match)[2]), variables.at(ink)), 4.5) << css << " dark " << dark;
    }
    EXPECT_EQ(fills, 1 + 9 + 16);
  }
}

TEST(HeatMapStyleTest, MoreIsFurtherFromThePaper) {
  for (const bool dark : {false, true}) {
    std::map<std::string, std::string> variables = Variables(ChartStyle() + HeatMapStyle(), dark);
    for (int shade = 1; shade < 9; ++shade)
      EXPECT_GT(Contrast(variables.at("h" + std::to_string(shade)), variables.at("paper")),
                1.1 * Contrast(variables.at("h" + std::to_string(shade - 1)), variables.at("paper")));
  }
}

TEST(HeatMapTest, APageCarriesTheColoursOfItsMaps) {
  Page page("t", "s");
  page.Add(std::vector<HeatMap>{Map({{1, 2}})});
  const std::string html = page.Html();
  EXPECT_EQ(XmlProblem(html), "");
  EXPECT_THAT(html, HasSubstr(HeatMapStyle()));
  EXPECT_THAT(html, HasSubstr("<figure><svg"));
}

}  // namespace
}  // namespace lshformer
