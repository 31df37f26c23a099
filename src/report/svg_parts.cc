#include "report/svg_parts.h"

#include <fmt/core.h>

#include "report/table.h"

namespace lshformer {
namespace {

constexpr double kLegendLeft = 8, kLegendIndent = 30, kLegendHeight = 17;

}  // namespace

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
    const bool at_space = space != std::string::npos && space > fits / 2;
    lines.push_back(rest.substr(0, at_space ? space : fits));
    rest.erase(0, at_space ? space + 1 : fits);
  }
  lines.push_back(rest);
  return lines;
}

std::vector<LegendPlace> PlaceLegend(const std::vector<std::string>& names, double top, double& last) {
  constexpr int kColumns = 64;  // of a line
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

std::string OpenSvg(const std::string& title, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "aria-label=\"{}\">\n",
      kSvgWidth, height, EscapeXml(title));
}

std::string WithoutData(const std::string& title, const std::string& header, double top) {
  return OpenSvg(title, top + 60) + header + TextAt(kSvgWidth / 2, top + 30, "tick middle", "no data") + "</svg>\n";
}

}  // namespace lshformer
