// Scales, axes and legends of plots.
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "report/chart.h"
#include "report/svg_parts.h"

namespace lshformer {

inline constexpr double kPlotHeight = 200;
inline constexpr double kPlotRight = kSvgWidth - 14;

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void Include(double value);
  bool empty() const { return low > high; }
};

// Whether a value has a place on such an axis.
bool Drawable(double value, const Axis& axis);

// Maps values to positions along one side of the plot.
struct Scale {
  bool log = false;
  double low = 0, high = 1, start = 0, length = 1;
  std::vector<double> ticks;
  double At(double value) const;
};

// `tight`: the ends are those of the range, not ticks beyond them. About `count` ticks, unless the axis names them.
Scale MakeScale(const Axis& axis, Range range, double start, double length, int count, bool tight);

// Left side of a plot whose y axis has these ticks: their labels and the axis' name have room.
double PlotLeft(const Scale& y);
std::string HorizontalGrid(const Scale& y, double left);
std::string HorizontalAxis(const Scale& x, double left, double bottom);

// The dashes of a line, by KindBesideColor.
const char* Dash(size_t style);
const char* LevelDash(size_t level);

enum class LegendMark { kLine, kBar, kShape };
struct LegendEntry {
  std::string name;  // "": nothing of it is drawn; it keeps its colour for the page's other charts
  size_t style = 0;
  bool published = false;
  bool level = false;  // a level's line; `style` is its place among the levels
};
// Title and legend; `bottom` is where the plot may begin.
std::string TitleAndLegend(const std::string& title, const std::vector<LegendEntry>& entries, LegendMark mark,
                           double& bottom);

}  // namespace lshformer
