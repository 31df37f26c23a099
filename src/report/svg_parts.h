// What the charts and the heat maps are drawn with.
#pragma once
#include <string>
#include <vector>

namespace lshformer {

// A drawing is 480 units wide: two stand side by side on a desktop page, and one alone on a phone still shows its
// 12-unit text at about 9 pixels.
inline constexpr double kSvgWidth = 480;
inline constexpr double kSvgCharacter = 6.6;  // mean width of 12-unit sans-serif text

// <svg …>, to be closed, of kSvgWidth by `height`.
std::string OpenSvg(const std::string& title, double height);
// The whole drawing of a chart that has nothing to show.
std::string WithoutData(const std::string& title, const std::string& header, double top);

// <text> of a class of ChartStyle(), escaped.
std::string TextAt(double x, double y, const char* css, const std::string& text);
std::string Rule(const char* css, double x1, double y1, double x2, double y2);

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
