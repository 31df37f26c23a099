#include "data/classification.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/number.h"
#include "base/parallel.h"
#include "data/table_columns.h"

namespace lshformer {
namespace {

constexpr int64_t kRowsAtOnce = 8192;  // encoded at once: keeps offsets and copies of texts small

bool IsInteger(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace

bool AreValues(std::span<const TextTable> tables) {
  struct Place {
    const TextTable* table = nullptr;
    size_t row = 0;
    std::string where() const { return fmt::format("{}:{}", table->path, table->lines[row]); }
    std::string shown() const { return Shown(table->labels[row]); }
  };
  Place real, name, large;  // the first of each
  bool integers = true, strings = false;
  for (const TextTable& table : tables) {
    strings |= table.names;
    for (size_t row = 0; row < table.labels.size(); ++row) {
      const std::string& label = table.labels[row];
      if (ParseNumber<int64_t>(label)) continue;
      integers = false;
      if (IsInteger(label)) {
        if (large.table == nullptr) large = {&table, row};
        continue;
      }
      const std::optional<double> number = ParseNumber<double>(label);
      if (!number && name.table == nullptr) name = {&table, row};
      if (number && std::isfinite(*number) && real.table == nullptr) real = {&table, row};
    }
  }
  if (real.table != nullptr && name.table != nullptr)
    Fail("{}: label \"{}\" is no number, but {} has {}; expected numbers alone (regression) or names alone (classes)",
         name.where(), name.shown(), real.where(), real.shown());
  if (strings || name.table != nullptr) return false;
  if (large.table != nullptr)
    Fail("{}: label \"{}\": expected an integer of 64 bits at most", large.where(), large.shown());
  return !integers;
}

std::vector<double> LabelValues(const TextTable& table) {
  std::vector<double> values;
  values.reserve(table.labels.size());
  for (size_t row = 0; row < table.labels.size(); ++row) {
    const std::optional<double> number = ParseNumber<double>(table.labels[row]);
    values.push_back(number.value_or(NAN));
    const auto value = static_cast<float>(values.back());
    if (!std::isfinite(value))
      Fail("{}:{}: label \"{}\": expected a finite number", table.path, table.lines[row], Shown(table.labels[row]));
    if (!std::isfinite(value * value))
      Fail("{}:{}: label \"{}\": too large to learn, expected -1.8e19 to 1.8e19, whose squares are finite", table.path,
           table.lines[row], Shown(table.labels[row]));
  }
  return values;
}

std::vector<std::string> DiscoverLabels(const TextTable& table) {
  if (table.multi_label() && table.label_places > 0) {
    std::vector<std::string> places;
    for (int64_t place = 0; place < table.label_places; ++place) places.push_back(std::to_string(place));
    return places;
  }
  std::set<std::string> distinct(table.labels.begin(), table.labels.end());
  for (const std::vector<std::string>& set : table.label_sets) distinct.insert(set.begin(), set.end());
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
  if (table.multi_label() && labels.empty()) Fail("{}: no row has a label", table.path);
  if (labels.size() < 2 && !table.multi_label()) {
    Fail("{}: expected at least two different labels, got {}", table.path,
         labels.empty() ? "none" : "only \"" + Shown(labels[0]) + "\"");
  }
  return labels;
}

int32_t LabelId(std::string_view label, const std::vector<std::string>& names) {
  const auto found = std::find(names.begin(), names.end(), label);
  if (found != names.end()) return static_cast<int32_t>(found - names.begin());
  if (const std::optional<int64_t> number = ParseNumber<int64_t>(label)) {
    const auto same = [&](const std::string& name) { return ParseNumber<int64_t>(name) == number; };
    const auto first = std::find_if(names.begin(), names.end(), same);
    if (first != names.end() && std::none_of(first + 1, names.end(), same))
      return static_cast<int32_t>(first - names.begin());
  }
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
           ListOfNames(names));
  }
  return ids;
}

std::vector<std::vector<float>> LabelFlags(const TextTable& table, const std::vector<std::string>& names) {
  std::vector<std::vector<float>> flags;
  flags.reserve(table.label_sets.size());
  const auto count = static_cast<int64_t>(names.size());
  if (table.label_places > 0 && table.label_places != count)
    Fail("{}:{}: \"{}\" has {} numbers, expected one for each of the labels {}", table.path, table.lines[0],
         kLabelSetColumn, table.label_places, ListOfNames(names));
  for (size_t row = 0; row < table.label_sets.size(); ++row) {
    std::vector<float>& own = flags.emplace_back(names.size(), 0.0F);
    for (const std::string& label : table.label_sets[row]) {
      // Places are numbers whatever the names are.
      const int32_t id = table.label_places > 0 ? *ParseNumber<int32_t>(label) : LabelId(label, names);
      if (id < 0)
        Fail("{}:{}: label \"{}\" is unknown, known: {}", table.path, table.lines[row], Shown(label),
             ListOfNames(names));
      own[static_cast<size_t>(id)] = 1;
    }
  }
  return flags;
}

SequenceSet EncodeTable(const TextTable& table, std::span<const int32_t> labels, const Tokenizer& tokenizer,
                        const TextEncoding& how, int64_t* truncated) {
  SequenceSet set;
  int64_t cut = 0;
  for (int64_t begin = 0; begin < table.rows(); begin += kRowsAtOnce) {
    const int64_t end = std::min(begin + kRowsAtOnce, table.rows());
    std::vector<std::vector<Encoding>> rows(static_cast<size_t>(end - begin));
    std::vector<std::string> errors(rows.size());
    ParallelFor(end - begin, 16, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        std::optional<std::string_view> pair;
        if (!table.pairs.empty() && table.pairs[begin + i]) pair = *table.pairs[begin + i];
        try {
          rows[i] = EncodeLong(tokenizer, table.texts[begin + i], pair, how);
        } catch (const Error& error) {
          errors[i] = error.Spelled(kOptionMark);
        }
      }
    });
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!errors[i].empty()) Fail("{}:{}: {}", table.path, table.lines[begin + i], errors[i]);
      if (how.long_text == LongText::kWindows) {
        set.AddChoices(rows[i]);
      } else {
        set.Add(rows[i][0].ids, rows[i][0].type_ids);
      }
      cut += rows[i][0].truncated;
    }
  }
  for (const int32_t label : labels) set.AddLabel(label);
  if (truncated != nullptr) *truncated = cut;
  return set;
}

}  // namespace lshformer
