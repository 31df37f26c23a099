// A matrix as coloured cells, drawn as the charts are (report/chart.h).
//
// Values are shaded in steps of one hue, from the smallest to the greatest: more is further from the paper, in light
// and in dark. Text on a cell has a contrast of at least 4.5:1. Each cell carries its value as a tooltip (<title>).
#pragma once
#include <string>
#include <vector>

namespace lshformer {

struct HeatMap {
  std::string title, row_label, column_label;  // labels name one row and one column: "layer", "head"
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> values;  // by row and column; a cell without a finite one has no shade
  // Text in cells, left out where it does not fit all of them; empty: the values.
  std::vector<std::vector<std::string>> cells = {};
  std::vector<std::vector<std::string>> tips = {};  // of the tooltip, in place of the value where not empty
  bool log = false;  // of the scale of colours, base 10; values ≤ 0 are told apart, without a shade
  // Not empty: values are places in it, each with a colour and a letter of its own; the letters stand in the cells.
  std::vector<std::string> categories = {};
  // Not empty: cells of at most `limit` have a frame round them, and the legend says "at most LIMIT: NAME".
  std::string limit_name = {};
  double limit = 0;
};

// <svg …>…</svg> for a page that carries ChartStyle() and HeatMapStyle(). Well-formed XML; without a finite value it
// says so.
std::string Svg(const HeatMap& map);

// CSS: the colours of cells, light and dark, and of the text on them.
std::string HeatMapStyle();

}  // namespace lshformer
