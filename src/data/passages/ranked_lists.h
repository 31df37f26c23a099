// Passages judged for a query, to train rerankers on: rows of JSON
//
//   {"query": "…", "passages": ["…", …], "labels": [2, 0, …]}     as many labels as passages, the larger the better
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/sequence_set.h"
#include "text/tokenizer.h"

namespace lshformer {

struct RankedList {
  std::string query;
  std::vector<std::string> passages;
  std::vector<float> labels;
  int64_t line = 0;
};

// Error with path:line: no rows, a row that lacks one of the three or has another kind of it, an empty text, another
// number of labels than of passages, fewer than two passages, a label that is negative or not finite.
std::vector<RankedList> ReadRankedLists(const std::string& path);

// Whether the first row is one of JSON with these three members.
bool HasRankedLists(const std::string& path);

// A row is an example of a sequence a passage, the query before it (SequenceSet::AddChoices). Cut at max_seq_length,
// the longer of the two first; *truncated counts cut passages.
SequenceSet EncodeLists(const std::vector<RankedList>& lists, const Tokenizer& tokenizer, int max_seq_length,
                        int64_t* truncated);

}  // namespace lshformer
