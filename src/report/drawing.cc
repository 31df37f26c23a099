#include "report/drawing.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/palette.h"
#include "report/plot_parts.h"

namespace lshformer {
namespace {

// Right after the tag that opens the drawing.
std::string WithParts(std::string svg, const std::string& parts) {
  const size_t end = svg.find(">\n");
  return svg.insert(end + 2, parts);
}

std::string DescriptionElement(const Drawing& drawing) {
  return "<desc>" + EscapeXml(Description(drawing)) + "</desc>\n";
}

// What a chart draws of a series; only this is told.
bool Drawn(const LineChart& chart, const std::pair<double, double>& point) {
  return Drawable(point.first, chart.x) && Drawable(point.second, chart.y);
}

std::vector<const Series*> DrawnSeries(const LineChart& chart) {
  std::vector<const Series*> drawn;
  for (const Series& series : chart.series)
    if (std::any_of(series.points.begin(), series.points.end(), [&](auto& point) { return Drawn(chart, point); }))
      drawn.push_back(&series);
  return drawn;
}

double At(const std::vector<double>& values, size_t i) { return i < values.size() ? values[i] : std::nan(""); }

double At(const std::vector<std::vector<double>>& values, size_t row, size_t column) {
  return row < values.size() ? At(values[row], column) : std::nan("");
}

// Of a long curve so many points, evenly spread, both ends among them.
constexpr size_t kMostPoints = 40;

Table Numbers(const LineChart& chart, std::string& selected) {
  const std::vector<const Series*> drawn = DrawnSeries(chart);
  Table table{{chart.x.label}, {}};
  std::map<double, std::vector<double>> lines;
  for (size_t i = 0; i < drawn.size(); ++i) {
    table.columns.push_back(drawn[i]->name);
    for (const auto& point : drawn[i]->points) {
      if (!Drawn(chart, point)) continue;
      auto& values = lines[point.first];
      values.resize(drawn.size(), std::nan(""));
      values[i] = point.second;
    }
  }
  if (lines.size() > kMostPoints) selected = fmt::format("{} of {} points", kMostPoints, lines.size());
  size_t index = 0, next = 0;
  for (const auto& [x, values] : lines) {
    const bool wanted = selected.empty() || index == next * (lines.size() - 1) / (kMostPoints - 1);
    ++index;
    if (!wanted) continue;
    ++next;
    std::vector<std::string> cells{FormatNumber(x, 6)};
    for (const double value : values) cells.push_back(FormatNumber(value));
    table.Row(std::move(cells));
  }
  for (const Level& level : chart.levels)
    if (Drawable(level.y, chart.y)) table.Section(level.name + ": " + FormatNumber(level.y));
  return table;
}

Table Numbers(const BarChart& chart, std::string&) {
  Table table{{chart.unit}, {}};
  for (const BarChart::Bars& bars : chart.series) table.columns.push_back(bars.name);
  for (size_t group = 0; group < chart.groups.size(); ++group) {
    std::vector<std::string> cells{chart.groups[group]};
    for (const BarChart::Bars& bars : chart.series) cells.push_back(FormatNumber(At(bars.values, group)));
    table.Row(std::move(cells));
  }
  return table;
}

// What the categories' places stand for; a number as it is.
std::string HeatText(const HeatMap& map, double value) {
  if (map.categories.empty()) return FormatNumber(value);
  const bool known = value >= 0 && value < static_cast<double>(map.categories.size());
  return known ? map.categories[static_cast<size_t>(value)] : "–";
}

Table Numbers(const HeatMap& map, std::string&) {
  Table table{{map.row_label + " \\ " + map.column_label}, {}};
  table.columns.insert(table.columns.end(), map.columns.begin(), map.columns.end());
  for (size_t row = 0; row < map.rows.size(); ++row) {
    std::vector<std::string> cells{map.rows[row]};
    for (size_t column = 0; column < map.columns.size(); ++column)
      cells.push_back(HeatText(map, At(map.values, row, column)));
    table.Row(std::move(cells));
  }
  if (!map.limit_name.empty()) table.Section(fmt::format("{}: {}", map.limit_name, FormatNumber(map.limit)));
  return table;
}

Table Numbers(const RadarChart& chart, std::string&) {
  Table table{{"", "better"}, {}, {1}};
  for (const RadarShape& shape : chart.shapes) table.columns.push_back(shape.name);
  for (size_t axis = 0; axis < chart.axes.size(); ++axis) {
    const int better = chart.axes[axis].better;
    std::vector<std::string> cells{chart.axes[axis].name, better > 0 ? "higher" : better < 0 ? "lower" : "–"};
    for (const RadarShape& shape : chart.shapes) cells.push_back(FormatNumber(At(shape.values, axis)));
    table.Row(std::move(cells));
  }
  return table;
}

std::string Described(const LineChart& chart) {
  std::string out = fmt::format("Line chart: {} by {}.", chart.y.label, chart.x.label);
  for (const Series* series : DrawnSeries(chart)) {
    const std::pair<double, double>*first = nullptr, *last = nullptr, *low = nullptr, *high = nullptr;
    for (const auto& point : series->points) {
      if (!Drawn(chart, point)) continue;
      first = first == nullptr ? &point : first;
      last = &point;
      low = low == nullptr || point.second < low->second ? &point : low;
      high = high == nullptr || point.second > high->second ? &point : high;
    }
    const auto told = [](const auto* point) {
      return fmt::format("{} at {}", FormatNumber(point->second), FormatNumber(point->first, 6));
    };
    out += fmt::format(" {}: {}", series->name, told(first));
    if (first != last) out += " to " + told(last);
    if (low != first && low != last) out += ", lowest " + told(low);
    if (high != first && high != last) out += ", highest " + told(high);
    out += ".";
  }
  for (const Level& level : chart.levels)
    if (Drawable(level.y, chart.y)) out += fmt::format(" {}: {}.", level.name, FormatNumber(level.y));
  return out;
}

std::string Described(const BarChart& chart) {
  std::string out = fmt::format("Bar chart: {}.", chart.unit);
  for (const BarChart::Bars& bars : chart.series) {
    out += " " + bars.name;
    for (size_t group = 0; group < chart.groups.size(); ++group)
      out += fmt::format("{} {} {}", group == 0 ? ":" : ",", chart.groups[group], FormatNumber(At(bars.values, group)));
    out += ".";
  }
  return out;
}

std::string Described(const HeatMap& map) {
  std::string out =
      fmt::format("Heat map: {} {} by {} {}.", map.rows.size(), map.row_label, map.columns.size(), map.column_label);
  std::string low_place, high_place;
  double low = HUGE_VAL, high = -HUGE_VAL;
  std::vector<size_t> counts(map.categories.size());
  for (size_t row = 0; row < map.rows.size(); ++row) {
    for (size_t column = 0; column < map.columns.size(); ++column) {
      const double value = At(map.values, row, column);
      if (!std::isfinite(value)) continue;
      if (value >= 0 && value < static_cast<double>(counts.size())) ++counts[static_cast<size_t>(value)];
      const std::string place =
          fmt::format("{} {}, {} {}", map.row_label, map.rows[row], map.column_label, map.columns[column]);
      if (value < low) low = value, low_place = place;
      if (value > high) high = value, high_place = place;
    }
  }
  for (size_t i = 0; i < counts.size(); ++i) out += fmt::format(" {}: {} cells.", map.categories[i], counts[i]);
  if (map.categories.empty() && low <= high)
    out += fmt::format(" Lowest {} at {}, highest {} at {}.", FormatNumber(low), low_place, FormatNumber(high),
                       high_place);
  if (!map.limit_name.empty()) out += fmt::format(" {}: {}.", map.limit_name, FormatNumber(map.limit));
  return out;
}

std::string Described(const RadarChart& chart) {
  std::string out = "Radar chart, further out is better.";
  for (const RadarShape& shape : chart.shapes) {
    out += " " + shape.name;
    for (size_t axis = 0; axis < chart.axes.size(); ++axis)
      out +=
          fmt::format("{} {} {}", axis == 0 ? ":" : ",", chart.axes[axis].name, FormatNumber(At(shape.values, axis)));
    out += ".";
  }
  for (const RadarAxis& axis : chart.axes)
    if (axis.better < 0) out += fmt::format(" Lower is better: {}.", axis.name);
  return out;
}

}  // namespace

std::string Svg(const Drawing& drawing) {
  const std::string svg = std::visit([](const auto& chart) { return Svg(chart); }, drawing);
  return WithParts(svg, DescriptionElement(drawing));
}

std::string SvgFile(const Drawing& drawing) {
  std::vector<NamedColor> colors = ChartColors();
  std::string rules = ChartRules();
  if (std::holds_alternative<HeatMap>(drawing)) {
    colors.insert(colors.end(), HeatMapColors().begin(), HeatMapColors().end());
    rules += HeatMapRules();
  }
  rules += ".chart .paper { fill: var(--paper); }\n";
  const std::string style = "<style>\n" + WithColors(rules, colors) + "</style>\n";
  const std::string svg = std::visit([](const auto& chart) { return Svg(chart); }, drawing);
  return WithParts(
      svg, DescriptionElement(drawing) + style + "<rect class=\"paper\" width=\"100%\" height=\"100%\" rx=\"6\"/>\n");
}

const std::string& Title(const Drawing& drawing) {
  return std::visit([](const auto& chart) -> const std::string& { return chart.title; }, drawing);
}

Table NumbersOf(const Drawing& drawing, std::string* selected) {
  std::string part;
  Table table = std::visit([&](const auto& chart) { return Numbers(chart, part); }, drawing);
  if (selected != nullptr) *selected = part;
  return table;
}

std::string Description(const Drawing& drawing) {
  return std::visit([](const auto& chart) { return Described(chart); }, drawing);
}

}  // namespace lshformer
