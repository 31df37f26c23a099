// Plain-text corpora for masked-LM pretraining: rows of text → token sequences of at most max_seq_length.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "data/json_rows.h"
#include "data/sequence_set.h"
#include "io/gzip.h"
#include "text/tokenizer.h"

namespace lshformer {

// Rows of one file, plain or gzip. Text: a row is a paragraph (a blank line ends it, its lines are joined by a space)
// or, with line_by_line, a line; blank ones are left out. JSON (.jsonl, .ndjson, .json, in any form of
// data/json_rows.h): a row is the string under "text" where any object has that (those before the first that has are
// left out, with a warning), else under the first key that is no index column and has a string somewhere (not where
// pairs are asked for). Invalid UTF-8 in raw text becomes U+FFFD and is counted; in JSON it is an error. What may
// follow a text is the pair: under "text_pair", or, where the first object has "question" and "context" and a pair is
// asked for, the context of a question, which every object then has. A row is at most kMaximalRow bytes: a longer
// paragraph goes on in the next row, a longer line is cut (line_by_line).
class RowReader {
 public:
  static constexpr size_t kMaximalRow = size_t{1} << 20;

  RowReader(const std::string& path, bool line_by_line);
  bool Next(std::string& row, std::optional<std::string>* pair = nullptr);
  int64_t replaced() const { return replaced_; }
  int64_t bytes_read() const { return rows_ ? rows_->bytes_read() : lines_->bytes_read(); }  // compressed or not
  int64_t bytes_total() const { return rows_ ? rows_->bytes_total() : lines_->bytes_total(); }

 private:
  bool NextLine();
  void FindKeys(const Json& object, bool pairs);
  std::string FindTextKey() const;
  void NextJson(std::string& row, std::optional<std::string>* pair);
  std::string path_;
  std::optional<JsonRows> rows_;     // of JSON, else
  std::optional<LineReader> lines_;  // of text
  std::string line_;
  bool line_by_line_, first_ = true;
  int64_t without_text_ = 0;  // rows at the beginning that were left out
  std::string rest_;          // of a paragraph that is still too long
  std::string key_;           // of the text in JSON, once known
  std::string pair_key_ = "text_pair";
  int64_t replaced_ = 0;
};

struct CorpusOptions {
  bool line_by_line = false;
  int max_seq_length = 512;  // specials counted, ≥ 3
  int64_t in_memory = SequenceSet::kInMemory;
  int64_t max_sequences = 0;  // the first ones alone, and no more is read than they need (a few MiB); 0: all
};

struct CorpusStatistics {
  int64_t rows = 0, bytes = 0;
  int64_t tokens = 0;          // specials counted, before anything is dropped
  int64_t dropped_tokens = 0;  // blocks: remainders of groups
  int64_t truncated_rows = 0;  // line_by_line: lines cut at max_seq_length
  int64_t replaced = 0;        // invalid UTF-8 sequences
};

// Blocks (default), as HF's run_mlm.py and BERT-LSH cut them: every row is encoded with [CLS] … [SEP]; the rows of a
// group of kRowsPerGroup are laid end to end and cut into blocks of max_seq_length; what is left at the end of a group
// is dropped. One difference: if nothing at all reaches a block, the remainder is kept as one short sequence, as packed
// batches need no padding. line_by_line: a line is a sequence, cut at max_seq_length. Rows are read and tokenised in
// pieces of a few MiB on all cores. Error: a file without any text, by name, and those of LineReader. Invalid UTF-8 is
// warned of once.
inline constexpr int kRowsPerGroup = 1000;
SequenceSet ReadCorpus(const std::vector<std::string>& paths, const Tokenizer& tokenizer, const CorpusOptions& options,
                       CorpusStatistics* statistics = nullptr);

// How many of the examples that share is: at least one. UsageError if it is not in (0, 100) or nothing else is left.
int64_t ValidationShare(int64_t examples, double percentage, const char* unit);
// --validation_split_percentage as HF splits ("train[:5%]"): the first percentage of the sequences becomes the
// validation set, the rest trains. {train, validation}. Errors of ValidationShare.
std::pair<SequenceSet, SequenceSet> SplitValidation(SequenceSet all, double percentage);

}  // namespace lshformer
