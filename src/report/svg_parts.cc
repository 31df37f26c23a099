#include "report/svg_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "report/table.h"

namespace lshformer {
namespace {

constexpr double kLegendLeft = 8, kLegendIndent = 30, kLegendHeight = 17;

}  // namespace

// The difference of the greatest numbers overflows, half of the smallest vanishes.
double Between(double value, double low, double high) {
  const double span = high - low;
  return std::isfinite(span) ? (value - low) / span : (value / 2 - low / 2) / (high / 2 - low / 2);
}

std::string Shortened(const std::string& name, size_t code_points) {
  size_t count = 0, i = 0;
  for (; i < name.size(); ++i) {
    if ((name[i] & 0xC0) != 0x80 && count++ == code_points - 1) {
      break;
    }
  }
  return i < name.size() && DisplayWidth(name) > static_cast<int>(code_points) ? name.substr(0, i) + "…" : name;
}

std::string TextAt(double x, double y, const char* css, const std::string& text) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", css, x, y, EscapeXml(text));
}

std::string TitleText(const std::string& title, double& bottom) {
  constexpr int kColumns = 41;  // of 14.5-unit letters, half bold
  constexpr double kTop = 20, kLineHeight = 18;
  std::string out;
  bottom = kTop - kLineHeight;
  for (const std::string& line : Wrapped(title, kColumns)) out += TextAt(8, bottom += kLineHeight, "title", line);
  return out;
}

std::string TextWithin(double x, double y, const char* css, const std::string& text, size_t code_points) {
  const std::string shown = Shortened(text, code_points);
  if (shown == text) return TextAt(x, y, css, text);
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\"><title>{}</title>{}</text>\n", css, x, y,
                     EscapeXml(text), EscapeXml(shown));
}

std::string UprightText(double x, double y, const std::string& text, double length) {
  if (text.empty()) return "";
  const std::string shown = Shortened(text, static_cast<size_t>(std::max(3.0, length / kSvgCharacter)));
  return fmt::format("<text class=\"label middle\" transform=\"translate({:.1f} {:.1f}) rotate(-90)\">{}{}</text>\n", x,
                     y, shown == text ? "" : "<title>" + EscapeXml(text) + "</title>", EscapeXml(shown));
}

std::string Marker(size_t style, bool published, double x, double y, const std::string& tip) {
  const size_t color = style % kSeriesColors;
  std::string shape;
  switch (KindBesideColor(style, 4)) {
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
  return fmt::format("<path class=\"m {}s{}\" d=\"{}", published ? "p " : "", color, shape) +
         (tip.empty() ? "\"/>\n" : "\"><title>" + EscapeXml(tip) + "</title></path>\n");
}

std::string Rule(const char* css, double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", css, x1, y1, x2,
                     y2);
}

std::vector<std::string> Wrapped(const std::string& name, int width) {
  std::vector<std::string> lines;
  std::string rest = name;
  while (DisplayWidth(rest) > width) {
    size_t fits = 0;
    for (size_t end = 1; end <= rest.size(); ++end) {
      if (end < rest.size() && (rest[end] & 0xC0) == 0x80) continue;  // inside a character
      if (fits > 0 && DisplayWidth(std::string_view(rest).substr(0, end)) > width) break;
      fits = end;
    }
    const size_t space = rest.rfind(' ', fits);
    const bool at_space = space != std::string::npos && space > fits / 3;
    lines.push_back(rest.substr(0, at_space ? space : fits));
    rest.erase(0, at_space ? space + 1 : fits);
  }
  lines.push_back(rest);
  return lines;
}

std::vector<LegendPlace> PlaceLegend(const std::vector<std::string>& names, double top, double& last) {
  constexpr int kColumns = 52;  // of a line
  constexpr double kGap = 12;
  std::vector<LegendPlace> places(names.size());
  double x = kLegendLeft, y = top;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    const std::vector<std::string> lines = Wrapped(names[i], kColumns);
    const double width = lines.size() > 1 ? kSvgWidth : kLegendIndent + kSvgCharacter * DisplayWidth(lines[0]) + kGap;
    if (x + width > kSvgWidth && x > kLegendLeft) {
      x = kLegendLeft;
      y += kLegendHeight;
    }
    places[i] = {x, y, lines};
    y += kLegendHeight * static_cast<double>(lines.size() - 1);
    x += width;
  }
  last = y;
  return places;
}

std::string LegendText(const LegendPlace& place) {
  std::string out;
  double y = place.y;
  for (const std::string& line : place.lines) {
    out += TextAt(place.x + kLegendIndent, y, "legend", line);
    y += kLegendHeight;
  }
  return out;
}

// The size is that of a file shown by itself; on a page the style says another.
std::string OpenSvg(const std::string& title, double height) {
  constexpr double kShown = 1.5;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" "
      "height=\"{:.0f}\" role=\"img\" aria-label=\"{}\">\n",
      kSvgWidth, height, kShown * kSvgWidth, kShown * height, EscapeXml(title));
}

std::string WithoutData(const std::string& title) {
  double bottom = 0;
  const std::string header = TitleText(title, bottom);
  return OpenSvg(title, bottom + 70) + header + TextAt(kSvgWidth / 2, bottom + 38, "tick middle", "no data") +
         "</svg>\n";
}

}  // namespace lshformer
