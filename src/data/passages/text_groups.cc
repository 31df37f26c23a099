#include "data/passages/text_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/logging.h"
#include "base/number.h"
#include "data/file_kind.h"
#include "data/json_rows.h"
#include "data/records.h"
#include "data/table_columns.h"

namespace lshformer {
namespace {

constexpr const char *kFirst = "sentence1", *kSecond = "sentence2", *kAnchor = "anchor", *kPositive = "positive",
                     *kNegative = "negative", *kText = "text", *kScore = "score";
constexpr const char* kTextColumns[] = {kFirst, kSecond, kAnchor, kPositive, kText};  // beside negatives

bool IsNegative(std::string_view column) { return column.starts_with(kNegative); }

// What may be read of a row, before it is known which kind of rows the file has.
struct GroupRow {
  int64_t line = 0;
  std::map<std::string, std::vector<std::string>> texts;  // by column; negatives may be several
  std::optional<double> score;
};

class GroupReader {
 public:
  explicit GroupReader(const std::string& path) : path_(path) {
    if (HoldsJson(path))
      ReadJson();
    else
      ReadRecords();
    if (rows_.empty()) Fail("{}: holds no examples", Shown(path_, 120));
    TellNearMisses();
  }

  TextGroups Groups() const {
    const std::vector<std::string> needed = Needed();
    TextGroups groups;
    groups.path = path_;
    bool scored = true;
    for (const GroupRow& row : rows_) {
      std::vector<GroupText>& texts = groups.rows.emplace_back();
      for (const std::string& column : needed) texts.push_back({column, Text(row, column)});
      if (needed.front() == kAnchor)
        for (const auto& [column, several] : row.texts)
          if (IsNegative(column))
            for (const std::string& text : several) texts.push_back({column, text});
      for (const GroupText& text : texts)
        if (IsBlank(text.text)) Fail("{}: \"{}\" is empty", Where(row.line), Shown(text.column));
      groups.lines.push_back(row.line);
      groups.scores.push_back(row.score.value_or(0));
      scored &= row.score.has_value();
    }
    if (!scored || needed.size() != 2) groups.scores.clear();
    return groups;
  }

 private:
  std::string Where(int64_t line) const { return fmt::format("{}:{}", Shown(path_, 120), line); }

  std::vector<std::string> Needed() const {
    const auto has = [&](const char* column) { return columns_.contains(column); };
    if (has(kFirst) && has(kSecond)) return {kFirst, kSecond};
    if (has(kAnchor) && has(kPositive)) return {kAnchor, kPositive};
    if (has(kText)) return {kText};
    Fail("{}: expected columns {} and {}, {} and {}, or {}; found {}", Shown(path_, 120), kFirst, kSecond, kAnchor,
         kPositive, kText, Shown(ListOfNames({columns_.begin(), columns_.end()}), 120));
  }

  const std::string& Text(const GroupRow& row, const std::string& column) const {
    const auto found = row.texts.find(column);
    if (found == row.texts.end() || found->second.empty()) Fail("{}: \"{}\" is missing", Where(row.line), column);
    return found->second.front();
  }

  double Score(std::optional<double> number, const std::string& shown, int64_t line) const {
    if (!number || !std::isfinite(*number)) Fail("{}: score {}: expected a finite number", Where(line), shown);
    return *number;
  }

  // Other columns are nobody's business, but for those whose names are all but one that is read.
  void TellNearMisses() const {
    std::vector<std::string> known(std::begin(kTextColumns), std::end(kTextColumns));
    for (const char* column : {kNegative, kScore, kLabelColumn}) known.emplace_back(column);
    for (const std::string& column : columns_) {
      if (MayBeText(column) || column == kScore || column == kLabelColumn) continue;
      if (const std::string hint = Suggestion(column, known); !hint.empty())
        Warn("{}: column \"{}\" is not read{}", Shown(path_, 120), Shown(column), hint);
    }
  }

  // Of a column that may be read.
  static bool MayBeText(const std::string& column) {
    return IsNegative(column) ||
           std::find(std::begin(kTextColumns), std::end(kTextColumns), column) != std::end(kTextColumns);
  }

  void ReadJson() {
    JsonRows rows(path_, kJsonLineLimits);
    for (Json object; rows.Next(object);) {
      GroupRow& row = rows_.emplace_back();
      row.line = rows.line_number();
      for (auto& [key, value] : object.items()) {
        columns_.insert(key);
        if (MayBeText(key)) TakeTexts(key, value, row);
      }
      for (const char* key : {kScore, kLabelColumn}) {
        if (row.score || !HasValue(object, key)) continue;
        const Json& value = object[key];
        row.score =
            Score(value.is_number() ? std::optional(value.get<double>()) : std::nullopt, ShownValue(value), row.line);
      }
    }
  }

  void TakeTexts(const std::string& key, const Json& value, GroupRow& row) {
    if (value.is_null()) return;
    const bool list = value.is_array() && IsNegative(key);
    for (const Json& text : list ? value : Json::array({value})) {
      if (!text.is_string())
        Fail("{}: \"{}\": expected a string, got {}", Where(row.line), Shown(key), ShownValue(text));
      row.texts[key].push_back(text.get<std::string>());
    }
  }

  void ReadRecords() {
    Records records(path_);
    std::vector<std::string> header, fields;
    if (!records.Next(header)) Fail("{}: is empty, expected a header and rows", Shown(path_, 120));
    for (const std::string& column : header)
      if (!columns_.insert(column).second) Fail("{}: has column \"{}\" twice", records.where(), Shown(column));
    const char* score = columns_.contains(kScore) ? kScore : kLabelColumn;
    while (records.Next(fields)) {
      if (fields.size() != header.size())
        Fail("{}: expected {} fields separated by {}, got {}", records.where(), header.size(), records.separator(),
             fields.size());
      GroupRow& row = rows_.emplace_back();
      row.line = records.line_number();
      for (size_t i = 0; i < header.size(); ++i) {
        if (header[i] == score)
          row.score = Score(ParseNumber<double>(fields[i]), "\"" + Shown(fields[i]) + "\"", row.line);
        if (MayBeText(header[i]) && !(IsNegative(header[i]) && fields[i].empty()))
          row.texts[header[i]].push_back(std::move(fields[i]));
      }
    }
  }

  std::string path_;
  std::set<std::string> columns_;
  std::vector<GroupRow> rows_;
};

template <class Column>
void KeepFront(Column& column, int64_t count) {
  if (!column.empty()) column.resize(static_cast<size_t>(count));
}

}  // namespace

TextGroups TextGroups::SplitFront(int64_t count) {
  TextGroups front = *this;
  front.KeepFirst(count);
  const auto drop = [count](auto& column) {
    if (!column.empty()) column.erase(column.begin(), column.begin() + count);
  };
  drop(rows), drop(scores), drop(lines);
  return front;
}

void TextGroups::KeepFirst(int64_t count) {
  if (count <= 0 || count >= size()) return;
  KeepFront(rows, count), KeepFront(scores, count), KeepFront(lines, count);
}

TextGroups ReadTextGroups(const std::string& path) { return GroupReader(path).Groups(); }

bool HasPairColumns(const std::string& path) {
  std::vector<std::string> columns;
  if (HoldsJson(path)) {
    JsonRows rows(path, kJsonLineLimits);
    if (Json object; rows.Next(object))
      for (const auto& [key, value] : object.items()) columns.push_back(key);
  } else {
    Records(path).Next(columns);
  }
  const auto has = [&](const char* column) { return HasName(columns, column); };
  return !has(kLabelColumn) && ((has(kFirst) && has(kSecond)) || (has(kAnchor) && has(kPositive)));
}

SequenceSet EncodeGroups(const TextGroups& groups, const Json& prompts, const Tokenizer& tokenizer, int max_seq_length,
                         int64_t* truncated) {
  std::vector<std::string> texts;
  for (const std::vector<GroupText>& row : groups.rows)
    for (const GroupText& text : row) texts.push_back(prompts.value(text.column, "") + text.text);
  const std::vector<Encoding> encodings = EncodeAll(tokenizer, texts, {}, {.max_length = max_seq_length});
  *truncated = std::count_if(encodings.begin(), encodings.end(), [](const Encoding& text) { return text.truncated; });
  SequenceSet set;
  std::span<const Encoding> left(encodings);
  for (const std::vector<GroupText>& row : groups.rows) {
    set.AddChoices(left.first(row.size()));
    left = left.subspan(row.size());
  }
  for (const double score : groups.scores) set.AddValue(static_cast<float>(score));
  return set;
}

}  // namespace lshformer
