#include "report/plot_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "report/table.h"

namespace lshformer {

void Range::Include(double value) {
  low = std::min(low, value);
  high = std::max(high, value);
}

bool Drawable(double value, const Axis& axis) { return std::isfinite(value) && (!axis.log || value > 0); }

double Scale::At(double value) const {
  const double fraction =
      log ? (std::log(value) - std::log(low)) / (std::log(high) - std::log(low)) : Between(value, low, high);
  return start + std::clamp(fraction, 0.0, 1.0) * length;
}

Scale MakeScale(const Axis& axis, Range range, double start, double length, int count, bool tight) {
  Scale scale;
  scale.log = axis.log;
  scale.start = start;
  scale.length = length;
  if (axis.from_zero && !axis.log) range.Include(0);
  if (axis.log) {
    constexpr double kSmallest = 1e-290, kLargest = 1e290;  // beyond them the margins vanish or overflow
    range.low = std::clamp(range.low, kSmallest, kLargest);
    range.high = std::clamp(range.high, kSmallest, kLargest);
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
  if (!axis.ticks.empty()) scale.ticks = axis.ticks;
  std::erase_if(scale.ticks,
                [&](double tick) { return tick < scale.low * (1 - 1e-9) - 1e-300 || tick > scale.high * (1 + 1e-9); });
  return scale;
}

double PlotLeft(const Scale& y) {
  constexpr double kNameRoom = 24, kGap = 7;
  int longest = 2;
  for (const double tick : y.ticks) longest = std::max(longest, DisplayWidth(TickLabel(tick)));
  return kNameRoom + kSvgCharacter * longest + kGap;
}

std::string HorizontalGrid(const Scale& y, double left) {
  std::string out;
  for (const double tick : y.ticks) {
    const double at = y.At(tick);
    out += Rule("grid", left, at, kPlotRight, at) + TextAt(left - 7, at + 4, "tick end", TickLabel(tick));
  }
  return out;
}

// Ticks whose labels would touch keep their mark and lose their label.
std::string HorizontalAxis(const Scale& x, double left, double bottom) {
  std::string out = Rule("axis", left, bottom, kPlotRight, bottom);
  double free_from = -1e9;
  for (const double tick : x.ticks) {
    const double at = x.At(tick);
    const std::string label = TickLabel(tick);
    const double half = kSvgCharacter * DisplayWidth(label) / 2;
    out += Rule("axis", at, bottom, at, bottom + 4);
    const double middle = std::min(at, kSvgWidth - half - 1);
    if (middle - half <= free_from) continue;
    out += TextAt(middle, bottom + 17, "tick middle", label);
    free_from = middle + half + 4;
  }
  return out;
}

const char* Dash(size_t style) {
  constexpr int kKinds = 4;
  constexpr const char* kDashes[kKinds] = {"none", "7 3", "2 3", "9 3 2 3"};
  return kDashes[KindBesideColor(style, kKinds)];
}

// None is a whole line: an axis is.
const char* LevelDash(size_t level) { return Dash(1 + level % 3); }

std::string TitleAndLegend(const std::string& title, const std::vector<LegendEntry>& entries, LegendMark mark,
                           double& bottom) {
  std::vector<std::string> names;
  for (const LegendEntry& entry : entries) names.push_back(entry.name);
  double last = 0;
  std::string out = TitleText(title, last);
  const std::vector<LegendPlace> places = PlaceLegend(names, last + 20, last);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (names[i].empty()) continue;
    const auto& [x, y, text] = places[i];
    const size_t style = entries[i].style, color = style % kSeriesColors;
    const char* published = entries[i].published ? "p " : "";
    if (entries[i].level) {
      out += fmt::format(
          "<line class=\"level\" stroke-dasharray=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>",
          LevelDash(style), x, y - 4, x + 24, y - 4);
    } else if (mark == LegendMark::kBar) {
      out += fmt::format("<rect class=\"b {}s{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"10\" rx=\"2\"/>\n",
                         published, color, x + 5, y - 9);
    } else {
      const char* dash = mark == LegendMark::kLine ? Dash(style) : "none";
      out += fmt::format(
                 "<line class=\"l {}s{}\" stroke-dasharray=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" "
                 "y2=\"{:.1f}\"/>",
                 published, color, dash, x, y - 4, x + 24, y - 4) +
             Marker(style, entries[i].published, x + 12, y - 4, "");
    }
    out += LegendText(places[i]);
  }
  bottom = last + 20;
  return out;
}

}  // namespace lshformer
