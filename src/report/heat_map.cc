#include "report/heat_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "report/chart.h"
#include "report/svg_parts.h"
#include "report/table.h"

namespace lshformer {
namespace {

constexpr int kShades = 9;              // .h0 … of HeatMapStyle()
constexpr int kCategoryColors = 16;     // .q0 …
constexpr double kCellCharacter = 6.4;  // mean width of the text in a cell, 11 units high

std::string At(const std::vector<std::vector<std::string>>& texts, size_t row, size_t column) {
  return row < texts.size() && column < texts[row].size() ? texts[row][column] : "";
}

double ValueAt(const HeatMap& map, size_t row, size_t column) {
  const bool there = row < map.values.size() && column < map.values[row].size();
  const double value = there ? map.values[row][column] : std::nan("");
  if (map.categories.empty()) return value;
  return value >= 0 && value < static_cast<double>(map.categories.size()) ? std::floor(value) : std::nan("");
}

// A to Z, then a to z, then numbers.
std::string CategoryLetter(size_t category) {
  constexpr size_t kAlphabet = 26;
  if (category < kAlphabet) return std::string(1, static_cast<char>('A' + category));
  if (category < 2 * kAlphabet) return std::string(1, static_cast<char>('a' + category - kAlphabet));
  return std::to_string(category + 1);
}

// The least and the greatest value that have a shade, and what else there is.
struct Shading {
  bool log = false, any = false, none = false, zero = false;
  double low = std::numeric_limits<double>::infinity(), high = -low;

  explicit Shading(const HeatMap& map) : log(map.log) {
    for (size_t row = 0; row < map.rows.size(); ++row) {
      for (size_t column = 0; column < map.columns.size(); ++column) {
        const double value = ValueAt(map, row, column);
        if (!std::isfinite(value)) {
          none = true;
        } else if (log && value <= 0) {
          zero = true;
        } else {
          any = true;
          low = std::min(low, value);
          high = std::max(high, value);
        }
      }
    }
  }

  // 0 to 1, from low to high.
  double Share(double value) const {
    if (!(low < high)) return 0.5;
    if (log) return (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
    return Between(value, low, high);
  }

  std::string Css(double value) const {
    if (!std::isfinite(value) || (log && value <= 0)) return "hn";
    return fmt::format("h{}", std::clamp(static_cast<int>(Share(value) * kShades), 0, kShades - 1));
  }
};

// Where things stand.
struct Layout {
  double left = 0, top = 0, cell_width = 0, cell_height = 0;
  double right = 0, bottom = 0;  // of the cells

  Layout(const HeatMap& map, double plot_top) : top(plot_top) {
    constexpr double kMargin = 8, kWidest = 84, kHeight = 25, kTallest = 28 * kHeight, kLowest = 3;
    const auto rows = static_cast<double>(map.rows.size()), columns = static_cast<double>(map.columns.size());
    int longest = 0;
    for (const std::string& row : map.rows) longest = std::max(longest, DisplayWidth(Shortened(row, 24)));
    left = 32 + kSvgCharacter * longest;
    cell_width = std::min(kWidest, (kSvgWidth - kMargin - left) / columns);
    cell_height = std::clamp(kTallest / rows, kLowest, kHeight);
    right = left + columns * cell_width;
    bottom = top + rows * cell_height;
  }
};

std::string CellText(const HeatMap& map, size_t row, size_t column) {
  const double value = ValueAt(map, row, column);
  if (!map.categories.empty() && std::isfinite(value)) return CategoryLetter(static_cast<size_t>(value));
  const std::string text = map.cells.empty() ? FormatNumber(value, 3) : At(map.cells, row, column);
  return text.empty() && !std::isfinite(value) ? "–" : text;
}

// Text in the cells; none at all where some does not fit.
bool TextFits(const HeatMap& map, const Layout& layout) {
  constexpr double kTextHeight = 13, kMargin = 2;
  if (layout.cell_height < kTextHeight) return false;
  int longest = 1;
  for (size_t row = 0; row < map.rows.size(); ++row)
    for (size_t column = 0; column < map.columns.size(); ++column)
      longest = std::max(longest, DisplayWidth(CellText(map, row, column)));
  return kCellCharacter * longest + kMargin <= layout.cell_width;
}

std::string Cell(const std::string& css, const Layout& layout, size_t row, size_t column, const std::string& tip,
                 const std::string& text) {
  const double x = layout.left + static_cast<double>(column) * layout.cell_width;
  const double y = layout.top + static_cast<double>(row) * layout.cell_height;
  std::string out = fmt::format(
      "<g class=\"{}\"><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>", css,
      EscapeXml(tip), x, y, layout.cell_width, layout.cell_height);
  if (!text.empty()) out += TextAt(x + layout.cell_width / 2, y + layout.cell_height / 2 + 4, "cell middle", text);
  return out + "</g>\n";
}

std::string CategoryCss(double category) { return fmt::format("q{}", static_cast<size_t>(category) % kCategoryColors); }

std::string Cells(const HeatMap& map, const Layout& layout, const Shading& shading) {
  const bool with_text = TextFits(map, layout);
  std::string out;
  for (size_t row = 0; row < map.rows.size(); ++row) {
    for (size_t column = 0; column < map.columns.size(); ++column) {
      const double value = ValueAt(map, row, column);
      const bool finite = std::isfinite(value), category = finite && !map.categories.empty();
      std::string tip = At(map.tips, row, column);
      if (tip.empty()) tip = category ? map.categories[static_cast<size_t>(value)] : FormatNumber(value);
      tip = fmt::format("{} {}, {} {}: {}", map.row_label, map.rows[row], map.column_label, map.columns[column], tip);
      out += Cell(category ? CategoryCss(value) : shading.Css(value), layout, row, column, tip,
                  with_text ? CellText(map, row, column) : "");
    }
  }
  return out;
}

// Every how many names there is one, so that they do not touch: `size` is that of the greatest, `cell` of a cell.
size_t Stride(double size, double cell) { return static_cast<size_t>(std::max(1.0, std::ceil(size / cell))); }

// Names of rows and columns, as many as have room, and what they are names of.
std::string Names(const HeatMap& map, const Layout& layout) {
  constexpr double kLineHeight = 12, kGap = 4;
  constexpr size_t kLongest = 24;
  std::string out;
  for (size_t row = 0; row < map.rows.size(); row += Stride(kLineHeight, layout.cell_height)) {
    const double y = layout.top + (static_cast<double>(row) + 0.5) * layout.cell_height;
    out += TextWithin(layout.left - 6, y + 4, "tick end", map.rows[row], kLongest);
  }
  double widest = 0;
  for (const std::string& name : map.columns)
    widest = std::max(widest, kSvgCharacter * DisplayWidth(Shortened(name, kLongest)));
  for (size_t column = 0; column < map.columns.size(); column += Stride(widest + kGap, layout.cell_width)) {
    const double x = layout.left + (static_cast<double>(column) + 0.5) * layout.cell_width;
    out += TextWithin(std::min(x, kSvgWidth - widest / 2), layout.bottom + 15, "tick middle", map.columns[column],
                      kLongest);
  }
  constexpr size_t kLongestLabel = 50;
  const double width =
      std::max(layout.right - layout.left, kSvgCharacter * DisplayWidth(Shortened(map.column_label, kLongestLabel)));
  out += TextWithin(std::min(layout.left + width / 2, std::max(kSvgWidth - width / 2, kSvgWidth / 2)),
                    layout.bottom + 32, "label middle", map.column_label, kLongestLabel);
  constexpr double kRoomBelow = 34;
  const double height = layout.bottom - layout.top, room = height + kRoomBelow;
  const double length = std::min(room, kSvgCharacter * DisplayWidth(map.row_label));
  return out + UprightText(14, layout.top + std::max(height, length) / 2, map.row_label, room);
}

// Cells with a value of at most the limit.
bool Framed(const HeatMap& map, size_t row, size_t column) {
  return row < map.rows.size() && column < map.columns.size() && ValueAt(map, row, column) <= map.limit;
}

// Lines between framed cells and those that are not; beyond the sides are none (and −1 is beyond them, too).
std::string Frame(const HeatMap& map, const Layout& layout) {
  if (map.limit_name.empty()) return "";
  std::string path;
  for (size_t row = 0; row < map.rows.size(); ++row) {
    for (size_t column = 0; column < map.columns.size(); ++column) {
      if (!Framed(map, row, column)) continue;
      const double x = layout.left + static_cast<double>(column) * layout.cell_width;
      const double y = layout.top + static_cast<double>(row) * layout.cell_height;
      const double right = x + layout.cell_width, bottom = y + layout.cell_height;
      if (!Framed(map, row - 1, column)) path += fmt::format("M{:.1f} {:.1f}H{:.1f}", x, y, right);
      if (!Framed(map, row + 1, column)) path += fmt::format("M{:.1f} {:.1f}H{:.1f}", x, bottom, right);
      if (!Framed(map, row, column - 1)) path += fmt::format("M{:.1f} {:.1f}V{:.1f}", x, y, bottom);
      if (!Framed(map, row, column + 1)) path += fmt::format("M{:.1f} {:.1f}V{:.1f}", right, y, bottom);
    }
  }
  return path.empty() ? "" : fmt::format("<path class=\"frame\" d=\"{}\"/>\n", path);
}

// What the frame means, above the cells.
std::string FrameLegend(const HeatMap& map, double& last) {
  const std::string text = fmt::format("at most {}: {}", FormatNumber(map.limit), map.limit_name);
  const LegendPlace place = PlaceLegend({text}, last + 20, last).front();
  return fmt::format("<rect class=\"frame\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"18\" height=\"12\"/>\n", place.x + 2,
                     place.y - 10) +
         LegendText(place);
}

std::string Swatch(const std::string& css, double x, double y, const std::string& tip, const std::string& text) {
  constexpr double kWidth = 20, kHeight = 14;
  std::string out = fmt::format("<g class=\"{}\">", css);
  if (!tip.empty()) out += "<title>" + EscapeXml(tip) + "</title>";
  out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>", x, y, kWidth, kHeight);
  if (!text.empty()) out += TextAt(x + kWidth / 2, y + 11, "cell middle", text);
  return out + "</g>\n";
}

// Names and how many cells each has.
std::string CategoryLegend(const HeatMap& map, double& last) {
  std::vector<size_t> counts(map.categories.size());
  for (size_t row = 0; row < map.rows.size(); ++row)
    for (size_t column = 0; column < map.columns.size(); ++column)
      if (const double value = ValueAt(map, row, column); std::isfinite(value)) ++counts[static_cast<size_t>(value)];
  std::vector<std::string> names;
  for (size_t i = 0; i < counts.size(); ++i) names.push_back(fmt::format("{} ({})", map.categories[i], counts[i]));
  const std::vector<LegendPlace> places = PlaceLegend(names, last + 22, last);
  std::string out;
  for (size_t i = 0; i < places.size(); ++i)
    out += Swatch(CategoryCss(static_cast<double>(i)), places[i].x, places[i].y - 11, "", CategoryLetter(i)) +
           LegendText(places[i]);
  return out;
}

// The steps of the scale with its ends and what is between them, and what has no shade.
std::string ShadeLegend(const Shading& shading, double left, double y) {
  constexpr double kStep = 24, kHeight = 12, kGap = 6, kLeast = 8;
  const double others = (shading.zero ? 58 : 0) + (shading.none ? 78 : 0);
  left = std::max(kLeast, std::min(left, kSvgWidth - kShades * kStep - others - kLeast));
  std::string out;
  double x = left;
  const auto step = [&](const std::string& css) {
    out += fmt::format("<g class=\"{}\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/></g>\n",
                       css, x, y, kStep, kHeight);
    x += kStep;
  };
  const auto half = [](const std::string& text) { return kSvgCharacter * DisplayWidth(text) / 2; };
  if (!(shading.low < shading.high)) {
    step(shading.Css(shading.low));
    out += TextAt(left, y + kHeight + 15, "tick", FormatNumber(shading.low, 3));
  } else {
    for (int shade = 0; shade < kShades; ++shade) step(fmt::format("h{}", shade));
    const std::string low = FormatNumber(shading.low, 3), high = FormatNumber(shading.high, 3);
    out += TextAt(left, y + kHeight + 15, "tick", low) + TextAt(x, y + kHeight + 15, "tick end", high);
    double free_from = left + 2 * half(low) + kGap;
    const double free_to = x - 2 * half(high) - kGap;
    for (const double tick :
         shading.log ? LogTicks(shading.low, shading.high, 5) : NiceTicks(shading.low, shading.high, 5)) {
      if (!(tick > shading.low && tick < shading.high)) continue;
      const double at = left + shading.Share(tick) * kShades * kStep;
      const std::string label = TickLabel(tick);
      out += Rule("axis", at, y + kHeight, at, y + kHeight + 4);
      if (at - half(label) < free_from || at + half(label) > free_to) continue;
      out += TextAt(at, y + kHeight + 15, "tick middle", label);
      free_from = at + half(label) + kGap;
    }
  }
  x = std::max(x, left + 2 * half(FormatNumber(shading.low, 3))) + 16;
  for (const auto& [there, mark, name] : {std::tuple(shading.zero, "0", "0"), {shading.none, "–", "none"}}) {
    if (!there) continue;
    out += Swatch("hn", x, y - 1, "", mark) + TextAt(x + 26, y + 10, "legend", name);
    x += 34 + 2 * half(name) + 10;
  }
  return out;
}

}  // namespace

std::string Svg(const HeatMap& map) {
  const Shading shading(map);
  if (!shading.any && !shading.zero) return WithoutData(map.title);
  double last = 0;
  std::string header = TitleText(map.title, last);
  if (!map.categories.empty()) header += CategoryLegend(map, last);
  if (!map.limit_name.empty()) header += FrameLegend(map, last);
  const Layout layout(map, last + 16);
  const double bottom = layout.bottom + 40;
  const bool scale = map.categories.empty() && shading.any;
  return OpenSvg(map.title, bottom + (scale ? 40 : 0)) + header + Cells(map, layout, shading) + Frame(map, layout) +
         Names(map, layout) + (scale ? ShadeLegend(shading, layout.left, bottom + 6) : "") + "</svg>\n";
}

}  // namespace lshformer
