// What all drawings are made of.
#pragma once
#include <string>
#include <vector>

namespace lshformer {

// A drawing is 400 units wide: two stand side by side on a desktop page, and one alone on a phone of 360 pixels still
// shows its 12.5-unit text at 10.
inline constexpr double kSvgWidth = 400;
inline constexpr double kSvgCharacter = 6.9;  // mean width of 12.5-unit sans-serif text
inline constexpr int kSeriesColors = 8;       // .s0 … of ChartStyle()

// Which of so many dashes or markers goes with the colour of a series: where colours repeat, these do not.
constexpr size_t KindBesideColor(size_t style, size_t kinds) { return (style + style / kSeriesColors) % kinds; }

// Where a value stands from low, 0, to high, 1; low < high. Finite for the greatest and the smallest numbers.
double Between(double value, double low, double high);

// <svg …>, to be closed, of kSvgWidth by `height`.
std::string OpenSvg(const std::string& title, double height);
// The whole drawing of a chart that has nothing to show.
std::string WithoutData(const std::string& title);

// The title, in as many lines as it takes; `bottom` is the base of the last one.
std::string TitleText(const std::string& title, double& bottom);
// <text> of a class of ChartStyle(), escaped.
std::string TextAt(double x, double y, const char* css, const std::string& text);
// The same, cut to so many code points; the full text is then its tooltip.
std::string TextWithin(double x, double y, const char* css, const std::string& text, size_t code_points);
// From bottom to top, its middle at (x, y), cut to `length` units.
std::string UprightText(double x, double y, const std::string& text, double length);
std::string Rule(const char* css, double x1, double y1, double x2, double y2);
// A point of a series, of a shape that goes with its colour; published ones are hollow.
std::string Marker(size_t style, bool published, double x, double y, const std::string& tip);

// With "…" for what goes beyond so many code points.
std::string Shortened(const std::string& name, size_t code_points);
// The name in lines of at most `width` columns, broken at spaces where there are any: names that differ in their last
// letters alone must still look different.
std::vector<std::string> Wrapped(const std::string& name, int width);

// A name of a legend: 24 units from x are its mark's, the text follows; y is the base of its first line.
struct LegendPlace {
  double x = 0, y = 0;
  std::vector<std::string> lines = {};
};
// From `top` down, in lines of the drawing's width; "" takes no place. `last`: the base of the last line.
std::vector<LegendPlace> PlaceLegend(const std::vector<std::string>& names, double top, double& last);
std::string LegendText(const LegendPlace& place);

}  // namespace lshformer
