#include "report/radar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "report/chart.h"
#include "report/svg_check.h"
#include "report/xml_check.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RadarChart Models() {
  return {"Two models",
          {{"accuracy", 1}, {"loss", -1}, {"samples a second", 1}},
          {{"exact", {15, 5.5, 600}}, {"SimHash", {18, 5.0, 150}, -1, true}}};
}

struct Corner {
  double x = 0, y = 0;
};

// Corners of the polygons, in order of shapes.
std::vector<std::vector<Corner>> PolygonsOf(const std::string& svg) {
  std::vector<std::vector<Corner>> polygons;
  const std::regex shape("<path class=\"r [^\"]*\"[^>]* d=\"([^\"]*)\""), corner("[ML]([0-9.]+) ([0-9.]+)");
  for (std::sregex_iterator match(svg.begin(), svg.end(), shape), end; match != end; ++match) {
    polygons.emplace_back();
    const std::string path = (*match)[1];
    for (std::sregex_iterator at(path.begin(), path.end(), corner); at != end; ++at)
      polygons.back().push_back({std::stod((*at)[1]), std::stod((*at)[2])});
  }
  return polygons;
}

TEST(RadarSharesTest, AreRatiosToTheBestOfAnAxis) {
  const std::vector<std::vector<double>> shares = RadarShares(Models());
  EXPECT_THAT(shares[0], ElementsAre(15.0 / 18, 5.0 / 5.5, 1));
  EXPECT_THAT(shares[1], ElementsAre(1, 1, 0.25));
}

TEST(RadarSharesTest, AreLinearWhereRatiosMeanNothing) {
  const std::vector<std::vector<double>> shares =
      RadarShares({"",
                   {{"change", 1}, {"errors", -1}, {"zeros", 1}, {"equal", -1}},
                   {{"a", {-2, 0, 0, -7}}, {"b", {2, 4, 5, -7}}, {"c", {1, 1, 0, -7}}}});
  EXPECT_THAT(shares[0], ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(shares[1], ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(shares[2], ElementsAre(0.75, 0.75, 0, 1));
}

TEST(RadarSharesTest, StayWithinTheRimForAnyNumbers) {
  for (const int better : {-1, 0, 1}) {
    const double huge = 1.7e308, tiny = 5e-324;
    RadarChart chart{"", std::vector<RadarAxis>(6, {"a", better}), {}};
    chart.shapes = {{"a", {huge, tiny, -huge, 0, std::nan(""), 1}}, {"b", {-huge, huge, -huge, -tiny, HUGE_VAL, 2}}};
    for (const std::vector<double>& shares : RadarShares(chart)) {
      ASSERT_EQ(shares.size(), 6U);
      for (size_t axis = 0; axis < 6; ++axis) {
        if (axis == 4) {
          EXPECT_TRUE(std::isnan(shares[axis]));
        } else {
          EXPECT_GE(shares[axis], 0) << axis;
          EXPECT_LE(shares[axis], 1) << axis;
        }
      }
    }
  }
}

// The distance of a corner from the centre is the share; the first axis points up, the others follow clockwise.
TEST(RadarTest, CornersStandAtTheirShares) {
  const std::string svg = Svg(Models());
  EXPECT_EQ(XmlProblem(svg), "");
  const std::vector<std::vector<Corner>> polygons = PolygonsOf(svg);
  ASSERT_EQ(polygons.size(), 2U);
  const std::vector<std::vector<double>> shares = RadarShares(Models());
  const double rim_y = polygons[1][0].y, rim = (polygons[0][2].y - rim_y) / 1.5;  // 240° are half a radius below
  const Corner center{200, rim_y + rim};
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(polygons[i].size(), 3U);
    for (size_t axis = 0; axis < 3; ++axis) {
      const Corner at = polygons[i][axis];
      EXPECT_NEAR(std::hypot(at.x - center.x, at.y - center.y) / rim, shares[i][axis], 0.003) << i << ' ' << axis;
    }
  }
  EXPECT_LT(polygons[0][0].y, center.y);
  EXPECT_GT(polygons[0][1].x, center.x);
  EXPECT_LT(polygons[0][2].x, center.x);
}

TEST(RadarTest, AxesAreNamedWithTheirDirectionAndTheirBest) {
  const std::string svg = Svg(Models());
  for (const char* text : {">accuracy</text>", ">loss</text>", ">higher is better</text>", ">lower is better</text>",
                           ">rim: 18</text>", ">rim: 5</text>", ">rim: 600</text>", ">exact</text>", ">SimHash</text>"})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(svg, Not(HasSubstr("centre:")));
  EXPECT_THAT(svg, HasSubstr("<title>exact, loss: 5.500 (lower is better, best 5)</title>"));
  RadarChart chart = Models();
  chart.axes[1].better = 1;
  chart.shapes[0].values[1] = -1;
  EXPECT_THAT(Svg(chart), HasSubstr(">centre: -1</text>"));
}

TEST(RadarTest, PublishedShapesAreOutlines) {
  const std::string svg = Svg(Models());
  EXPECT_THAT(svg, HasSubstr("<path class=\"r s0\" stroke-dasharray=\"none\""));
  EXPECT_THAT(svg, HasSubstr("<path class=\"r p s1\" stroke-dasharray=\"4 2\""));
  EXPECT_THAT(ChartStyle(), HasSubstr(".chart .r.p, .chart .r.open { fill: none; }"));
}

TEST(RadarTest, AShapeIsOpenWhereAValueIsMissing) {
  RadarChart chart = Models();
  chart.axes.push_back({"memory", -1});
  chart.shapes[0].values.push_back(3);
  chart.shapes[1].values[1] = std::nan("");  // and the fourth is missing
  const std::string svg = Svg(chart);
  EXPECT_EQ(XmlProblem(svg), "");
  EXPECT_EQ(PolygonsOf(svg)[0].size(), 4U);
  EXPECT_EQ(PolygonsOf(svg)[1].size(), 2U);
  EXPECT_THAT(svg, HasSubstr("class=\"r p open s1\""));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(RadarTest, AnAxisWithoutValuesIsLeftOut) {
  RadarChart chart = Models();
  chart.axes.insert(chart.axes.begin(), RadarAxis{"nothing <here>", 1});
  for (RadarShape& shape : chart.shapes) shape.values.insert(shape.values.begin(), std::nan(""));
  std::string svg = Svg(chart);
  EXPECT_THAT(svg, Not(HasSubstr("nothing")));
  EXPECT_EQ(PolygonsOf(svg)[0].size(), 3U);
  chart.axes.pop_back();
  svg = Svg(chart);
  EXPECT_THAT(svg, HasSubstr("no data"));
  EXPECT_EQ(XmlProblem(svg), "");
  EXPECT_THAT(Svg(RadarChart{"t", {}, {}}), HasSubstr("no data"));
}

TEST(RadarTest, TextsNeverTouchWhateverTheNumberOfAxes) {
  for (size_t axes = 3; axes <= 14; ++axes) {
    for (const char* name : {"loss", "training samples a second, with <words> & more", "Wortungetümsbeispielwort"}) {
      RadarChart chart{std::string(90, 'T'), {}, {{"one", {}}, {"two", {}}}};
      for (size_t axis = 0; axis < axes; ++axis) {
        chart.axes.push_back({name, axis % 3 == 0 ? -1 : axis % 3 == 1 ? 1 : 0});
        chart.shapes[0].values.push_back(1.0 + static_cast<double>(axis));
        chart.shapes[1].values.push_back(axis % 4 == 0 ? -1.25e-10 : 2.5);
      }
      const std::string svg = Svg(chart);
      EXPECT_EQ(XmlProblem(svg), "");
      EXPECT_EQ(TextProblem(svg), "") << axes << " axes, " << name;
    }
  }
}

}  // namespace
}  // namespace lshformer
