#include "data/table_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"
#include "base/lower_case.h"

namespace lshformer {
bool HasName(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsIndexColumn(std::string_view column) {
  constexpr std::array<std::string_view, 7> kNames{"", "id", "idx", "index", "guid", "row_id", "__index_level_0__"};
  const std::string name = LowerCase(std::string(column));
  return name.starts_with("unnamed: ") || std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::string ListOfNames(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    const bool bare = !name.empty() && name.front() != ' ' && name.back() != ' ';
    shown.push_back(bare ? Shown(name) : "\"" + Shown(name) + "\"");
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

TableColumns ChooseColumns(const std::vector<std::string>& names, const std::vector<std::string>& all, bool need_label,
                           bool label_sets, const TableColumns& wanted, const std::string& where) {
  TableColumns columns = wanted;
  const auto need = [&](const std::string& name) {
    if (name.empty() || HasName(all, name)) return;
    const bool sets = !label_sets && name == kLabelColumn && HasName(all, kLabelSetColumn);
    Fail("{}: no column \"{}\" among {}{}", where, Shown(name), ListOfNames(all),
         sets ? fmt::format("; \"{}\" is for lists of labels, in rows of JSON: a column with one label a row is \"{}\"",
                            kLabelSetColumn, kLabelColumn)
              : Suggestion(name, all));
  };
  const bool sets = label_sets && columns.label.empty() && !HasName(all, kLabelColumn) && HasName(all, kLabelSetColumn);
  if (columns.text.empty()) {
    if (HasName(names, "sentence1") && HasName(names, "sentence2")) {
      columns.text = "sentence1";
      columns.pair = "sentence2";
    } else {
      for (const std::string& name : names) {
        if (name == kLabelColumn || name == kLabelSetColumn || IsIndexColumn(name)) continue;
        if (columns.text.empty()) {
          columns.text = name;
        } else if (columns.pair.empty()) {
          columns.pair = name;
        }
      }
    }
    if (columns.text.empty()) Fail("{}: no column with text among {}", where, ListOfNames(all));
  }
  if (!need_label)
    columns.label.clear();
  else if (columns.label.empty())
    columns.label = sets ? kLabelSetColumn : kLabelColumn;
  need(columns.text);
  need(columns.pair);
  need(columns.label);
  return columns;
}

}  // namespace lshformer
