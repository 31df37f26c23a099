#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "report/chart.h"
#include "report/svg_check.h"
#include "report/xml_check.h"

namespace lshformer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct DrawnBar {
  std::string css, tip;
  double x = 0, y = 0, width = 0, height = 0;
};

std::vector<DrawnBar> BarsOf(const std::string& svg) {
  std::vector<DrawnBar> bars;
  const std::regex bar(
      "<rect class=\"b ([^\"]*)\" x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"([0-9.]+)\" height=\"([0-9.]+)\" rx=\"1.5\">"
      "<title>([^<]*)</title>");
  for (std::sregex_iterator match(svg.begin(), svg.end(), bar), end; match != end; ++match)
    bars.push_back({(*match)[1], (*match)[6], std::stod((*match)[2]), std::stod((*match)[3]), std::stod((*match)[4]),
                    std::stod((*match)[5])});
  return bars;
}

// Five tasks by four series: their values have no room above bars that stand.
BarChart FiveTasks() {
  return {"Five tasks",
          "per cent",
          {"MRPC", "MNLI matched", "SST-2", "SQuAD 1.1, F1 of the answers on the development set", "SQuAD 2.0"},
          {{"exact", {80, 40, 20, 10, 5}},
           {"exact, published", {81, 41, 21, 11, 6}, -1, true},
           {"LSH", {80, 40, 20, 10, std::nan("")}},
           {"LSH, published", {1, 2, 3, 4, 0}, -1, true}}};
}

TEST(BarChartTest, HeightsAreProportional) {
  const std::string svg =
      Svg(BarChart{"t", "pairs", {"10", "<20>"}, {{"exact", {200, 100}}, {"SimHash", {50, std::nan("")}}}});
  EXPECT_EQ(XmlProblem(svg), "");
  const std::vector<DrawnBar> bars = BarsOf(svg);
  ASSERT_EQ(bars.size(), 3U);
  EXPECT_NEAR(bars[0].height / bars[1].height, 4, 0.02);
  EXPECT_NEAR(bars[0].height / bars[2].height, 2, 0.02);
  EXPECT_EQ(bars[2].tip, "exact, &lt;20&gt;: 100");
}

TEST(BarChartTest, WhereTheyLieWidthsAreProportional) {
  const std::string svg = Svg(FiveTasks());
  EXPECT_EQ(XmlProblem(svg), "");
  const std::vector<DrawnBar> bars = BarsOf(svg);
  ASSERT_EQ(bars.size(), 19U);
  for (const DrawnBar& bar : bars) {
    EXPECT_EQ(bar.height, bars[0].height);
    EXPECT_EQ(bar.x, bars[0].x);
    const double value = std::stod(bar.tip.substr(bar.tip.rfind(' ')));
    EXPECT_NEAR(bar.width / bars[0].width, value / 80, 0.002) << bar.tip;
  }
  EXPECT_THAT(svg, HasSubstr(">SQuAD 1.1, F1 of the answers on the development set</text>"));
}

TEST(BarChartTest, AValueBelowZeroIsOnTheOtherSide) {
  const std::vector<DrawnBar> standing = BarsOf(Svg(BarChart{"t", "u", {"a"}, {{"x", {3}}, {"y", {-3}}}}));
  ASSERT_EQ(standing.size(), 2U);
  EXPECT_NEAR(standing[0].y + standing[0].height, standing[1].y, 0.11);
  EXPECT_NEAR(standing[0].height, standing[1].height, 0.11);
  BarChart chart = FiveTasks();
  for (double& value : chart.series[2].values) value = -value;
  const std::vector<DrawnBar> lying = BarsOf(Svg(chart));
  EXPECT_NEAR(lying[2].x + lying[2].width, lying[0].x, 0.11);
  EXPECT_NEAR(lying[2].width, lying[0].width, 0.11);
}

TEST(BarChartTest, PublishedBarsAreOutlinesInTheColourOfThoseBesideThem) {
  const std::vector<DrawnBar> bars = BarsOf(Svg(FiveTasks()));
  EXPECT_EQ(bars[0].css + ", " + bars[1].css + ", " + bars[2].css + ", " + bars[3].css, "s0, p s0, s1, p s1");
  EXPECT_THAT(ChartStyle(), HasSubstr(".chart .b.p { fill: var(--paper); stroke: currentColor;"));
  BarChart chart = FiveTasks();
  chart.series[2].style = 5;
  EXPECT_EQ(BarsOf(Svg(chart))[3].css, "p s5");
}

TEST(BarChartTest, AChangedNumberChangesItsBarAlone) {
  BarChart chart = FiveTasks();
  const std::vector<DrawnBar> before = BarsOf(Svg(chart));
  chart.series[0].values[1] = 60;
  const std::vector<DrawnBar> after = BarsOf(Svg(chart));
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].width != after[i].width, i == 4) << after[i].tip;
    EXPECT_EQ(before[i].tip != after[i].tip, i == 4);
  }
}

TEST(BarChartTest, TextsNeverTouchWhateverTheNumbersAre) {
  for (const size_t groups : {1, 2, 3, 7}) {
    for (const size_t series : {1, 2, 4, 9}) {
      for (const double scale : {1.0, 1e-12, 1e9, 1e300, -1.0, -1234567.0, 0.0}) {
        BarChart chart{std::string(70, 'W'), std::string(80, 'u'), {}, {}};
        for (size_t i = 0; i < groups; ++i) chart.groups.push_back(i % 2 == 0 ? "all shared" : std::string(70, 'g'));
        for (size_t i = 0; i < series; ++i) {
          chart.series.push_back({"series " + std::to_string(i), {}, -1, i % 2 == 1});
          for (size_t j = 0; j < groups; ++j)
            chart.series[i].values.push_back(scale * static_cast<double>(i + j) * (j % 3 == 2 ? -1 : 1));
        }
        const std::string svg = Svg(chart);
        EXPECT_EQ(TextProblem(svg), "") << groups << " groups, " << series << " series, " << scale;
        EXPECT_EQ(BarsOf(svg).size(), groups * series);
        for (const DrawnBar& bar : BarsOf(svg)) {
          EXPECT_LE(bar.x + bar.width, 400);
          EXPECT_LE(bar.y + bar.height, SvgHeight(svg));
        }
      }
    }
  }
}

TEST(BarChartTest, WithoutDataItSaysSo) {
  for (const BarChart& chart : {BarChart{"t", "u", {}, {}}, BarChart{"t", "u", {"g"}, {{"a", {std::nan("")}}}},
                                BarChart{"t", "u", {}, {{"a", {1}}}}, BarChart{"t", "u", {"g"}, {}}}) {
    EXPECT_THAT(Svg(chart), HasSubstr("no data"));
    EXPECT_EQ(XmlProblem(Svg(chart)), "");
  }
}

// A group without a value says that it has none.
TEST(BarChartTest, AnEmptyGroupHasADash) {
  BarChart chart = FiveTasks();
  for (BarChart::Bars& bars : chart.series) bars.values[2] = HUGE_VAL;
  const std::string svg = Svg(chart);
  EXPECT_THAT(svg, HasSubstr(">–</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace lshformer
