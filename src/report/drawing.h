// Drawings of every kind, for pages and for files of their own, with their numbers as text.
//
//   const Drawing drawing = HeatMap{…};
//   page.Add({Illustration{drawing, "KFLOPs of hashing, by bands and hashes", "lshformer attention --cost …"}});
//   WriteFileAtomically("fig-1.svg", SvgFile(drawing));
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "report/chart.h"
#include "report/heat_map.h"
#include "report/radar.h"
#include "report/table.h"

namespace lshformer {

using Drawing = std::variant<LineChart, BarChart, HeatMap, RadarChart>;

// A drawing as a page shows it: what is under it, and its numbers as a table to open.
struct Illustration {
  Drawing drawing;
  std::string caption = {};  // what is to be seen; "": nothing
  std::string command = {};  // that makes it; "": the page says it elsewhere
};

std::string Svg(const Drawing& drawing);  // for a page that carries ChartStyle() and HeatMapStyle()
// A file of its own: with its colours, light or dark as the reader's setting is, for programs that know no CSS
// variables too, and with the description of its numbers.
std::string SvgFile(const Drawing& drawing);

const std::string& Title(const Drawing& drawing);
// The numbers as drawn. Of curves with more than 40 points a selection with both ends; `selected` then says "40 of 5000
// points", else it is empty.
Table NumbersOf(const Drawing& drawing, std::string* selected = nullptr);
// What a reader who does not see it is told, in a sentence or two: kind, axes, ends and extremes.
std::string Description(const Drawing& drawing);

}  // namespace lshformer
