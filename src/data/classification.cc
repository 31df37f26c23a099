#include "data/classification.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/number.h"
#include "data/file_kind.h"
#include "io/gzip.h"

namespace lshformer {
namespace {

constexpr int64_t kRowsAtOnce = 8192;  // encoded at once: keeps offsets and copies of texts small

bool IsIdentifier(std::string_view column) { return column == "id" || column == "idx" || column == "index"; }

// With quotes around names that are hard to see without: "", " label".
std::string Join(const std::vector<std::string>& words) {
  std::vector<std::string> shown;
  for (const std::string& word : words) {
    const bool bare = !word.empty() && word.front() != ' ' && word.back() != ' ';
    shown.push_back(bare ? Shown(word) : "\"" + Shown(word) + "\"");
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

std::vector<std::string_view> SplitTabs(std::string_view line) {
  std::vector<std::string_view> fields;
  size_t begin = 0;
  for (size_t tab; (tab = line.find('\t', begin)) != std::string_view::npos; begin = tab + 1) {
    fields.push_back(line.substr(begin, tab - begin));
  }
  fields.push_back(line.substr(begin));
  return fields;
}

// A label of a TSV file: numbers as pandas, and with it HF's scripts, read them, that is with a sign or spaces around.
std::string_view LabelField(std::string_view field) {
  constexpr const char* kSpaces = " \r\v\f";
  const size_t begin = field.find_first_not_of(kSpaces);
  if (begin == field.npos) return field;
  std::string_view number = field.substr(begin, field.find_last_not_of(kSpaces) - begin + 1);
  if (number.size() > 1 && number[0] == '+' && number[1] != '-') number.remove_prefix(1);
  return ParseNumber<double>(number) ? number : field;
}

bool Contains(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// HF run_glue's rule over the columns that can hold text.
TableColumns ChooseColumns(const std::vector<std::string>& names, const std::vector<std::string>& all, bool need_label,
                           const TableColumns& wanted, const std::string& where) {
  TableColumns columns = wanted;
  const auto need = [&](const std::string& name) {
    if (!name.empty() && !Contains(all, name)) Fail("{}: no column \"{}\" among {}", where, Shown(name), Join(all));
  };
  if (columns.text.empty()) {
    if (Contains(names, "sentence1") && Contains(names, "sentence2")) {
      columns.text = "sentence1";
      columns.pair = "sentence2";
    } else {
      for (const std::string& name : names) {
        if (name == "label" || IsIdentifier(name)) continue;
        if (columns.text.empty()) {
          columns.text = name;
        } else if (columns.pair.empty()) {
          columns.pair = name;
        }
      }
    }
    if (columns.text.empty()) Fail("{}: no column with text among {}", where, Join(all));
  }
  if (columns.label.empty() && (need_label || Contains(all, "label"))) columns.label = "label";
  if (!need_label && !Contains(all, columns.label)) columns.label.clear();
  need(columns.text);
  need(columns.pair);
  need(columns.label);
  return columns;
}

class TableReader {
 public:
  TableReader(const std::string& path, bool need_label, const TableLayout& layout, const TableColumns& otherwise)
      : lines_(path), need_label_(need_label), layout_(layout), otherwise_(otherwise) {
    table_.path = path;
  }

  TextTable ReadTsv() {
    if (!NextLine()) Fail("{}: is empty, expected a header and rows", table_.path);
    CheckUtf8();
    std::vector<std::string> header;
    for (const std::string_view name : SplitTabs(line_)) header.emplace_back(name);
    bool unread = IsFirstRow(header);  // and no header
    const bool own_header = !unread;
    if (unread) header = layout_.header;
    Choose(header, header);
    const auto place = [&](const std::string& name) {
      if (name.empty()) return std::ptrdiff_t{-1};
      if (std::count(header.begin(), header.end(), name) > 1)
        Fail("{}: the header has column \"{}\" twice", table_.path, name);
      return std::find(header.begin(), header.end(), name) - header.begin();
    };
    const auto text = place(table_.columns.text), pair = place(table_.columns.pair),
               label = place(table_.columns.label);
    while (std::exchange(unread, false) || NextLine()) {
      const std::vector<std::string_view> fields = SplitTabs(line_);
      if (fields.size() != header.size()) {
        if (layout_.skip_short_rows && fields.size() < header.size()) {
          ++table_.skipped;
          continue;
        }
        Fail("{}: expected {} fields separated by tabs{}, got {}", lines_.where(), header.size(),
             own_header ? ", as in the header" : "", fields.size());
      }
      CheckUtf8();
      Add(fields[text], pair < 0 ? std::string_view{} : fields[pair],
          label < 0 ? std::string_view{} : LabelField(fields[label]));
    }
    return Finish(table_.skipped > 0 ? "all rows are too short" : "a header alone");
  }

  TextTable ReadJsonLines() {
    bool first = true;
    while (NextLine()) {
      if (IsBlank(line_)) continue;
      const Json object = ParseJson(line_, lines_.where(), kJsonLineLimits);
      if (!object.is_object()) Fail("{}: expected a JSON object", lines_.where());
      if (first) ChooseFrom(object);
      first = false;
      const TableColumns& columns = table_.columns;
      Add(Text(object, columns.text), columns.pair.empty() ? "" : Text(object, columns.pair),
          columns.label.empty() ? "" : Label(object, columns.label));
    }
    return Finish("no rows");
  }

 private:
  bool IsFirstRow(const std::vector<std::string>& fields) const {
    if (layout_.header.empty() || Contains(fields, layout_.columns.text) || Contains(fields, "label")) return false;
    return need_label_ || fields.size() == layout_.header.size();
  }

  // `names` are those of columns that can hold text.
  void Choose(const std::vector<std::string>& names, const std::vector<std::string>& all) {
    const TableColumns& own = layout_.columns;
    const bool laid_out = !own.text.empty() && (Contains(all, own.text) || Contains(all, own.pair));
    TableColumns wanted = laid_out ? own : otherwise_;
    if (laid_out && !Contains(all, own.label) && Contains(all, "label")) wanted.label = "label";
    table_.columns = ChooseColumns(names, all, need_label_, wanted, lines_.where());
  }

  void ChooseFrom(const Json& object) {
    std::vector<std::string> names, all;
    for (const auto& [key, value] : object.items()) {
      all.push_back(key);
      if (value.is_string()) names.push_back(key);
    }
    Choose(names, all);
  }

  bool NextLine() {
    if (!lines_.Next(line_)) return false;
    if (first_) StripByteOrderMark(line_);
    first_ = false;
    return true;
  }

  void CheckUtf8() const {
    if (!IsValidUtf8(line_)) Fail("{}: is not valid UTF-8", lines_.where());
  }

  std::string Text(const Json& object, const std::string& key) const {
    const auto found = object.find(key);
    if (found == object.end()) Fail("{}: no key \"{}\", which the first line has", lines_.where(), Shown(key));
    if (!found->is_string()) Fail("{}: \"{}\" is not a string", lines_.where(), Shown(key));
    return found->get<std::string>();
  }

  std::string Label(const Json& object, const std::string& key) const {
    const auto found = object.find(key);
    if (found == object.end()) Fail("{}: no key \"{}\"", lines_.where(), Shown(key));
    if (found->is_string()) return found->get<std::string>();
    if (found->is_number()) return found->dump();
    Fail("{}: \"{}\" is {}, expected a string or a number", lines_.where(), Shown(key), found->type_name());
  }

  void Add(std::string_view text, std::string_view pair, std::string_view label) {
    table_.texts.emplace_back(text);
    if (!table_.columns.pair.empty()) table_.pairs.emplace_back(pair);
    if (!table_.columns.label.empty()) {
      if (label.empty() && need_label_) Fail("{}: the label is empty", lines_.where());
      table_.labels.emplace_back(label);
    }
    table_.lines.push_back(lines_.line_number());
  }

  TextTable Finish(const char* found) {
    if (table_.rows() == 0) Fail("{}: holds no examples ({})", table_.path, found);
    return std::move(table_);
  }

  LineReader lines_;
  std::string line_;
  bool first_ = true;
  bool need_label_;
  const TableLayout& layout_;
  const TableColumns& otherwise_;
  TextTable table_;
};

}  // namespace

TextTable ReadTextTable(const std::string& path, bool need_label, const TableColumns& columns) {
  return ReadTextTable(path, need_label, {}, columns);
}

TextTable ReadTextTable(const std::string& path, bool need_label, const TableLayout& layout,
                        const TableColumns& otherwise) {
  TableReader reader(path, need_label, layout, otherwise);
  return IsJsonLines(path) ? reader.ReadJsonLines() : reader.ReadTsv();
}

bool AreValues(std::span<const TextTable> tables) {
  struct Place {
    const TextTable* table = nullptr;
    size_t row = 0;
    std::string where() const { return fmt::format("{}:{}", table->path, table->lines[row]); }
    std::string shown() const { return Shown(table->labels[row]); }
  };
  Place real, name;  // the first of each
  bool integers = true;
  for (const TextTable& table : tables) {
    for (size_t row = 0; row < table.labels.size(); ++row) {
      const std::string& label = table.labels[row];
      if (ParseNumber<int64_t>(label)) continue;
      integers = false;
      const std::optional<double> number = ParseNumber<double>(label);
      if (!number && name.table == nullptr) name = {&table, row};
      if (number && std::isfinite(*number) && real.table == nullptr) real = {&table, row};
    }
  }
  if (real.table != nullptr && name.table != nullptr)
    Fail("{}: label \"{}\" is no number, but {} has {}; expected numbers alone (regression) or names alone (classes)",
         name.where(), name.shown(), real.where(), real.shown());
  return !integers && name.table == nullptr;
}

std::vector<double> LabelValues(const TextTable& table) {
  std::vector<double> values;
  values.reserve(table.labels.size());
  for (size_t row = 0; row < table.labels.size(); ++row) {
    const std::optional<double> number = ParseNumber<double>(table.labels[row]);
    values.push_back(number.value_or(NAN));
    if (!std::isfinite(static_cast<float>(values.back())))
      Fail("{}:{}: label \"{}\": expected a finite number", table.path, table.lines[row], Shown(table.labels[row]));
  }
  return values;
}

std::vector<std::string> DiscoverLabels(const TextTable& table) {
  const std::set<std::string> distinct(table.labels.begin(), table.labels.end());
  std::vector<std::string> labels(distinct.begin(), distinct.end());
  const auto all = [&](auto parse) {
    return std::all_of(labels.begin(), labels.end(),
                       [&](const std::string& label) { return parse(label).has_value(); });
  };
  if (all(ParseNumber<int64_t>)) {
    std::sort(labels.begin(), labels.end(), [](const std::string& a, const std::string& b) {
      return ParseNumber<int64_t>(a) < ParseNumber<int64_t>(b);
    });
  }
  if (labels.size() < 2) {
    Fail("{}: expected at least two different labels, got {}", table.path,
         labels.empty() ? "none" : "only \"" + Shown(labels[0]) + "\"");
  }
  return labels;
}

int32_t LabelId(std::string_view label, const std::vector<std::string>& names) {
  const auto found = std::find(names.begin(), names.end(), label);
  if (found != names.end()) return static_cast<int32_t>(found - names.begin());
  const bool numeric_names = std::any_of(
      names.begin(), names.end(), [](const std::string& name) { return ParseNumber<int64_t>(name).has_value(); });
  const std::optional<int32_t> number = ParseNumber<int32_t>(label);
  if (numeric_names || !number || *number < 0 || *number >= static_cast<int32_t>(names.size())) return -1;
  return *number;
}

std::vector<int32_t> LabelIds(const TextTable& table, const std::vector<std::string>& names) {
  std::vector<int32_t> ids;
  ids.reserve(table.labels.size());
  for (size_t i = 0; i < table.labels.size(); ++i) {
    ids.push_back(LabelId(table.labels[i], names));
    if (ids.back() < 0)
      Fail("{}:{}: label \"{}\" is unknown, known: {}", table.path, table.lines[i], Shown(table.labels[i]),
           Join(names));
  }
  return ids;
}

SequenceSet EncodeTable(const TextTable& table, std::span<const int32_t> labels, const Tokenizer& tokenizer,
                        int max_seq_length, int64_t* truncated) {
  SequenceSet set;
  EncodeOptions options;
  options.max_length = max_seq_length;
  int64_t cut = 0;
  for (int64_t begin = 0; begin < table.rows(); begin += kRowsAtOnce) {
    const int64_t end = std::min(begin + kRowsAtOnce, table.rows());
    const std::vector<std::string> texts(table.texts.begin() + begin, table.texts.begin() + end);
    std::vector<std::string> pairs;
    if (!table.pairs.empty()) pairs.assign(table.pairs.begin() + begin, table.pairs.begin() + end);
    for (const Encoding& encoding : EncodeAll(tokenizer, texts, pairs, options)) {
      set.Add(encoding.ids, encoding.type_ids);
      cut += encoding.truncated;
    }
  }
  for (const int32_t label : labels) set.AddLabel(label);
  if (truncated != nullptr) *truncated = cut;
  return set;
}

}  // namespace lshformer
