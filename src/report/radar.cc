#include "report/radar.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "report/plot_parts.h"
#include "report/svg_parts.h"
#include "report/table.h"

namespace lshformer {
namespace {

constexpr double kCenter = kSvgWidth / 2, kRim = 88;

double ValueAt(const RadarShape& shape, size_t axis) {
  return axis < shape.values.size() && std::isfinite(shape.values[axis]) ? shape.values[axis] : std::nan("");
}

// The scale of one axis.
struct AxisScale {
  double sign = 1;  // −1: lower is better
  bool any = false, ratio = true;
  double best = 0, worst = 0;

  AxisScale(const RadarChart& chart, size_t axis) : sign(chart.axes[axis].better < 0 ? -1 : 1) {
    for (const RadarShape& shape : chart.shapes) {
      const double value = ValueAt(shape, axis);
      if (std::isnan(value)) continue;
      if (!any) best = worst = value;
      if (sign * value > sign * best) best = value;
      if (sign * value < sign * worst) worst = value;
      any = true;
    }
    ratio = sign > 0 ? worst >= 0 && best > 0 : best > 0;
  }

  double Share(double value) const {
    if (std::isnan(value)) return value;
    if (value == best) return 1;
    if (ratio) return sign > 0 ? value / best : best / value;
    return sign > 0 ? Between(value, worst, best) : 1 - Between(value, best, worst);
  }
};

// The axes that have values, each with its place in the chart.
std::vector<size_t> Axes(const RadarChart& chart) {
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < chart.axes.size(); ++axis)
    if (AxisScale(chart, axis).any) axes.push_back(axis);
  return axes;
}

struct Point {
  double x = 0, y = 0;
};

// From the top, clockwise.
Point On(size_t place, size_t places, double share, Point center) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(place) / static_cast<double>(places);
  return {center.x + share * kRim * std::sin(angle), center.y - share * kRim * std::cos(angle)};
}

const char* DirectionText(int better) {
  return better > 0 ? "higher is better" : better < 0 ? "lower is better" : "out is higher";
}

// The name of an axis, which way is better and what its ends are, beside the end of its spoke.
struct AxisLabel {
  std::vector<std::string> lines;
  size_t name_lines = 0;
  double x = 0, y = 0;  // the base of the first line
  const char* anchor = "";
  double Height() const { return 13 * static_cast<double>(lines.size()); }
};

AxisLabel LabelOf(const RadarChart& chart, size_t axis, size_t places, Point at, Point center) {
  constexpr int kBeside = 15, kSmallBeside = 17;
  const int above_or_below = places > 6 ? kBeside : 44;  // with many axes those beside come near
  constexpr double kNear = 1, kGap = 8;
  const AxisScale scale(chart, axis);
  const bool middle = std::abs(at.x - center.x) < kNear;
  AxisLabel label;
  label.lines = Wrapped(chart.axes[axis].name, middle ? above_or_below : kBeside);
  label.name_lines = label.lines.size();
  std::vector<std::string> others{DirectionText(chart.axes[axis].better), "rim: " + FormatNumber(scale.best, 3)};
  if (!scale.ratio) others.push_back("centre: " + FormatNumber(scale.worst, 3));
  for (const std::string& other : others)
    for (std::string& line : Wrapped(other, kSmallBeside)) label.lines.push_back(std::move(line));
  label.anchor = middle ? " middle" : at.x < center.x ? " end" : "";
  label.x = middle ? at.x : at.x + (at.x < center.x ? -kGap : kGap);
  label.y = middle ? (at.y < center.y ? at.y - kGap - label.Height() + 13 : at.y + kGap + 11)
                   : at.y - label.Height() / 2 + 10;
  return label;
}

// Down one side of the drawing no label stands on another.
void Separate(std::vector<AxisLabel>& labels) {
  constexpr double kGap = 5;
  for (const char* side : {"", " end"}) {
    std::vector<AxisLabel*> on_side;
    for (AxisLabel& label : labels)
      if (std::string_view(label.anchor) == side) on_side.push_back(&label);
    std::sort(on_side.begin(), on_side.end(), [](auto* a, auto* b) { return a->y < b->y; });
    for (size_t i = 1; i < on_side.size(); ++i)
      on_side[i]->y = std::max(on_side[i]->y, on_side[i - 1]->y + on_side[i - 1]->Height() + kGap);
  }
}

std::string Grid(size_t places, Point center) {
  std::string out;
  for (const double share : {0.25, 0.5, 0.75, 1.0}) {
    std::string path;
    for (size_t place = 0; place < places; ++place) {
      const Point at = On(place, places, share, center);
      path += fmt::format("{}{:.1f} {:.1f}", place == 0 ? "M" : "L", at.x, at.y);
    }
    out += fmt::format("<path class=\"grid\" d=\"{}z\"/>\n", path);
  }
  for (size_t place = 0; place < places; ++place) {
    const Point at = On(place, places, 1, center);
    out += Rule("grid", center.x, center.y, at.x, at.y);
  }
  return out;
}

// A polygon; where a value is missing it is open there, and not filled.
std::string Shape(const RadarChart& chart, const std::vector<size_t>& axes, size_t index, size_t style, Point center) {
  const RadarShape& shape = chart.shapes[index];
  std::string path, markers;
  bool joined = false, whole = true, first = false;
  for (size_t place = 0; place < axes.size(); ++place) {
    const double value = ValueAt(shape, axes[place]);
    whole &= !std::isnan(value);
    if (std::isnan(value)) {
      joined = false;
      continue;
    }
    const AxisScale scale(chart, axes[place]);
    const Point at = On(place, axes.size(), scale.Share(value), center);
    path += fmt::format("{}{:.1f} {:.1f}", joined ? "L" : "M", at.x, at.y);
    joined = true;
    first |= place == 0;
    const std::string tip =
        fmt::format("{}, {}: {} ({}, best {})", shape.name, chart.axes[axes[place]].name, FormatNumber(value),
                    DirectionText(chart.axes[axes[place]].better), FormatNumber(scale.best));
    markers += Marker(style, shape.published, at.x, at.y, tip);
  }
  if (path.empty()) return "";
  if (whole) {
    path += "z";
  } else if (first && joined) {
    const Point at = On(0, axes.size(), AxisScale(chart, axes[0]).Share(ValueAt(shape, axes[0])), center);
    path += fmt::format("L{:.1f} {:.1f}", at.x, at.y);
  }
  return fmt::format("<path class=\"r {}{}s{}\" stroke-dasharray=\"{}\" d=\"{}\"/>\n", shape.published ? "p " : "",
                     whole ? "" : "open ", style % kSeriesColors, shape.published ? "4 2" : "none", path) +
         markers;
}

std::string AxisLabels(const std::vector<AxisLabel>& labels) {
  std::string out;
  for (const AxisLabel& label : labels) {
    double y = label.y;
    for (size_t line = 0; line < label.lines.size(); ++line, y += 13)
      out += TextAt(label.x, y, ((line < label.name_lines ? "axisname" : "small") + std::string(label.anchor)).c_str(),
                    label.lines[line]);
  }
  return out;
}

// How to read it; where no axis is linear, in what ratio.
std::string Explanation(const RadarChart& chart, const std::vector<size_t>& axes, double& y) {
  const bool linear = std::any_of(axes.begin(), axes.end(), [&](size_t axis) { return !AxisScale(chart, axis).ratio; });
  std::string out;
  for (const std::string& line :
       Wrapped("Further out is better. Each axis has its own scale: the rim is its best value, half way in is half as "
               "good" +
                   std::string(linear ? ", but where a value of the centre is named." : "."),
               60))
    out += TextAt(8, y += 14, "small", line);
  return out;
}

}  // namespace

std::vector<std::vector<double>> RadarShares(const RadarChart& chart) {
  std::vector<std::vector<double>> shares(chart.shapes.size());
  for (size_t axis = 0; axis < chart.axes.size(); ++axis) {
    const AxisScale scale(chart, axis);
    for (size_t i = 0; i < chart.shapes.size(); ++i) shares[i].push_back(scale.Share(ValueAt(chart.shapes[i], axis)));
  }
  return shares;
}

std::string Svg(const RadarChart& chart) {
  constexpr size_t kFewest = 3;
  const std::vector<size_t> axes = Axes(chart);
  if (axes.size() < kFewest) return WithoutData(chart.title);
  std::vector<LegendEntry> legend;
  for (const RadarShape& shape : chart.shapes)
    legend.push_back({shape.name, shape.style < 0 ? legend.size() : static_cast<size_t>(shape.style), shape.published});
  double top = 0;
  const std::string header = TitleAndLegend(chart.title, legend, LegendMark::kShape, top);
  // With the centre at 0 the labels say how much room they take above and below.
  std::vector<AxisLabel> labels;
  for (size_t place = 0; place < axes.size(); ++place)
    labels.push_back(LabelOf(chart, axes[place], axes.size(), On(place, axes.size(), 1, {kCenter, 0}), {kCenter, 0}));
  Separate(labels);
  double above = -kRim, below = kRim;
  for (const AxisLabel& label : labels) {
    above = std::min(above, label.y - 11);
    below = std::max(below, label.y + label.Height() - 13 + 4);
  }
  const Point center{kCenter, top - above};
  for (AxisLabel& label : labels) label.y += center.y;
  std::string body = Grid(axes.size(), center);
  for (size_t i = 0; i < chart.shapes.size(); ++i) body += Shape(chart, axes, i, legend[i].style, center);
  double bottom = center.y + below + 6;
  body += AxisLabels(labels) + Explanation(chart, axes, bottom);
  return OpenSvg(chart.title, bottom + 10) + header + body + "</svg>\n";
}

}  // namespace lshformer
