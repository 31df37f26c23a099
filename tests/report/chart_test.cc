#include "report/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <regex>

#include "report/page.h"
#include "report/svg_check.h"
#include "report/xml_check.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// All x or y positions that path data "M1 2L3 4" and markers name.
std::vector<double> PathNumbers(const std::string& svg) {
  std::vector<double> numbers;
  const std::regex path("class=\"l s[0-9]\"[^>]* d=\"([^\"]*)\""), number("-?[0-9]+\\.[0-9]");
  for (std::sregex_iterator match(svg.begin(), svg.end(), path), end; match != end; ++match) {
    const std::string data = (*match)[1];
    for (std::sregex_iterator value(data.begin(), data.end(), number); value != std::sregex_iterator(); ++value) {
      numbers.push_back(std::stod(value->str()));
    }
  }
  return numbers;
}

TEST(NiceTicksTest, RoundNumbersAroundTheData) {
  EXPECT_THAT(NiceTicks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(NiceTicks(-3, 4, 4), ElementsAre(-4, -2, 0, 2, 4));
  EXPECT_THAT(NiceTicks(7, 7, 5).size(), ::testing::Ge(2U));
}

TEST(NiceTicksTest, EndAndAreThereForAnyNumbers) {
  for (const auto& [low, high] : {std::pair{0.0, 5e-324},
                                  {1e18, 1000000000000000128.0},
                                  {1e300, 1.0000000000000002e300},
                                  {-1.7e308, 1.7e308},
                                  {1.7e308, 1.7e308},
                                  {-5e-324, 5e-324},
                                  {0.0, 0.0}}) {
    const std::vector<double> ticks = NiceTicks(low, high, 5);
    EXPECT_GE(ticks.size(), 2U) << low << " " << high;
    EXPECT_LE(ticks.size(), 6U) << low << " " << high;
    EXPECT_LT(ticks.front(), ticks.back());
  }
}

TEST(NiceTicksTest, SpanTheDataWithinTheCount) {
  for (const double low : {-1e9, -12.7, -1e-7, 0.0, 1e-12, 3.3, 99.5, 1e15}) {
    for (const double span : {1e-3, 0.7, 1.0, 9.99, 1234.5}) {
      const double high = low + span * std::max(1.0, std::abs(low));
      for (const int count : {2, 5, 9}) {
        const std::vector<double> ticks = NiceTicks(low, high, count);
        EXPECT_LE(ticks.front(), low + 1e-6 * (high - low)) << low << ' ' << high;
        EXPECT_GE(ticks.back(), high - 1e-6 * (high - low)) << low << ' ' << high;
        EXPECT_LE(ticks.size(), static_cast<size_t>(count) + 2) << low << ' ' << high << ' ' << count;
        EXPECT_GE(ticks.size(), 2U);
      }
    }
  }
}

TEST(LogTicksTest, DecadesAndPartsOfOne) {
  EXPECT_THAT(LogTicks(0.5, 2000, 7), ElementsAre(1, 10, 100, 1000));
  EXPECT_THAT(LogTicks(3, 60, 7), ElementsAre(5, 10, 20, 50));
  EXPECT_LE(LogTicks(1e-10, 1e10, 5).size(), 6U);
}

TEST(TickLabelTest, Short) {
  EXPECT_EQ(TickLabel(0), "0");
  EXPECT_EQ(TickLabel(8192), "8192");
  EXPECT_EQ(TickLabel(5e-5), "5e-05");
  EXPECT_EQ(TickLabel(2.5e6), "2.5M");
}

TEST(LineChartTest, DrawsEveryFinitePointInsideThePlot) {
  LineChart chart{
      "Loss <&>", {"step"}, {"loss"}, {{"a", {{0, 1}, {10, std::nan("")}, {20, 5}, {30, HUGE_VAL}}}, {"b", {{5, -2}}}}};
  const std::string svg = Svg(chart);
  EXPECT_EQ(XmlProblem(svg), "");
  EXPECT_THAT(svg, HasSubstr("Loss &lt;&amp;&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(svg, HasSubstr("<title>b: -2 at 5</title>"));
  const std::vector<double> numbers = PathNumbers(svg);
  EXPECT_EQ(numbers.size(), 2U * 2 + 2);  // two points of a, one of b
  for (const double number : numbers) {
    EXPECT_GE(number, 0);
    EXPECT_LE(number, 400);
  }
}

TEST(LineChartTest, HigherValuesAreDrawnHigher) {
  const std::vector<double> at = PathNumbers(Svg(LineChart{"t", {"x"}, {"y"}, {{"a", {{0, 1}, {1, 2}}}}}));
  ASSERT_EQ(at.size(), 4U);
  EXPECT_LT(at[0], at[2]);
  EXPECT_GT(at[1], at[3]);
}

TEST(LineChartTest, LogAxesSpaceFactorsEvenlyAndLeaveOutWhatHasNoLogarithm) {
  LineChart chart{"t",
                  {"tokens", true, {10, 100, 1000}},
                  {"ms", true},
                  {{"a", {{0, 1}, {10, -1}, {10, 1}, {100, 10}, {1000, 100}}}}};
  const std::vector<double> at = PathNumbers(Svg(chart));
  ASSERT_EQ(at.size(), 6U);
  EXPECT_NEAR(at[2] - at[0], at[4] - at[2], 0.11);
  EXPECT_NEAR(at[3] - at[1], at[5] - at[3], 0.11);
}

TEST(LineChartTest, WithoutDataItSaysSo) {
  EXPECT_THAT(Svg(LineChart{"t", {"x"}, {"y"}, {}}), HasSubstr("no data"));
  EXPECT_EQ(XmlProblem(Svg(LineChart{"t", {"x"}, {"y"}, {{"a", {{0, std::nan("")}}}}})), "");
}

TEST(LineChartTest, ALongCurveKeepsItsExtremes) {
  Series series{"a", {}};
  for (int i = 0; i < 200000; ++i) series.points.emplace_back(i, i == 77777 ? 100.0 : i % 7);
  const std::string svg = Svg(LineChart{"t", {"x"}, {"y"}, {series}});
  EXPECT_LT(svg.size(), 100000U);
  const std::vector<double> at = PathNumbers(svg);
  double top = 1e9;
  for (size_t i = 1; i < at.size(); i += 2) top = std::min(top, at[i]);
  const std::vector<double> spike = PathNumbers(Svg(LineChart{"t", {"x"}, {"y"}, {{"a", {{0, 0}, {1, 100}}}}}));
  EXPECT_NEAR(top, spike[3], 0.01);
}

TEST(LineChartTest, SeriesDifferInMoreThanColour) {
  const std::string svg = Svg(LineChart{"t", {"x"}, {"y"}, {{"a", {{0, 0}, {1, 1}}}, {"b", {{0, 1}, {1, 0}}}}});
  EXPECT_THAT(svg, HasSubstr("class=\"l s0\" stroke-dasharray=\"none\""));
  EXPECT_THAT(svg, HasSubstr("class=\"l s1\" stroke-dasharray=\"7 3\""));
}

// Variants often differ in the last of a dozen settings.
TEST(LineChartTest, LongNamesAreShownInFull) {
  const std::string common = "simhash bands 3, hashes 8, table_size 64, window 16, global cls,sep, center_keys true, ";
  std::vector<std::string> legends;
  for (const std::string& last : {std::string("resample call"), std::string("resample never"), std::string(300, 'x')}) {
    const std::string name = common + last, svg = Svg(LineChart{"t", {"x"}, {"y"}, {{name, {{0, 0}, {1, 1}}}}});
    const std::regex text("<text class=\"legend\"[^>]*>([^<]*)</text>");
    std::string legend;
    for (std::sregex_iterator match(svg.begin(), svg.end(), text), end; match != end; ++match) {
      EXPECT_LE((*match)[1].length(), 52);
      legend += (*match)[1];
    }
    legend.erase(std::remove(legend.begin(), legend.end(), ' '), legend.end());
    std::string want = name;
    want.erase(std::remove(want.begin(), want.end(), ' '), want.end());
    EXPECT_EQ(legend, want);
  }
}

// The markers' centres and what they tell, of circles (the first series) alone.
std::vector<std::pair<double, double>> Circles(const std::string& svg) {
  std::vector<std::pair<double, double>> centers;
  const std::regex circle("<path class=\"m (?:p )?s0\" d=\"M([0-9.]+) ([0-9.]+)m[^>]*><title>");
  for (std::sregex_iterator match(svg.begin(), svg.end(), circle), end; match != end; ++match)
    centers.emplace_back(std::stod((*match)[1]), std::stod((*match)[2]));
  return centers;
}

TEST(LineChartTest, BothEndsOfACurveTellTheirValues) {
  for (const int count : {1, 2, 14, 15, 16, 29, 31, 1000, 5000}) {
    Series series{"a", {}};
    for (int i = 0; i < count; ++i) series.points.emplace_back(i, i % 7);
    const std::string svg = Svg(LineChart{"t", {"x"}, {"y"}, {series}});
    EXPECT_THAT(svg, HasSubstr("<title>a: 0 at 0</title>")) << count;
    EXPECT_THAT(svg, HasSubstr("<title>a: " + std::to_string((count - 1) % 7) + " at " + std::to_string(count - 1) +
                               "</title>"));
    EXPECT_LE(Circles(svg).size(), 31U) << count;
  }
}

TEST(LineChartTest, ALevelStandsAtItsValueAndIsNamed) {
  LineChart chart{"t", {"x"}, {"loss"}, {{"a", {{0, 4}, {1, 6}}}}};
  chart.levels = {{"plateau <of> words", 6}, {"far above", 11}, {"no number", std::nan("")}};
  const std::string svg = Svg(chart);
  EXPECT_EQ(XmlProblem(svg), "");
  EXPECT_THAT(svg, HasSubstr(">plateau &lt;of&gt; words: 6</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("no number")));
  const std::regex level(
      "<g><title>([^<]*): [0-9]+</title><line class=\"level\" stroke-dasharray=\"([^\"]*)\"[^>]* y1=\"([0-9.]+)\"");
  std::vector<double> heights;
  std::vector<std::string> dashes;
  for (std::sregex_iterator match(svg.begin(), svg.end(), level), end; match != end; ++match) {
    dashes.push_back((*match)[2]);
    heights.push_back(std::stod((*match)[3]));
  }
  ASSERT_EQ(heights.size(), 2U);
  EXPECT_NE(dashes[0], dashes[1]);
  const auto points = Circles(svg);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_NEAR(heights[0], points[1].second, 0.11);
  EXPECT_LT(heights[1], heights[0]);
  EXPECT_GT(heights[1], 40);  // below title and legend
}

TEST(LineChartTest, PublishedCurvesAreThinAndHollow) {
  LineChart chart{"t", {"x"}, {"y"}, {{"ours", {{0, 0}, {1, 1}}}, {"theirs", {{0, 1}, {1, 0}}, 0, true}}};
  const std::string svg = Svg(chart);
  EXPECT_THAT(svg, HasSubstr("class=\"l s0\""));
  EXPECT_THAT(svg, HasSubstr("class=\"l p s0\""));
  EXPECT_THAT(svg, HasSubstr("class=\"m p s0\""));
  EXPECT_EQ(Circles(svg).size(), 4U);
}

TEST(LineChartTest, WhereColoursRepeatMarkersDoNot) {
  LineChart chart{"t", {"x"}, {"y"}, {}};
  for (int i = 0; i < 9; ++i) chart.series.push_back({std::to_string(i), {{i, 0}}});
  const std::string svg = Svg(chart);
  EXPECT_EQ(Circles(svg).size(), 1U);  // the first, not the ninth, which is as blue
}

TEST(LineChartTest, TextsNeverTouchWhateverTheNumbersAre) {
  for (const bool log : {false, true}) {
    for (const auto& [low, high] : {std::pair{1e-300, 1e300},
                                    {1.0, 1.0},
                                    {5e-324, 1.7e308},
                                    {1e-12, 3e-12},
                                    {-123456.7, 98765.4},
                                    {99999.0, 100001.0},
                                    {-1.7e308, 1.7e308}}) {
      LineChart chart{std::string(100, 'W'), {"tokens", log}, {std::string(90, 'y'), log}, {}};
      chart.series = {{"exact attention, measured", {{low, low}, {high, high}}},
                      {std::string(120, 'n'), {{high, low}}}};
      chart.levels = {{"a", low}, {"b", low}};
      const std::string svg = Svg(chart);
      EXPECT_EQ(XmlProblem(svg), "");
      EXPECT_EQ(TextProblem(svg), "") << low << ' ' << high << ' ' << log;
      EXPECT_THAT(svg, Not(HasSubstr("nan")));
      EXPECT_THAT(svg, Not(HasSubstr("inf")));
      for (const double number : PathNumbers(svg)) {
        EXPECT_GE(number, 0);
        EXPECT_LE(number, SvgHeight(svg) + 400);
      }
    }
  }
}

TEST(PageTest, IsOneWellFormedFileThatLoadsNothing) {
  Page page("A & B", "<subtitle>");
  page.Heading("h");
  page.Paragraph("p > q");
  page.Cards({{"2 x", "faster"}});
  Table table;
  table.columns = {"a"};
  page.Add(table.Row({"1"}));
  page.Add(std::vector<LineChart>{{"t", {"x"}, {"y"}, {{"a", {{0, 1}, {1, 2}}}}}});
  page.Add(std::vector<BarChart>{{"t", "u", {"g"}, {{"a", {1}}}}});
  page.Commands({"lshformer predict --text '<a>'"});
  page.Details("config", "{\"a\": \"<\"}");
  const std::string html = page.Html();
  EXPECT_EQ(XmlProblem(html), "");
  for (const char* loads : {"<script ", "<link", "src=", "href=\"h", "url(", "@import", "fetch(", "https:"})
    EXPECT_THAT(html, Not(HasSubstr(loads)));
  // The only address is the name of the XML namespace.
  EXPECT_EQ(std::regex_replace(html, std::regex("xmlns=\"http://www.w3.org/[^\"]*\""), "").find("http:"),
            std::string::npos);
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
}

// The checker of these tests must be able to fail.
TEST(XmlCheckTest, FindsWhatIsWrong) {
  EXPECT_EQ(XmlProblem("<a b=\"1\"><c/>&amp;</a>\n"), "");
  for (const char* bad : {"<a>", "<a></b>", "<a b=1></a>", "<a>&nbsp;</a>", "<a b=\"<\"/>", "<a/><b/>", "x",
                          "<a b=\"1\" b=\"2\"/>", "<a>\x01</a>"}) {
    EXPECT_NE(XmlProblem(bad), "") << bad;
  }
}

}  // namespace
}  // namespace lshformer
