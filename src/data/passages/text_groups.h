// Texts that belong together, to train embeddings on: rows of TSV, CSV or JSON with the columns
//
//   sentence1, sentence2, score     a pair and how near its texts are ("label" serves as "score")
//   anchor, positive, negative…     a text, one that fits and any number that do not: the columns whose names begin
//   with
//                                   "negative", in the order of their names; a cell without text is none, and one of
//                                   JSON may be a list
//   text                            a text alone
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/sequence_set.h"
#include "text/tokenizer.h"

namespace lshformer {

struct GroupText {
  std::string column, text;
};

struct TextGroups {
  std::string path;
  std::vector<std::vector<GroupText>> rows;
  std::vector<double> scores;  // [rows], or empty: some row has none
  std::vector<int64_t> lines;  // [rows]
  int64_t size() const { return static_cast<int64_t>(rows.size()); }
  // The first rows, taken out.
  TextGroups SplitFront(int64_t count);
  void KeepFirst(int64_t count);  // 0: all
};

// Further columns are ignored; pairs of the first kind go before the second, that before the third. Error with
// path:line: no rows, a row that lacks a text, an empty text, a score that is no finite number; and naming the columns
// there are where none of the three kinds is there.
TextGroups ReadTextGroups(const std::string& path);

// Whether the first row (of a table its header) has pairs in these columns and no "label", which ReadTextTable's rows
// have.
bool HasPairColumns(const std::string& path);

// Rows as examples of a sequence a text (SequenceSet::AddChoices), with the scores as values where all rows have one.
// prompts: what stands before the texts of a column, an object. Cut at max_seq_length; *truncated counts cut texts.
SequenceSet EncodeGroups(const TextGroups& groups, const Json& prompts, const Tokenizer& tokenizer, int max_seq_length,
                         int64_t* truncated);

}  // namespace lshformer
