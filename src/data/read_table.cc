// Tables from their files: TSV, CSV and rows of JSON.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/number.h"
#include "data/classification.h"
#include "data/file_kind.h"
#include "data/json_rows.h"
#include "data/records.h"
#include "data/table_columns.h"

namespace lshformer {
namespace {

// A label of a TSV or CSV file: numbers as pandas, and with it HF's scripts, read them, that is with a sign or spaces
// around.
std::string_view LabelField(std::string_view field) {
  constexpr const char* kSpaces = " \r\v\f";
  const size_t begin = field.find_first_not_of(kSpaces);
  if (begin == field.npos) return field;
  std::string_view number = field.substr(begin, field.find_last_not_of(kSpaces) - begin + 1);
  if (number.size() > 1 && number[0] == '+' && number[1] != '-') number.remove_prefix(1);
  return ParseNumber<double>(number) ? number : field;
}

// What reading TSV, CSV and JSON have in common.
class TableReader {
 protected:
  TableReader(const std::string& path, bool need_label, const TableLayout& layout, const TableColumns& otherwise)
      : need_label_(need_label), layout_(layout), otherwise_(otherwise) {
    table_.path = path;
  }

  // `names` are those of columns that can hold text.
  void Choose(const std::vector<std::string>& names, const std::vector<std::string>& all, bool label_sets,
              const std::string& where) {
    const TableColumns& own = layout_.columns;
    const bool laid_out = !own.text.empty() && (HasName(all, own.text) || HasName(all, own.pair));
    TableColumns wanted = laid_out ? own : otherwise_;
    if (laid_out && !HasName(all, own.label) && HasName(all, kLabelColumn)) wanted.label = kLabelColumn;
    table_.columns = ChooseColumns(names, all, need_label_, label_sets, wanted, where);
    const auto shown = [](const std::string& name) {
      return name.empty() ? std::string("none") : fmt::format("\"{}\"", Shown(name));
    };
    spdlog::info("{}: text is column {}, second text {}, label {}", Shown(table_.path, 120), shown(table_.columns.text),
                 shown(table_.columns.pair), shown(table_.columns.label));
  }

  void AddLabel(std::string_view label, const std::string& where) {
    if (label.empty()) Fail("{}: the label is empty", where);
    table_.labels.emplace_back(label);
  }

  TextTable Finish(const char* found) {
    if (table_.rows() == 0) Fail("{}: holds no examples ({})", table_.path, found);
    return std::move(table_);
  }

  bool need_label_;
  const TableLayout& layout_;
  const TableColumns& otherwise_;
  TextTable table_;
};

class RecordTable : TableReader {
 public:
  RecordTable(const std::string& path, bool need_label, const TableLayout& layout, const TableColumns& otherwise)
      : TableReader(path, need_label, layout, otherwise), records_(path) {}

  TextTable Read() {
    std::vector<std::string> fields;
    if (!records_.Next(fields)) Fail("{}: is empty, expected a header and rows", table_.path);
    bool unread = IsFirstRow(fields);  // and no header
    const bool own_header = !unread;
    const std::vector<std::string> header = unread ? layout_.header : fields;
    ChooseOf(header, own_header);
    const auto text = Place(header, table_.columns.text), pair = Place(header, table_.columns.pair),
               label = Place(header, table_.columns.label);
    while (std::exchange(unread, false) || records_.Next(fields)) {
      if (fields.size() != header.size()) {
        if (fields.size() == 1 && IsBlank(fields[0])) continue;
        if (layout_.skip_short_rows && fields.size() < header.size()) {
          ++table_.skipped;
          continue;
        }
        Fail("{}: expected {} fields separated by {}{}, got {}", records_.where(), header.size(), records_.separator(),
             own_header ? ", as in the header" : "", fields.size());
      }
      if (label >= 0) AddLabel(LabelField(fields[static_cast<size_t>(label)]), records_.where());
      if (pair >= 0) table_.pairs.emplace_back(std::move(fields[static_cast<size_t>(pair)]));
      table_.texts.push_back(std::move(fields[static_cast<size_t>(text)]));
      table_.lines.push_back(records_.line_number());
    }
    SpellIntegers();
    return Finish(table_.skipped > 0 ? "all rows are too short" : "a header alone");
  }

 private:
  // A column of integers is read as numbers: -0 is 0 and 01 is 1.
  void SpellIntegers() {
    const auto is_integer = [](const std::string& label) { return ParseNumber<int64_t>(label).has_value(); };
    if (!std::all_of(table_.labels.begin(), table_.labels.end(), is_integer)) return;
    for (std::string& label : table_.labels) label = std::to_string(*ParseNumber<int64_t>(label));
  }

  bool IsFirstRow(const std::vector<std::string>& fields) const {
    if (layout_.header.empty() || HasName(fields, layout_.columns.text) || HasName(fields, kLabelColumn)) return false;
    return need_label_ || fields.size() == layout_.header.size();
  }

  // A header that is separated by something else is no header: it lacks a column, or is the only one.
  void ChooseOf(const std::vector<std::string>& header, bool own_header) {
    const std::string hint = own_header ? OtherSeparator(header) : "";
    try {
      Choose(header, header, /*label_sets=*/false, records_.where());
    } catch (const Error& error) {
      if (hint.empty()) throw;
      Fail("{}{}", error.Spelled(kOptionMark), hint);
    }
    if (header.size() == 1 && !hint.empty())
      spdlog::warn("{}: \"{}\" is read as one column{}", records_.where(), Shown(header[0]), hint);
  }

  std::string OtherSeparator(const std::vector<std::string>& header) const {
    constexpr std::pair<char, std::string_view> kSeparators[] = {
        {'\t', "tabs"}, {';', "semicolons"}, {',', "commas"}, {'|', "bars"}};
    for (const auto& [sign, name] : kSeparators)
      for (const std::string& column : header)
        if (name != records_.separator() && column.find(sign) != column.npos)
          return fmt::format("; the header seems to be separated by {}: fields are by commas in .csv, else by tabs",
                             name);
    return "";
  }

  std::ptrdiff_t Place(const std::vector<std::string>& header, const std::string& name) const {
    if (name.empty()) return -1;
    if (std::count(header.begin(), header.end(), name) > 1)
      Fail("{}: the header has column \"{}\" twice", table_.path, Shown(name));
    return std::find(header.begin(), header.end(), name) - header.begin();
  }

  Records records_;
};

// The first row does not say which columns there are, so all that may be read is kept, column by column, until the
// last.
class JsonTable : TableReader {
 public:
  JsonTable(const std::string& path, bool need_label, const TableLayout& layout, const TableColumns& otherwise)
      : TableReader(path, need_label, layout, otherwise), rows_(path, kJsonLineLimits) {}

  TextTable Read() {
    for (Json row; rows_.Next(row);) Keep(std::move(row));
    if (table_.lines.empty()) Fail("{}: holds no examples (no rows)", table_.path);
    Choose();
    TakeTexts();
    if (!table_.columns.label.empty()) TakeLabels();
    return Finish("no rows");
  }

 private:
  struct Cell {
    int64_t row;
    Json value;  // of values that are no strings and no labels only what is shown of them
  };
  struct Column {
    std::string name;
    bool text = false;  // some row has a string
    std::vector<Cell> cells;
  };

  std::string Where(int64_t row) const {
    return fmt::format("{}:{}", InputName(table_.path), table_.lines[static_cast<size_t>(row)]);
  }

  bool MayBeLabel(const std::string& name) const {
    return name == kLabelColumn || name == kLabelSetColumn || name == layout_.columns.label || name == otherwise_.label;
  }

  void Keep(Json row) {
    const auto number = static_cast<int64_t>(table_.lines.size());
    table_.lines.push_back(rows_.line_number());
    for (auto& [key, value] : row.get_ref<Json::object_t&>()) {
      const auto [place, fresh] = places_.try_emplace(key, columns_.size());
      if (fresh) columns_.push_back({key, false, {}});
      Column& column = columns_[place->second];
      column.text |= value.is_string();
      if (!value.is_string() && !value.is_null() && !MayBeLabel(key)) value = Json::binary(Bytes(ShownValue(value)));
      column.cells.push_back({number, std::move(value)});
    }
  }
  static Json::binary_t::container_type Bytes(const std::string& text) { return {text.begin(), text.end()}; }

  void Choose() {
    std::vector<std::string> names, all;
    for (const Column& column : columns_) {
      all.push_back(column.name);
      if (column.text) names.push_back(column.name);
    }
    TableReader::Choose(names, all, /*label_sets=*/true, Where(0));
    const bool single = table_.columns.label == kLabelColumn || table_.columns.label == kLabelSetColumn;
    if (need_label_ && single) RefuseBothLabels();
  }

  const Column* Find(const std::string& name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : &columns_[found->second];
  }

  // A row has one label or a set of them, and all rows have the same.
  void RefuseBothLabels() const {
    const Column *one = Find(kLabelColumn), *set = Find(kLabelSetColumn);
    if (one == nullptr || set == nullptr) return;
    const auto has_list = [](const Cell& cell) { return cell.value.is_array(); };
    const auto list = std::find_if(set->cells.begin(), set->cells.end(), has_list);
    if (list == set->cells.end()) return;  // something else of that name
    const auto also = [&](const Cell& cell) { return cell.row == list->row; };
    if (std::any_of(one->cells.begin(), one->cells.end(), also))
      Fail("{}: has \"{}\" and \"{}\", expected one of them", Where(list->row), kLabelColumn, kLabelSetColumn);
    Fail("{}: has \"{}\", but the row of line {} has \"{}\"", Where(list->row), kLabelSetColumn,
         table_.lines[static_cast<size_t>(one->cells.front().row)], kLabelColumn);
  }

  // The column's value of each row, null where it has none; the visitor may take it.
  template <class Take>
  void ForEachRow(const std::string& name, const Take& take) {
    Json none;
    std::vector<Cell>& cells = columns_[places_.at(name)].cells;
    auto cell = cells.begin();
    for (int64_t row = 0; row < static_cast<int64_t>(table_.lines.size()); ++row) {
      const bool has = cell != cells.end() && cell->row == row;
      take(row, has, has ? cell->value : none);
      if (has) ++cell;
    }
  }

  int64_t FirstWith(const std::string& name) const { return Find(name)->cells.front().row; }

  void TakeTexts() {
    const auto text_of = [&](int64_t row, const std::string& key, Json& value) {
      if (!value.is_string()) Fail("{}: \"{}\" is {}, expected a string", Where(row), Shown(key), ShownValue(value));
      return std::move(value.get_ref<std::string&>());
    };
    const auto& [text, pair, label] = table_.columns;
    ForEachRow(text, [&](int64_t row, bool has, Json& value) {
      if (!has)
        Fail("{}: no key \"{}\", which line {} has", Where(row), Shown(text),
             table_.lines[static_cast<size_t>(FirstWith(text))]);
      table_.texts.push_back(text_of(row, text, value));
    });
    if (pair.empty()) return;
    ForEachRow(pair, [&](int64_t row, bool, Json& value) {
      if (value.is_null())
        table_.pairs.emplace_back();
      else
        table_.pairs.emplace_back(text_of(row, pair, value));
    });
  }

  void TakeLabels() {
    const std::string& key = table_.columns.label;
    const bool sets = key == kLabelSetColumn;
    if (sets) FindLabelPlaces();
    const Json* first = nullptr;  // the label of the first row
    bool told = sets;
    ForEachRow(key, [&](int64_t row, bool has, const Json& value) {
      if (!has) Fail("{}: no key \"{}\"", Where(row), Shown(key));
      if (sets) return TakeLabelSet(row, value);
      table_.names |= value.is_string();
      AddLabel(LabelText(row, value), Where(row));
      if (first == nullptr) first = &value;
      if (told || std::string_view(LabelKind(*first)) == LabelKind(value)) return;
      told = true;
      spdlog::warn("{}: label {} is {}, but line {} has {}, {}; labels are the same where they are written alike",
                   Where(row), ShownValue(value), LabelKind(value), table_.lines.front(), ShownValue(*first),
                   LabelKind(*first));
    });
  }

  static const char* LabelKind(const Json& label) {
    if (label.is_string()) return "a string";
    return label.is_boolean() ? "a truth value" : "a number";
  }

  std::string LabelText(int64_t row, const Json& value) const {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number() || value.is_boolean()) return value.dump();
    Fail("{}: \"{}\" is {}, expected a string, a number, true or false", Where(row), Shown(table_.columns.label),
         ShownValue(value));
  }

  // Names, or a 0 or 1 for every label there is.
  void TakeLabelSet(int64_t row, const Json& value) {
    if (!value.is_array())
      Fail("{}: \"{}\" is {}, expected a list of labels; a row's only label stands under \"{}\"", Where(row),
           kLabelSetColumn, ShownValue(value), kLabelColumn);
    std::vector<std::string>& set = table_.label_sets.emplace_back();
    if (table_.label_places > 0) return TakeFlags(row, value, set);
    for (const Json& label : value) {
      if (!label.is_string())
        Fail("{}: \"{}\" has {}, expected names alone, or a 0 or 1 for every label", Where(row), kLabelSetColumn,
             ShownValue(label));
      if (label.get_ref<const std::string&>().empty())
        Fail("{}: \"{}\" has an empty label", Where(row), kLabelSetColumn);
      if (HasName(set, label.get_ref<const std::string&>()))
        Fail("{}: \"{}\" has {} twice", Where(row), kLabelSetColumn, ShownValue(label));
      set.push_back(label.get<std::string>());
    }
  }

  // The first list that is not empty says which of the two the file has.
  void FindLabelPlaces() {
    for (const Cell& cell : Find(kLabelSetColumn)->cells) {
      if (!cell.value.is_array() || cell.value.empty()) continue;
      const Json& first = cell.value.front();
      if (first.is_number() || first.is_boolean()) table_.label_places = SizeOf(cell.value);
      return;
    }
  }

  static int64_t SizeOf(const Json& list) { return static_cast<int64_t>(list.size()); }

  void TakeFlags(int64_t row, const Json& value, std::vector<std::string>& set) {
    if (SizeOf(value) != table_.label_places)
      Fail("{}: \"{}\" has {} numbers, others have {}: one for every label", Where(row), kLabelSetColumn, value.size(),
           table_.label_places);
    for (size_t place = 0; place < value.size(); ++place) {
      const Json& flag = value[place];
      const double number = flag.is_number() ? flag.get<double>() : flag.is_boolean() ? flag.get<bool>() : -1.0;
      if (number != 0 && number != 1)
        Fail("{}: \"{}\"[{}] is {}, expected 0 or 1; labels by name are strings", Where(row), kLabelSetColumn, place,
             ShownValue(flag));
      if (number == 1) set.push_back(std::to_string(place));
    }
  }

  JsonRows rows_;
  std::deque<Column> columns_;  // in the order in which they come
  std::unordered_map<std::string, size_t> places_;
};

}  // namespace

TextTable ReadTextTable(const std::string& path, bool need_label, const TableColumns& columns) {
  return ReadTextTable(path, need_label, {}, columns);
}

TextTable ReadTextTable(const std::string& path, bool need_label, const TableLayout& layout,
                        const TableColumns& otherwise) {
  if (HoldsJson(path)) return JsonTable(path, need_label, layout, otherwise).Read();
  return RecordTable(path, need_label, layout, otherwise).Read();
}

}  // namespace lshformer
