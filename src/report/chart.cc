#include "report/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/svg_parts.h"
#include "report/table.h"

namespace lshformer {
namespace {

constexpr int kColors = 8;
constexpr double kPlotHeight = 210;
constexpr double kLeft = 66, kRight = 16;
constexpr int kDashKinds = 4;
constexpr const char* kDashes[kDashKinds] = {"none", "7 3", "2 3", "9 3 2 3"};

// Where colours repeat, dashes do not.
const char* Dash(size_t series) { return kDashes[(series + series / kColors) % kDashKinds]; }

using Points = std::vector<std::pair<double, double>>;

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void Include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

// Maps values to positions along one side of the plot.
struct Scale {
  bool log = false;
  double low = 0, high = 1, start = 0, length = 1;
  std::vector<double> ticks;
  double At(double value) const {
    const double fraction =
        log ? (std::log(value) - std::log(low)) / (std::log(high) - std::log(low)) : (value - low) / (high - low);
    return start + fraction * length;
  }
};

bool Drawable(double value, const Axis& axis) { return std::isfinite(value) && (!axis.log || value > 0); }

Scale MakeScale(const Axis& axis, Range range, double start, double length, int count, bool tight) {
  Scale scale;
  scale.log = axis.log;
  scale.start = start;
  scale.length = length;
  if (axis.from_zero && !axis.log) {
    range.Include(0);
  }
  if (axis.log) {
    const double margin = range.high > range.low ? (tight ? 1.0 : 1.15) : 2.0;
    scale.low = range.low / margin;
    scale.high = range.high * margin;
    scale.ticks = LogTicks(scale.low, scale.high, count);
  } else {
    scale.ticks = NiceTicks(range.low, range.high, count);
    const bool exact = tight && range.high > range.low;
    scale.low = exact ? range.low : scale.ticks.front();
    scale.high = exact ? range.high : scale.ticks.back();
  }
  if (!axis.ticks.empty()) {
    scale.ticks = axis.ticks;
  }
  std::erase_if(scale.ticks,
                [&](double tick) { return tick < scale.low * (1 - 1e-9) - 1e-300 || tick > scale.high * (1 + 1e-9); });
  return scale;
}

// Long curves: the lowest and the highest point of each half unit, so that no spike is lost.
Points Thinned(const Points& points, const Scale& x) {
  constexpr size_t kEnough = 1500;
  if (points.size() <= kEnough) {
    return points;
  }
  Points out;
  for (size_t i = 0; i < points.size();) {
    const double column = std::floor(2 * x.At(points[i].first));
    size_t low = i, high = i, end = i;
    for (; end < points.size() && std::floor(2 * x.At(points[end].first)) == column; ++end) {
      low = points[end].second < points[low].second ? end : low;
      high = points[end].second > points[high].second ? end : high;
    }
    out.push_back(points[std::min(low, high)]);
    if (low != high) {
      out.push_back(points[std::max(low, high)]);
    }
    i = end;
  }
  return out;
}

std::string Marker(int color, double x, double y, const std::string& tip) {
  const std::string head = fmt::format("<path class=\"m s{}\" d=\"", color);
  std::string shape;
  switch (color % 4) {
    case 0:
      shape = fmt::format("M{:.1f} {:.1f}m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z", x, y);
      break;
    case 1:
      shape = fmt::format("M{:.1f} {:.1f}h5.4v5.4h-5.4z", x - 2.7, y - 2.7);
      break;
    case 2:
      shape = fmt::format("M{:.1f} {:.1f}l3.6 6.2h-7.2z", x, y - 3.8);
      break;
    default:
      shape = fmt::format("M{:.1f} {:.1f}l3.6 3.6l-3.6 3.6l-3.6 -3.6z", x, y - 3.6);
  }
  return head + shape + (tip.empty() ? "\"/>" : "\"><title>" + EscapeXml(tip) + "</title></path>");
}

struct LegendEntry {
  std::string name;
  size_t style;
};

// Title and legend; `bottom` is where the plot may begin.
std::string Header(const std::string& title, const std::vector<LegendEntry>& entries, bool lines, double& bottom) {
  std::vector<std::string> names;
  for (const LegendEntry& entry : entries) names.push_back(entry.name);
  std::string out = TextAt(8, 20, "title", Shortened(title, 62));
  double last = 0;
  const std::vector<LegendPlace> places = PlaceLegend(names, 40, last);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (names[i].empty()) continue;  // nothing of it is drawn; it keeps its colour for the page's other charts
    const auto& [x, y, text] = places[i];
    const size_t style = entries[i].style;
    const int color = static_cast<int>(style % kColors);
    if (lines) {
      out +=
          fmt::format(
              "<line class=\"l s{}\" stroke-dasharray=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>",
              color, Dash(style), x, y - 4, x + 24, y - 4) +
          Marker(color, x + 12, y - 4, "") + '\n';
    } else {
      out += fmt::format("<rect class=\"b s{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"10\" rx=\"2\"/>\n",
                         color, x + 5, y - 9);
    }
    out += LegendText(places[i]);
  }
  bottom = last + 20;
  return out;
}

std::string HorizontalGrid(const Scale& y) {
  std::string out;
  for (const double tick : y.ticks) {
    const double at = y.At(tick);
    out += Rule("grid", kLeft, at, kSvgWidth - kRight, at) + TextAt(kLeft - 7, at + 4, "tick end", TickLabel(tick));
  }
  return out;
}

std::string VerticalAxisName(const std::string& name, double top) {
  const double middle = top + kPlotHeight / 2;
  return name.empty()
             ? ""
             : fmt::format("<text class=\"label middle\" transform=\"translate(13 {:.1f}) rotate(-90)\">{}</text>\n",
                           middle, EscapeXml(Shortened(name, 34)));
}

// Ticks of the x axis whose labels would touch keep their mark and lose their label.
std::string HorizontalAxis(const Scale& x, double bottom) {
  std::string out = Rule("axis", kLeft, bottom, kSvgWidth - kRight, bottom);
  double free_from = -1e9;
  for (const double tick : x.ticks) {
    const double at = x.At(tick);
    const std::string label = TickLabel(tick);
    const double half = kSvgCharacter * static_cast<double>(label.size()) / 2;
    out += Rule("axis", at, bottom, at, bottom + 4);
    if (at - half > free_from) {
      out += TextAt(at, bottom + 17, "tick middle", label);
      free_from = at + half + 4;
    }
  }
  return out;
}

std::string DrawnCurve(const Series& series, const Points& all, size_t index, const Scale& x, const Scale& y) {
  const int color = static_cast<int>(index % kColors);
  const Points points = Thinned(all, x);
  std::string path;
  for (size_t i = 0; i < points.size(); ++i) {
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x.At(points[i].first), y.At(points[i].second));
  }
  std::string out = fmt::format("<path class=\"l s{}\" stroke-dasharray=\"{}\" d=\"{}\"/>\n", color, Dash(index), path);
  // Markers on a dense curve would hide it: about 15 are spread over it, each with its value.
  const size_t stride = std::max<size_t>(1, all.size() / 15);
  for (size_t i = 0; i < all.size(); i += stride) {
    out +=
        Marker(color, x.At(all[i].first), y.At(all[i].second),
               fmt::format("{}: {} at {}", series.name, FormatNumber(all[i].second), FormatNumber(all[i].first, 6))) +
        '\n';
  }
  return out;
}

}  // namespace

std::string Svg(const LineChart& chart) {
  std::vector<LegendEntry> legend;
  std::vector<Points> drawn;
  Range xs, ys;
  for (const Series& series : chart.series) {
    Points points;
    for (const auto& [px, py] : series.points) {
      if (Drawable(px, chart.x) && Drawable(py, chart.y)) {
        points.emplace_back(px, py);
        xs.Include(px);
        ys.Include(py);
      }
    }
    legend.push_back(
        {points.empty() ? "" : series.name, series.style < 0 ? legend.size() : static_cast<size_t>(series.style)});
    drawn.push_back(std::move(points));
  }
  double top = 0;
  const std::string header = Header(chart.title, legend, true, top);
  if (xs.empty()) {
    return WithoutData(chart.title, header, top);
  }
  const double bottom = top + kPlotHeight;
  const Scale x = MakeScale(chart.x, xs, kLeft, kSvgWidth - kLeft - kRight, 7, true);
  const Scale y = MakeScale(chart.y, ys, bottom, -kPlotHeight, 5, false);
  std::string out = OpenSvg(chart.title, bottom + 42) + header + HorizontalGrid(y) + HorizontalAxis(x, bottom);
  for (size_t i = 0; i < drawn.size(); ++i) {
    if (!drawn[i].empty()) {
      out += DrawnCurve(chart.series[i], drawn[i], legend[i].style, x, y);
    }
  }
  out += TextAt((kLeft + kSvgWidth - kRight) / 2, bottom + 35, "label middle", chart.x.label) +
         VerticalAxisName(chart.y.label, top);
  return out + "</svg>\n";
}

std::string Svg(const BarChart& chart) {
  std::vector<LegendEntry> legend;
  Range ys;
  ys.Include(0);
  bool any = false;
  for (const BarChart::Bars& bars : chart.series) {
    legend.push_back({bars.name, legend.size()});
    for (const double value : bars.values) {
      if (std::isfinite(value)) {
        ys.Include(value);
        any = true;
      }
    }
  }
  double top = 0;
  const std::string header = Header(chart.title, legend, false, top);
  if (!any) {
    return WithoutData(chart.title, header, top);
  }
  const double bottom = top + kPlotHeight;
  const Scale y = MakeScale({chart.unit, false, {}, true}, ys, bottom, -kPlotHeight, 5, false);
  std::string out = OpenSvg(chart.title, bottom + 28) + header + HorizontalGrid(y);
  const double zero = y.At(0);
  const double group_width =
      (kSvgWidth - kLeft - kRight) / static_cast<double>(std::max<size_t>(chart.groups.size(), 1));
  const double width = std::min(56.0, 0.76 * group_width / static_cast<double>(std::max<size_t>(legend.size(), 1)));
  for (size_t group = 0; group < chart.groups.size(); ++group) {
    const double middle = kLeft + (static_cast<double>(group) + 0.5) * group_width;
    const auto fitting = static_cast<size_t>(std::max(3.0, group_width / kSvgCharacter));
    out += TextAt(middle, bottom + 17, "tick middle", Shortened(chart.groups[group], fitting));
    for (size_t i = 0; i < chart.series.size(); ++i) {
      const double value = group < chart.series[i].values.size() ? chart.series[i].values[group] : std::nan("");
      if (!std::isfinite(value)) {
        continue;
      }
      const double at = y.At(value),
                   left = middle + (static_cast<double>(i) - static_cast<double>(legend.size()) / 2) * width;
      out += fmt::format(
          "<rect class=\"b s{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
          "rx=\"1.5\"><title>{}</title></rect>\n",
          i % kColors, left + 1, std::min(at, zero), width - 2, std::abs(at - zero),
          EscapeXml(fmt::format("{}, {}: {}", legend[i].name, chart.groups[group], FormatNumber(value))));
      const std::string label = FormatNumber(value, 3);
      if (kSvgCharacter * DisplayWidth(label) <= width + 6) {
        out += TextAt(left + width / 2, value < 0 ? at + 13 : at - 4, "value middle", label);
      }
    }
  }
  out += Rule("axis", kLeft, zero, kSvgWidth - kRight, zero) + VerticalAxisName(chart.unit, top);
  return out + "</svg>\n";
}

// The palette is Okabe and Ito's for colour-blind readers, darkened on white and lightened on black to a contrast of at
// least 3:1 as WCAG asks of graphics.
std::string ChartStyle() {
  return R"(
:root { color-scheme: light dark;
  --paper: #ffffff; --ink: #1b1f24; --soft: #59636e; --line: #d9dee4; --panel: #f6f8fa; --accent: #0b62b0;
  --s0: #0b62b0; --s1: #c04a00; --s2: #00795a; --s3: #a3408a; --s4: #7a6300; --s5: #3f6f8f; --s6: #b3261e; --s7: #5b5b66; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14171b; --ink: #e8ecf0; --soft: #9aa5b1; --line: #323942; --panel: #1c2127; --accent: #6cb6ff;
  --s0: #6cb6ff; --s1: #ff9a52; --s2: #3fc79a; --s3: #e08fd0; --s4: #e3c64a; --s5: #9cc3dc; --s6: #ff8a80; --s7: #b4b4c0; } }
.chart { display: block; width: 100%; height: auto; font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
.chart text { font-size: 12px; fill: var(--soft); }
.chart .title { font-size: 14px; font-weight: 600; fill: var(--ink); }
.chart .legend { fill: var(--ink); }
.chart .value { font-size: 11px; fill: var(--ink); }
.chart .middle { text-anchor: middle; }
.chart .end { text-anchor: end; }
.chart .grid { stroke: var(--line); stroke-width: 1; }
.chart .axis { stroke: var(--soft); stroke-width: 1; }
.chart .l { fill: none; stroke-width: 2; stroke-linejoin: round; }
.chart .m { stroke: var(--paper); stroke-width: 0.8; }
.chart .s0 { color: var(--s0); } .chart .s1 { color: var(--s1); } .chart .s2 { color: var(--s2); } .chart .s3 { color: var(--s3); }
.chart .s4 { color: var(--s4); } .chart .s5 { color: var(--s5); } .chart .s6 { color: var(--s6); } .chart .s7 { color: var(--s7); }
.chart .l { stroke: currentColor; } .chart .m, .chart .b { fill: currentColor; }
)";
}

}  // namespace lshformer
