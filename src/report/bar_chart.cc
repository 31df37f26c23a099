#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "report/chart.h"
#include "report/plot_parts.h"
#include "report/svg_parts.h"
#include "report/table.h"

namespace lshformer {
namespace {

constexpr double kValueCharacter = 6.7;  // mean width of 12-unit digits
constexpr double kWidestBar = 52, kShareOfGroup = 0.8;

double ValueAt(const BarChart& chart, size_t series, size_t group) {
  const std::vector<double>& values = chart.series[series].values;
  return group < values.size() && std::isfinite(values[group]) ? values[group] : std::nan("");
}

std::string ValueText(double value) { return FormatNumber(value, 3); }

std::vector<LegendEntry> Legend(const BarChart& chart) {
  std::vector<LegendEntry> legend;
  size_t next = 0;
  for (const BarChart::Bars& bars : chart.series) {
    const bool beside = bars.published && !legend.empty();
    const size_t style = bars.style >= 0 ? static_cast<size_t>(bars.style) : beside ? legend.back().style : next;
    next = std::max(next, style + 1);
    legend.push_back({bars.name, style, bars.published});
  }
  return legend;
}

// Width of the widest value as it is written.
double WidestValue(const BarChart& chart) {
  int longest = 1;
  for (size_t series = 0; series < chart.series.size(); ++series)
    for (size_t group = 0; group < chart.groups.size(); ++group)
      longest = std::max(longest, DisplayWidth(ValueText(ValueAt(chart, series, group))));
  return kValueCharacter * longest;
}

std::string Bar(const BarChart& chart, const LegendEntry& entry, size_t group, double value, double x, double y,
                double width, double height) {
  return fmt::format(
      "<rect class=\"b {}s{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
      "rx=\"1.5\"><title>{}</title></rect>\n",
      entry.published ? "p " : "", entry.style % kSeriesColors, x, y, width, height,
      EscapeXml(fmt::format("{}, {}: {}", entry.name, chart.groups[group], FormatNumber(value))));
}

// Where standing bars are.
struct Standing {
  double left = 0, group_width = 0, bar_width = 0;
  std::vector<std::vector<std::string>> names;  // of groups, in lines
  bool fits = true;

  Standing(const BarChart& chart, const Scale& y) : left(PlotLeft(y)) {
    constexpr size_t kMostLines = 2;
    const auto number = static_cast<double>(chart.groups.size());
    group_width = (kPlotRight - left) / number;
    bar_width = std::min(kWidestBar, kShareOfGroup * group_width / static_cast<double>(chart.series.size()));
    fits = WidestValue(chart) <= bar_width;
    const int columns = std::max(1, static_cast<int>(group_width / kSvgCharacter));
    for (const std::string& name : chart.groups) {
      names.push_back(Wrapped(name, columns));
      fits &= names.back().size() <= kMostLines;
      // A word that is broken is no word.
      for (size_t i = 0; i + 1 < names.back().size(); ++i)
        fits &= name.find(names.back()[i] + " " + names.back()[i + 1]) != name.npos;
    }
  }
};

std::string StandingBars(const BarChart& chart, const std::vector<LegendEntry>& legend, const Scale& y,
                         const Standing& place, double top) {
  const double bottom = top + kPlotHeight, zero = y.At(0);
  std::string out = HorizontalGrid(y, place.left);
  for (size_t group = 0; group < chart.groups.size(); ++group) {
    const double middle = place.left + (static_cast<double>(group) + 0.5) * place.group_width;
    for (size_t line = 0; line < place.names[group].size(); ++line)
      out += TextAt(middle, bottom + 17 + 15 * static_cast<double>(line), "tick middle", place.names[group][line]);
    for (size_t i = 0; i < chart.series.size(); ++i) {
      const double value = ValueAt(chart, i, group);
      if (std::isnan(value)) continue;
      const double at = y.At(value),
                   left = middle + (static_cast<double>(i) - static_cast<double>(legend.size()) / 2) * place.bar_width;
      out +=
          Bar(chart, legend[i], group, value, left + 1, std::min(at, zero), place.bar_width - 2, std::abs(at - zero)) +
          TextAt(left + place.bar_width / 2, value < 0 ? at + 14 : at - 4, "value middle", ValueText(value));
    }
  }
  return out + Rule("axis", place.left, zero, kPlotRight, zero) +
         UprightText(14, top + kPlotHeight / 2, chart.unit, kPlotHeight);
}

// Bars below one another, each group under its name; `bottom` is where they end.
std::string LyingBars(const BarChart& chart, const std::vector<LegendEntry>& legend, const Range& values, double top,
                      double& bottom) {
  constexpr double kLeft = 8, kBar = 14, kPitch = 17, kGap = 10, kNameHeight = 17, kBesideValue = 5;
  constexpr int kNameColumns = 54;
  const double beside = WidestValue(chart) + 2 * kBesideValue;
  Scale x;
  x.low = values.low;
  x.high = values.high;
  x.start = kLeft + (values.low < 0 ? beside : 0);
  x.length = kSvgWidth - kLeft - beside - x.start;
  if (!(x.low < x.high)) x.high = x.low + 1;
  const double zero = x.At(0);
  std::string out, unit = chart.unit;
  double y = top - 6;
  if (!unit.empty()) {
    out += TextWithin(kLeft, y + 4, "label", unit, 54);
    y += kNameHeight + 3;
  }
  for (size_t group = 0; group < chart.groups.size(); ++group) {
    for (const std::string& line : Wrapped(chart.groups[group], kNameColumns)) {
      if (line.empty()) continue;
      out += TextAt(kLeft, y + 6, "legend", line);
      y += kNameHeight;
    }
    y -= 4;
    const double first = y;
    for (size_t i = 0; i < chart.series.size(); ++i) {
      const double value = ValueAt(chart, i, group);
      if (std::isnan(value)) continue;
      const double at = x.At(value);
      out += Bar(chart, legend[i], group, value, std::min(at, zero), y, std::abs(at - zero), kBar) +
             TextAt(value < 0 ? at - kBesideValue : at + kBesideValue, y + kBar - 3, value < 0 ? "value end" : "value",
                    ValueText(value));
      y += kPitch;
    }
    if (y == first) {
      out += TextAt(kLeft, y + kBar - 3, "tick", "–");
      y += kPitch;
    }
    out += Rule("axis", zero, first - 1, zero, y - kPitch + kBar + 1);
    y += kGap;
  }
  bottom = y - kGap;
  return out;
}

}  // namespace

std::string Svg(const BarChart& chart) {
  Range values;
  values.Include(0);
  bool any = false;
  for (size_t series = 0; series < chart.series.size(); ++series) {
    for (size_t group = 0; group < chart.groups.size(); ++group) {
      const double value = ValueAt(chart, series, group);
      if (std::isnan(value)) continue;
      values.Include(value);
      any = true;
    }
  }
  if (!any) return WithoutData(chart.title);
  const std::vector<LegendEntry> legend = Legend(chart);
  double top = 0, bottom = 0;
  const std::string header = TitleAndLegend(chart.title, legend, LegendMark::kBar, top);
  Range with_labels = values;  // those of negative values stand below their bars
  if (values.low < 0) with_labels.Include(values.low - 0.1 * (values.high - values.low));
  const Scale y = MakeScale({chart.unit, false, {}, true}, with_labels, top + kPlotHeight, -kPlotHeight, 5, false);
  const Standing standing(chart, y);
  if (!standing.fits) {
    const std::string bars = LyingBars(chart, legend, values, top, bottom);
    return OpenSvg(chart.title, bottom + 10) + header + bars + "</svg>\n";
  }
  size_t lines = 1;
  for (const std::vector<std::string>& name : standing.names) lines = std::max(lines, name.size());
  bottom = top + kPlotHeight + 13 + 15 * static_cast<double>(lines);
  return OpenSvg(chart.title, bottom) + header + StandingBars(chart, legend, y, standing, top) + "</svg>\n";
}

}  // namespace lshformer
