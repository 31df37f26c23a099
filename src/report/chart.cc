#include "report/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "report/plot_parts.h"
#include "report/svg_parts.h"
#include "report/table.h"

namespace lshformer {
namespace {

using Points = std::vector<std::pair<double, double>>;

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

std::string DrawnCurve(const Series& series, const Points& all, const LegendEntry& entry, const Scale& x,
                       const Scale& y) {
  const Points points = Thinned(all, x);
  std::string path;
  for (size_t i = 0; i < points.size(); ++i) {
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x.At(points[i].first), y.At(points[i].second));
  }
  std::string out = fmt::format("<path class=\"l {}s{}\" stroke-dasharray=\"{}\" d=\"{}\"/>\n",
                                entry.published ? "p " : "", entry.style % kSeriesColors, Dash(entry.style), path);
  // Markers on a dense curve would hide it: about 15 are spread over it, both ends among them, each with its value.
  constexpr size_t kMarkers = 15;
  const size_t stride = std::max<size_t>(1, all.size() / kMarkers);
  for (size_t i = 0; i < all.size(); i = i + stride < all.size() || i + 1 == all.size() ? i + stride : all.size() - 1) {
    out += Marker(entry.style, entry.published, x.At(all[i].first), y.At(all[i].second),
                  fmt::format("{}: {} at {}", series.name, FormatNumber(all[i].second), FormatNumber(all[i].first, 6)));
  }
  return out;
}

std::string LevelName(const Level& level) { return level.name + ": " + FormatNumber(level.y); }

// Each told in the legend, where no curve can cover its name.
std::string Levels(const std::vector<Level>& levels, const Scale& y, double left) {
  std::string out;
  for (size_t i = 0; i < levels.size(); ++i) {
    const double at = y.At(levels[i].y);
    out += fmt::format(
        "<g><title>{}</title><line class=\"level\" stroke-dasharray=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" "
        "y2=\"{:.1f}\"/></g>\n",
        EscapeXml(LevelName(levels[i])), LevelDash(i), left, at, kPlotRight, at);
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
    legend.push_back({points.empty() ? "" : series.name,
                      series.style < 0 ? legend.size() : static_cast<size_t>(series.style), series.published});
    drawn.push_back(std::move(points));
  }
  if (xs.empty()) return WithoutData(chart.title);
  std::vector<Level> levels;
  for (const Level& level : chart.levels) {
    if (!Drawable(level.y, chart.y)) continue;
    legend.push_back({LevelName(level), levels.size(), false, true});
    levels.push_back(level);
    ys.Include(level.y);
  }
  double top = 0;
  const std::string header = TitleAndLegend(chart.title, legend, LegendMark::kLine, top);
  const double bottom = top + kPlotHeight;
  const Scale y = MakeScale(chart.y, ys, bottom, -kPlotHeight, 5, false);
  const double left = PlotLeft(y);
  const Scale x = MakeScale(chart.x, xs, left, kPlotRight - left, 6, true);
  std::string out =
      OpenSvg(chart.title, bottom + 44) + header + HorizontalGrid(y, left) + HorizontalAxis(x, left, bottom);
  for (size_t i = 0; i < drawn.size(); ++i) {
    if (!drawn[i].empty()) out += DrawnCurve(chart.series[i], drawn[i], legend[i], x, y);
  }
  out += Levels(levels, y, left) + TextWithin((left + kPlotRight) / 2, bottom + 36, "label middle", chart.x.label, 44) +
         UprightText(14, top + kPlotHeight / 2, chart.y.label, kPlotHeight);
  return out + "</svg>\n";
}

}  // namespace lshformer
