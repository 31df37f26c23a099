#include "data/passages/ranked_lists.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "base/error.h"
#include "data/file_kind.h"
#include "data/json_rows.h"

namespace lshformer {
namespace {

RankedList ParseRankedList(const Json& row, const std::string& where) {
  RankedList list;
  if (!row.contains("query")) Fail("{}: \"query\" is missing", where);
  list.query = GetString(row, "query", where);
  if (IsBlank(list.query)) Fail("{}: \"query\" is empty", where);
  for (const Json& passage : GetList(row, "passages", where)) {
    if (!passage.is_string() || IsBlank(passage.get_ref<const std::string&>()))
      Fail("{}: \"passages\"[{}]: expected a text, got {}", where, list.passages.size(), ShownValue(passage));
    list.passages.push_back(passage.get<std::string>());
  }
  for (const Json& label : GetList(row, "labels", where)) {
    const float value = label.is_number() ? label.get<float>() : -1;
    if (!std::isfinite(value) || value < 0)
      Fail("{}: \"labels\"[{}]: expected a number from 0 on, got {}", where, list.labels.size(), ShownValue(label));
    list.labels.push_back(value);
  }
  if (list.passages.size() < 2) Fail("{}: expected two passages or more, got {}", where, list.passages.size());
  if (list.labels.size() != list.passages.size())
    Fail("{}: {} passages, but {} labels", where, list.passages.size(), list.labels.size());
  return list;
}

}  // namespace

bool HasRankedLists(const std::string& path) {
  if (!HoldsJson(path)) return false;
  JsonRows rows(path, kJsonLineLimits);
  Json row;
  return rows.Next(row) && row.contains("query") && row.contains("passages") && row.contains("labels");
}

std::vector<RankedList> ReadRankedLists(const std::string& path) {
  if (!HoldsJson(path)) Fail("{}: expected rows of JSON (.jsonl)", Shown(path, 120));
  std::vector<RankedList> lists;
  JsonRows rows(path, kJsonLineLimits);
  for (Json row; rows.Next(row);) {
    lists.push_back(ParseRankedList(row, rows.where()));
    lists.back().line = rows.line_number();
  }
  if (lists.empty()) Fail("{}: holds no examples", Shown(path, 120));
  return lists;
}

SequenceSet EncodeLists(const std::vector<RankedList>& lists, const Tokenizer& tokenizer, int max_seq_length,
                        int64_t* truncated) {
  std::vector<std::string> queries;
  std::vector<std::optional<std::string>> passages;
  for (const RankedList& list : lists)
    for (const std::string& passage : list.passages) {
      queries.push_back(list.query);
      passages.emplace_back(passage);
    }
  const std::vector<Encoding> encodings = EncodeAll(tokenizer, queries, passages, {.max_length = max_seq_length});
  *truncated = std::count_if(encodings.begin(), encodings.end(), [](const Encoding& text) { return text.truncated; });
  SequenceSet set;
  std::span<const Encoding> left(encodings);
  for (const RankedList& list : lists) {
    set.AddChoices(left.first(list.passages.size()));
    left = left.subspan(list.passages.size());
  }
  return set;
}

}  // namespace lshformer
