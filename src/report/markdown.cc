#include "report/markdown.h"

#include <fmt/format.h>

#include <string_view>

#include "report/svg_parts.h"

namespace lshformer {
namespace {

constexpr int kColumns = 120;

// A line that begins as a heading, a quotation or an item of a list would be one: a backslash keeps it text.
std::string AsText(std::string line) {
  const size_t digits = line.find_first_not_of("0123456789");
  if (digits == line.npos) return line;
  const bool numbered = digits > 0 && (line[digits] == '.' || line[digits] == ')');
  const bool marked = digits == 0 && std::string_view("#>+-*=|~`").find(line[0]) != std::string_view::npos;
  if (numbered || marked) line.insert(digits, 1, '\\');
  return line;
}

std::string Lines(const std::string& text, int columns, std::string_view indent) {
  std::string out;
  for (const std::string& line : Wrapped(text, columns - 1)) {  // one for the backslash
    out += out.empty() ? line : fmt::format("\n{}{}", indent, AsText(line));
  }
  return out;
}

}  // namespace

std::string MarkdownParagraph(const std::string& text) { return Lines(text, kColumns, "") + "\n\n"; }

std::string MarkdownItem(const std::string& text) { return "- " + Lines(text, kColumns - 2, "  ") + "\n"; }

}  // namespace lshformer
