// Line and bar charts as SVG, drawn here: no scripts, no fonts, nothing to load.
//
// Colours are CSS variables that follow the reader's light or dark setting. Series differ in colour, dash and marker,
// so a chart also reads in grey. Each marker and bar carries its value as a tooltip (<title>).
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace lshformer {

struct Axis {
  std::string label;
  bool log = false;                // base 10; values ≤ 0 are left out
  std::vector<double> ticks = {};  // empty: chosen
  bool from_zero = false;          // linear axes: 0 is always shown
};

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // in order of x; those that are not finite are left out
  int style = -1;          // colour, dash and marker, the same in all charts of a page; −1: by its place in this one
  bool published = false;  // thin, with hollow markers: what a source printed, beside what was measured
};

// A horizontal line with its name: a published figure, the loss of a plateau. It is always within the plot.
struct Level {
  std::string name;
  double y = 0;
};

struct LineChart {
  std::string title;
  Axis x, y;
  std::vector<Series> series;
  std::vector<Level> levels = {};
};

// One bar per group and series, the value written at its end. Bars stand where names and values have room, and lie
// below one another where they have not.
struct BarChart {
  struct Bars {
    std::string name;
    std::vector<double> values;  // one per group; NaN: no bar
    int style = -1;              // as a Series has it; a published one takes that of the measured one beside it
    bool published = false;      // outlines: what a source printed
  };
  std::string title, unit;
  std::vector<std::string> groups;
  std::vector<Bars> series;
};

// <svg …>…</svg> for a page that carries ChartStyle(). Well-formed XML; without data it says so.
std::string Svg(const LineChart& chart);
std::string Svg(const BarChart& chart);

// CSS: the colour variables (light and dark) and the classes the charts use.
std::string ChartStyle();

// Round numbers (1, 2, 2.5 or 5 times a power of ten) that span [low, high]: at most `count` + 1 of them, the first ≤
// low, the last ≥ high.
std::vector<double> NiceTicks(double low, double high, int count);
// Powers of ten in [low, high]; with less than two of them also 2 and 5 times these.
std::vector<double> LogTicks(double low, double high, int count);
std::string TickLabel(double value);

}  // namespace lshformer
