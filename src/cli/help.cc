#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

namespace lshformer::cli {
namespace {

constexpr size_t kColumn = 34, kWidth = 110;  // where descriptions begin, and where lines end

// `left` in its column, `right` beside it, broken at spaces. Widths count characters, not bytes.
std::string TwoColumns(const std::string& left, const std::string& right) {
  const auto width = [](const std::string& text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  };
  std::string out = "  " + left;
  size_t column = 2 + width(left);
  if (column + 1 > kColumn) {
    out += "\n";
    column = 0;
  }
  out.append(kColumn - column, ' ');
  column = kColumn;
  std::istringstream words(right);
  for (std::string word; words >> word; column += width(word)) {
    if (column + 1 + width(word) > kWidth) {
      out += "\n" + std::string(kColumn, ' ');
      column = kColumn;
    } else if (column > kColumn) {
      out += " ";
      ++column;
    }
    out += word;
  }
  return out + "\n";
}

// CLI11 joins a type and its checks with colons: "TEXT:zero|mean|none", "INT:1 to 62".
struct Kind {
  std::string label;  // "N", "X", "TEXT", "zero|mean|none"
  std::string range;  // "1 to 62"
};

Kind KindOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t colon = type.find(':');
  const std::string base = type.substr(0, colon), check = colon == std::string::npos ? "" : type.substr(colon + 1);
  if (check.find('|') != std::string::npos) return {check, ""};
  if (base == "INT" || base == "UINT") return {"N", check};
  if (base == "FLOAT") return {"X", check};
  if (base == "BOOLEAN") return {"true|false", check};
  return {base, check};
}

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  const bool boolean = option->get_type_size() == 0 || option->get_expected_max() == 0;
  const Kind kind = boolean ? Kind{} : KindOf(*option);
  std::string left = is_positional ? option->get_name(true, false) : option->get_name(false, true);
  if (!is_positional && !kind.label.empty()) left += " " + kind.label;
  if (option->get_items_expected_max() > 1) left += " …";
  std::vector<std::string> notes;
  if (option->get_required()) notes.push_back("required");
  if (!kind.range.empty()) notes.push_back(kind.range);
  std::string standard = option->get_default_str();
  if (standard.starts_with('[') && standard.ends_with(']'))
    standard = standard.substr(1, standard.size() - 2);  // a list
  if (!boolean && !standard.empty()) notes.push_back("default " + standard);
  if (boolean && standard == "true") notes.push_back("default true");
  const std::string right = option->get_description();
  return TwoColumns(left, notes.empty() ? right : fmt::format("{} ({})", right, fmt::join(notes, "; ")));
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  std::string help = CLI::Formatter::make_help(app, name, mode);
  for (size_t at; (at = help.find("\n\n\n")) != std::string::npos;) help.erase(at, 1);
  return help;
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  const std::string description = command->get_description();
  return TwoColumns(command->get_name(), description.substr(0, description.find('\n')));
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string usage = "Usage: " + name;
  if (!app->get_subcommands(nullptr).empty()) {
    usage += app->get_require_subcommand_min() > 0 ? " COMMAND" : " [COMMAND]";
  } else {
    usage += " [FLAGS.json]";
  }
  for (const CLI::Option* option : app->get_options([](const CLI::Option* o) { return o->get_positional(); })) {
    const std::string word = option->get_name(true, false) + (option->get_items_expected_max() > 1 ? "…" : "");
    usage += option->get_required() ? " " + word : " [" + word + "]";
  }
  return usage + " [--flag value …]\n";
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  if (app->get_parent() == nullptr) return CLI::Formatter::make_footer(app);
  const CLI::App* program = app;
  while (program->get_parent() != nullptr) program = program->get_parent();
  return CLI::Formatter::make_footer(app) + make_groups(program, CLI::AppFormatMode::Normal).substr(1);
}

}  // namespace lshformer::cli
