// Where the texts of a drawing stand: none leaves it, and none stands on another.
#pragma once
#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "report/table.h"

namespace lshformer {

struct SvgText {
  std::string css, text;
  double left = 0, right = 0, top = 0, bottom = 0;
};

// Boxes by the mean width of a letter in the classes' font sizes; text turned by 90° stands upright.
inline std::vector<SvgText> SvgTexts(const std::string& svg) {
  static const std::map<std::string, double> widths{
      {"title", 9.2}, {"value", 6.6}, {"cell", 6.1}, {"axisname", 6.6}, {"small", 6.1}};
  const std::regex element(
      "<text class=\"([^\"]*)\" (?:x=\"([-0-9.]+)\" y=\"([-0-9.]+)\"|transform=\"translate\\(([-0-9.]+) ([-0-9.]+)\\) "
      "rotate\\(-90\\)\")>(?:<title>[^<]*</title>)?([^<]*)</text>");
  std::vector<SvgText> texts;
  for (std::sregex_iterator match(svg.begin(), svg.end(), element), end; match != end; ++match) {
    const std::string css = (*match)[1], name = css.substr(0, css.find(' '));
    std::string text = std::regex_replace((*match)[6].str(), std::regex("&[a-z0-9#]+;"), "&");
    const double letter = widths.contains(name) ? widths.at(name) : 6.9, width = letter * DisplayWidth(text);
    const bool upright = (*match)[4].matched, middle = css.find(" middle") != css.npos;
    const double x = std::stod((*match)[upright ? 4 : 2]), y = std::stod((*match)[upright ? 5 : 3]);
    const double before = middle ? width / 2 : css.find(" end") != css.npos ? width : 0;
    if (upright) {
      texts.push_back({css, text, x - 9, x + 2, y - width + before, y + before});
    } else {
      texts.push_back({css, text, x - before, x - before + width, y - 9, y + 2});
    }
  }
  return texts;
}

inline double SvgHeight(const std::string& svg) {
  const std::string start = "viewBox=\"0 0 400 ";
  return std::stod(svg.substr(svg.find(start) + start.size()));
}

// "" if all is well, else the texts at fault.
inline std::string TextProblem(const std::string& svg) {
  const std::vector<SvgText> texts = SvgTexts(svg);
  if (texts.empty()) return "no texts";
  for (size_t i = 0; i < texts.size(); ++i) {
    const SvgText& a = texts[i];
    if (a.left < 0 || a.right > 400 || a.top < 0 || a.bottom > SvgHeight(svg)) return "outside: " + a.text;
    for (size_t j = 0; j < i; ++j) {
      const SvgText& b = texts[j];
      if (std::min(a.right, b.right) > std::max(a.left, b.left) &&
          std::min(a.bottom, b.bottom) > std::max(a.top, b.top))
        return "\"" + a.text + "\" on \"" + b.text + "\"";
    }
  }
  return "";
}

}  // namespace lshformer
