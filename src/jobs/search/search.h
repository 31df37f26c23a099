// Passages of a corpus for a query, by the dot products of their vectors with its own.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "jobs/search/passages.h"

namespace lshformer {

struct SearchJob {
  ModelSource model;
  PassageOptions passages;
  std::string corpus;  // data/passages/retrieval.h
  std::string index;   // its vectors (jobs/search/corpus_index.h); "": the corpus's name and ".index"
  std::string query;   // or
  // Lines, a query each, or JSON lines with "text" and maybe an id: the first one tells. Plain or gzip; - is stdin.
  // Answered as they come, those that are there together.
  std::string query_file;
  int top_k = 5;
  bool progress = false;
};

const OptionTable<SearchJob>& SearchTable();  // of what is no part with a table of its own

struct FoundPassage {
  float score = 0;
  std::string id, title, text;  // text: of the passage alone
  int32_t start = 0, end = 0;   // code points of the document's text
};
struct SearchAnswer {
  Json id;  // of the query; null: it has none
  std::string query;
  std::vector<FoundPassage> results;  // best first
};

// OptionError where not exactly one of query and query_file is given. Errors of the index as UpToDateIndex has them.
// `take` is called for each query in order. Error naming the line of a query that is no UTF-8 or has no text; a blank
// line is none.
void RunSearch(const SearchJob& job, const std::function<void(const SearchAnswer&)>& take);

Json ToJson(const SearchAnswer& answer);
std::string ToText(const SearchAnswer& answer);  // for a terminal

}  // namespace lshformer
