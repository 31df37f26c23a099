#include "data/passages/retrieval.h"

#include <utility>

#include "base/error.h"
#include "base/number.h"
#include "data/file_kind.h"
#include "data/records.h"
#include "text/tokenizer.h"

namespace lshformer {
namespace {

constexpr const char* kId = "_id";
constexpr const char* kOtherId = "id";

std::string DocumentId(const Json& object, const std::string& where) {
  const char* key = object.contains(kId) ? kId : kOtherId;
  const auto found = object.find(key);
  if (found == object.end()) Fail("{}: \"{}\" is missing", where, kId);
  if (found->is_number_integer()) return found->dump();
  const std::string id = GetString(object, key, where);
  if (id.empty()) Fail("{}: \"{}\" is empty", where, key);
  return id;
}

std::string DocumentText(const Json& object, const std::string& where) {
  if (!object.contains("text")) Fail("{}: \"text\" is missing", where);
  return GetString(object, "text", where);
}

Json ParseLineObject(const std::string& line, const std::string& where) {
  Json object = ParseJson(line, where, kJsonLineLimits);
  if (!object.is_object()) Fail("{}: expected an object, got {}", where, ShownValue(object));
  return object;
}

int Relevance(std::string_view text, const std::string& where) {
  const auto number = ParseNumber<int64_t>(text);
  if (!number) Fail("{}: score \"{}\": expected a whole number", where, Shown(text));
  if (*number < kLeastRelevance || *number > kMostRelevance)
    Fail("{}: score {}: expected {} to {}", where, *number, kLeastRelevance, kMostRelevance);
  return static_cast<int>(*number);
}

}  // namespace

CorpusReader::CorpusReader(const std::string& path, bool spans) : path_(path), spans_(spans), lines_(path) {
  if (IsJsonLines(path)) json_ = true;
}

bool CorpusReader::Parse(const std::string& line, CorpusDocument& document) {
  if (IsBlank(line)) return false;
  document = CorpusDocument();
  document.line = lines_.line_number();
  if (!*json_) {
    if (spans_) Fail("{}: a line of text has no \"spans\", which JSON lines have", where());
    if (!IsValidUtf8(line)) Fail("{}: expected UTF-8", where());
    document.id = std::to_string(document.line);
    document.text = line;
    return true;
  }
  const Json object = ParseLineObject(line, where());
  document.id = DocumentId(object, where());
  document.text = DocumentText(object, where());
  if (spans_) document.spans = ReadSpans(object, where());
  if (HasValue(object, "title")) document.title = GetString(object, "title", where());
  return true;
}

// Whatever the file is called: its first line tells whether all are objects.
bool CorpusReader::NextLine(std::string& line) {
  if (!lines_.Next(line)) return false;
  if (lines_.line_number() == 1) StripByteOrderMark(line);
  if (json_ || IsBlank(line)) return true;
  json_ = line.starts_with('{') && Json::accept(line);
  if (!*json_ && IsTable(path_))
    FailOption("corpus", "{}: expected JSON lines or lines of text, not a table", Shown(path_, 120));
  return true;
}

bool CorpusReader::Next(CorpusDocument& document) {
  std::string line;
  while (NextLine(line))
    if (Parse(line, document)) return true;
  return false;
}

CorpusDocument CorpusReader::Find(int64_t number) {
  std::string line;
  CorpusDocument document;
  while (lines_.line_number() < number && NextLine(line)) {
  }
  if (lines_.line_number() != number || !Parse(line, document))
    Fail("{}:{}: the document is gone", Shown(path_, 120), number);
  return document;
}

void DistinctIds::Add(const std::string& id, const std::string& where) {
  if (!ids_.insert(id).second) Fail("{}: id \"{}\" for the second time", where, Shown(id));
}

RetrievalQuery ParseQuery(const std::string& line, const std::string& where) {
  const Json object = ParseLineObject(line, where);
  const bool named = HasValue(object, kId) || HasValue(object, kOtherId);
  RetrievalQuery query{named ? DocumentId(object, where) : "", DocumentText(object, where)};
  if (IsBlank(query.text)) Fail("{}: \"text\" is empty", where);
  return query;
}

std::vector<RetrievalQuery> ReadQueries(const std::string& path) {
  std::vector<RetrievalQuery> queries;
  DistinctIds ids;
  LineReader lines(path);
  for (std::string line; lines.Next(line);) {
    if (lines.line_number() == 1) StripByteOrderMark(line);
    if (IsBlank(line)) continue;
    if (queries.empty() && !line.starts_with('{'))
      FailOption("queries", "{}: expected lines of JSON, {{\"_id\": …, \"text\": …}}, got other text", lines.where());
    queries.push_back(ParseQuery(line, lines.where()));
    if (queries.back().id.empty()) Fail("{}: \"{}\" is missing", lines.where(), kId);
    ids.Add(queries.back().id, lines.where());
  }
  if (queries.empty()) Fail("{}: has no queries", Shown(path, 120));
  return queries;
}

std::vector<std::vector<Judgement>> ReadJudgements(const std::string& path,
                                                   const std::vector<RetrievalQuery>& queries) {
  std::unordered_map<std::string, size_t> places;
  for (const RetrievalQuery& query : queries) places.emplace(query.id, places.size());
  std::vector<std::vector<Judgement>> judgements(queries.size());
  std::unordered_set<std::string> pairs;
  LineReader lines(path);
  size_t columns = 0;
  bool any = false;
  for (std::string line; lines.Next(line);) {
    if (lines.line_number() == 1) StripByteOrderMark(line);
    if (IsBlank(line)) continue;
    std::vector<std::string> fields = SplitTabs(line);
    const bool first = columns == 0;
    if (first) columns = fields.size() == 4 ? 4 : 3;
    if (fields.size() != columns)
      Fail("{}: expected {}, got {} columns", lines.where(),
           columns == 4 ? "query-id, iteration, corpus-id and score" : "query-id, corpus-id and score", fields.size());
    if (columns == 4) fields.erase(fields.begin() + 1);
    if (first && fields[2] == "score") continue;  // the header
    const auto query = places.find(fields[0]);
    if (query == places.end()) Fail("{}: query \"{}\" is not among the queries", lines.where(), Shown(fields[0]));
    if (!pairs.insert(fmt::format("{}\t{}", fields[0], fields[1])).second)
      Fail("{}: query \"{}\" and document \"{}\" for the second time", lines.where(), Shown(fields[0]),
           Shown(fields[1]));
    judgements[query->second].push_back({fields[1], Relevance(fields[2], lines.where()), lines.line_number()});
    any = true;
  }
  if (!any) Fail("{}: has no judgements", Shown(path, 120));
  return judgements;
}

}  // namespace lshformer
