#include "report/table.h"

#include <fmt/core.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace lshformer {
namespace {

std::string Padded(const std::string& cell, int width, bool left) {
  const std::string spaces(static_cast<size_t>(std::max(0, width - DisplayWidth(cell))), ' ');
  return left ? cell + spaces : spaces + cell;
}

std::string WithoutTrailingSpaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

bool IsWords(const Table& table, size_t column) {
  return column == 0 || std::find(table.words.begin(), table.words.end(), column) != table.words.end();
}

// Lines that stand below a section heading are indented, so that the sections show without colour.
bool HasSections(const Table& table) {
  return std::any_of(table.lines.begin(), table.lines.end(), [](const Table::Line& line) { return line.section; });
}

}  // namespace

Table& Table::Section(std::string title) {
  lines.push_back({{std::move(title)}, true});
  return *this;
}

Table& Table::Row(std::vector<std::string> cells, int best) {
  if (cells.size() != columns.size()) {
    Fail("a table of {} columns got a line of {} cells", columns.size(), cells.size());
  }
  lines.push_back({std::move(cells), false, best});
  return *this;
}

std::string PlainText(const Table& table) {
  const std::string indent = HasSections(table) ? "  " : "";
  std::vector<int> widths;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    int width = DisplayWidth(table.columns[column]);
    for (const Table::Line& line : table.lines) {
      if (!line.section) {
        width = std::max(width, DisplayWidth(line.cells[column]) + (column == 0 ? static_cast<int>(indent.size()) : 0));
      }
    }
    widths.push_back(width);
  }
  const auto line_of = [&](const std::vector<std::string>& cells, const std::string& prefix) {
    std::string line;
    for (size_t column = 0; column < cells.size(); ++column) {
      line += column == 0 ? Padded(prefix + cells[0], widths[0], true)
                          : "  " + Padded(cells[column], widths[column], IsWords(table, column));
    }
    return WithoutTrailingSpaces(line);
  };
  std::string out = line_of(table.columns, "");
  int total = -2;
  for (const int width : widths) {
    total += width + 2;
  }
  out += std::string(static_cast<size_t>(std::max(total, 0)), '-') + '\n';
  for (const Table::Line& line : table.lines) {
    out += line.section ? WithoutTrailingSpaces(line.cells[0]) : line_of(line.cells, indent);
  }
  return out;
}

// Every section is a group of lines of its own: what a page sorts.
std::string Html(const Table& table) {
  const auto words = [&](size_t column) { return column > 0 && IsWords(table, column) ? "words" : ""; };
  const auto css = [](const std::string& name) { return name.empty() ? "" : " class=\"" + name + "\""; };
  std::string out = "<table>\n<thead><tr>";
  for (size_t column = 0; column < table.columns.size(); ++column) {
    out += fmt::format("<th scope=\"col\"{}>{}</th>", css(words(column)), EscapeXml(table.columns[column]));
  }
  out += "</tr></thead>\n<tbody>\n";
  bool begun = false;
  for (const Table::Line& line : table.lines) {
    if (line.section) {
      if (begun) out += "</tbody>\n<tbody>\n";
      out += fmt::format("<tr class=\"section\"><th scope=\"rowgroup\" colspan=\"{}\">{}</th></tr>\n",
                         table.columns.size(), EscapeXml(line.cells[0]));
      begun = true;
      continue;
    }
    begun = true;
    out += "<tr><th scope=\"row\">" + EscapeXml(line.cells[0]) + "</th>";
    for (size_t column = 1; column < line.cells.size(); ++column) {
      std::string name = words(column);
      if (static_cast<int>(column) == line.best) name += name.empty() ? "best" : " best";
      out += fmt::format("<td{}>{}</td>", css(name), EscapeXml(line.cells[column]));
    }
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n";
}

std::string Markdown(const Table& table) {
  const auto escaped = [](const std::string& cell) {
    std::string out;
    for (const char c : cell) {
      if (c == '\n' || c == '\r') {
        out += ' ';
      } else if (c == '<' || c == '&') {
        out += c == '<' ? "&lt;" : "&amp;";
      } else {
        if (std::string_view("\\|*`[").find(c) != std::string_view::npos) out += '\\';
        out += c;
      }
    }
    return out;
  };
  const auto line_of = [](const std::vector<std::string>& cells) {
    std::string line = "|";
    for (const std::string& cell : cells) line += cell.empty() ? " |" : " " + cell + " |";
    return line + "\n";
  };
  const auto bold = [](const std::string& text) { return text.empty() ? text : "**" + text + "**"; };
  std::vector<std::string> cells, rules;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    cells.push_back(escaped(table.columns[column]));
    rules.push_back(IsWords(table, column) ? "---" : "---:");
  }
  std::string out = line_of(cells) + line_of(rules);
  for (const Table::Line& line : table.lines) {
    cells.assign(table.columns.size(), "");
    for (size_t column = 0; column < line.cells.size(); ++column) {
      cells[column] = escaped(line.cells[column]);
      if (line.section || static_cast<int>(column) == line.best) cells[column] = bold(cells[column]);
    }
    out += line_of(cells);
  }
  return out;
}

std::string FormatNumber(double value, int digits) {
  if (std::isnan(value)) {
    return "–";
  }
  if (std::isinf(value)) {
    return value > 0 ? "∞" : "−∞";
  }
  const double size = std::abs(value);
  if (size < 1e15 && value == std::round(value)) {
    return fmt::format("{:.0f}", value == 0 ? 0.0 : value);
  }
  if (size < 1e-4 || size >= 1e15) {
    return fmt::format("{:.{}e}", value, std::max(digits - 1, 0));
  }
  const int whole = static_cast<int>(std::floor(std::log10(size))) + 1;  // digits before the point; ≤ 0 below 0.1
  return fmt::format("{:.{}f}", value, std::max(digits - whole, 0));
}

std::string EscapeXml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    UChar32 c = 0;
    U8_NEXT(bytes, i, text.size(), c);
    const bool allowed = c == '\t' || c == '\n' || c == '\r' || (c >= 0x20 && c != 0xFFFE && c != 0xFFFF);
    switch (allowed ? c : -1) {
      case -1:
        out += "\uFFFD";
        break;
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out.append(text.substr(begin, i - begin));
    }
  }
  return out;
}

int DisplayWidth(std::string_view text) {
  int width = 0;
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t i = 0; i < text.size();) {
    UChar32 c = 0;
    U8_NEXT(bytes, i, text.size(), c);
    if (c < 0) {
      c = 0xFFFD;
    }
    const int type = u_charType(c);
    if (type == U_NON_SPACING_MARK || type == U_ENCLOSING_MARK || type == U_FORMAT_CHAR) {
      continue;
    }
    const int east_asian = u_getIntPropertyValue(c, UCHAR_EAST_ASIAN_WIDTH);
    width += east_asian == U_EA_WIDE || east_asian == U_EA_FULLWIDTH ? 2 : 1;
  }
  return width;
}

}  // namespace lshformer
