// Several figures of several models as polygons round a centre, drawn as the charts are (report/chart.h).
//
// Each axis has a scale of its own, on which further out is better: the rim is the best value of all shapes, and a
// value stands at its ratio to it, value / best where higher is better and best / value where lower is. So 2 % of
// difference look like 2 %, and half way in is half as good. On an axis where ratios mean nothing (negative values, or
// a best of 0 where lower is better) the centre is the worst value and the rim the best one; its name says so.
#pragma once
#include <string>
#include <vector>

namespace lshformer {

struct RadarAxis {
  std::string name;  // with its unit: "training time, s"
  int better = 1;    // 1: higher values, −1: lower ones, as base/metric_direction has it; 0 is drawn as 1, and said
};

struct RadarShape {
  std::string name;
  std::vector<double> values;  // one per axis, as measured; a shape has no corner where one is missing or not finite
  int style = -1;              // as a Series has it
  bool published = false;      // an outline: what a source printed, not what was measured
};

struct RadarChart {
  std::string title;
  std::vector<RadarAxis> axes;  // at least 3
  std::vector<RadarShape> shapes;
};

// From 0, the centre, to 1, the rim: by shape and axis; NaN where there is no finite value.
std::vector<std::vector<double>> RadarShares(const RadarChart& chart);

// <svg …>…</svg> for a page that carries ChartStyle(). Well-formed XML; with less than 3 axes that have values it says
// that there is no data.
std::string Svg(const RadarChart& chart);

}  // namespace lshformer
