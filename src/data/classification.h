// Labelled texts: TSV or CSV with a header and rows of JSON, read into texts, labels and token sequences. GLUE's files:
// data/glue.h.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/long_text.h"
#include "data/sequence_set.h"
#include "text/tokenizer.h"

namespace lshformer {

// Columns are named as in the header; `pair` and `label` may be "" (none). Empty `text`: HF run_glue's rule.
struct TableColumns {
  std::string text, pair, label;
};

struct TextTable {
  std::string path;
  TableColumns columns;                              // the ones that were read
  std::vector<std::string> texts;                    // [rows]
  std::vector<std::optional<std::string>> pairs;     // [rows], or empty: single texts; "" is a text, null is none
  std::vector<std::string> labels;                   // [rows] as written, or empty: none are asked for
  bool names = false;                                // some label is a string of JSON: a name, even "1.5"
  std::vector<std::vector<std::string>> label_sets;  // [rows] of a table with several labels a row, in place of labels
  int64_t label_places = 0;    // above 0: the sets were lists of so many 0 and 1, and are of places "0", "1" …
  std::vector<int64_t> lines;  // [rows] line number in the file, from 1
  int64_t skipped = 0;         // rows left out (TableLayout::skip_short_rows)
  int64_t rows() const { return static_cast<int64_t>(texts.size()); }
  bool multi_label() const { return !label_sets.empty(); }
};

// TSV: a header, then rows with as many fields; tabs separate, quotes are literal, UTF-8 (BOM allowed), LF or CRLF. CSV
// (a name that ends in .csv): the same by data/csv.h. JSON (.jsonl or .json): rows in any form of data/json_rows.h,
// with the columns that any of them has; further keys are ignored. Empty lines are left out. The column rule of HF's
// run_glue.py: sentence1 and sentence2 where both exist, else the first one or two columns that are not "label";
// "labels", index columns (data/table_columns.h) and columns of JSON without any string are no text either. Which were
// taken is logged. A row without the second text, or with null, is a single text; an empty one is a text. Labels of TSV
// and CSV that are numbers lose a plus and the spaces around them, as pandas reads them, and where a file has integers
// alone those are spelled as numbers (-0 and 00 as 0); those of JSON may be true and false too. JSON with lists under
// "labels", and no "label", has several labels a row: by name, or a 0 or 1 for every label there is. Error with
// path:line: no rows, a missing column, another number of fields, invalid UTF-8, a label of another kind, a table that
// has both kinds of labels. With need_label a missing label column is an error, and so is an empty label; without,
// labels are not looked at.
TextTable ReadTextTable(const std::string& path, bool need_label, const TableColumns& columns = {});

// What a data set's own files have that others have not.
struct TableLayout {
  TableColumns columns;  // of a file that has one of the two texts; it must then have them all ("label" for the label)
  std::vector<std::string> header;  // of TSV files that begin without one; empty: they have one
  bool skip_short_rows = false;     // rows with fewer fields than the header are counted and left out, not an error
};
// A file in that layout, or, where it has neither text, one as above. A file begins without a header where its first
// line names neither the text nor a label; of files that need no labels only if it has as many fields as `header`.
TextTable ReadTextTable(const std::string& path, bool need_label, const TableLayout& layout,
                        const TableColumns& otherwise);

// Whether the labels are values to regress on and not names of classes. HF run_glue's rule: all are numbers, and not
// all integers; strings of JSON are names. Error with path:line where some are real numbers and others no numbers at
// all, and for an integer of more than 64 bits among numbers.
bool AreValues(std::span<const TextTable> tables);
// All labels of the table as numbers; Error with path:line for one that is none, or whose square, of which a loss is
// made, is not finite as float32.
std::vector<double> LabelValues(const TextTable& table);

// The labels of a table in order of id: sorted as text, or by value if all are integers; the places of its flags.
std::vector<std::string> DiscoverLabels(const TextTable& table);

// The id of a label: its place among `names`, else that of the only name that is the same integer (01 and 1), else, if
// it is a number and no name is, the number itself. −1: unknown.
int32_t LabelId(std::string_view label, const std::vector<std::string>& names);
// All labels of the table; Error with path:line and the known labels.
std::vector<int32_t> LabelIds(const TextTable& table, const std::vector<std::string>& names);

// [rows][names] the sets of labels as 0 and 1; Error with path:line for one that is not among the names, as LabelId has
// them, and where flags are not as many.
std::vector<std::vector<float>> LabelFlags(const TextTable& table, const std::vector<std::string>& names);

// All rows encoded on all cores; of LongText::kWindows each is an example of as many sequences as it has windows.
// `labels` may be empty. *truncated counts cut rows. Error with path:line for a row that EncodeLong refuses.
SequenceSet EncodeTable(const TextTable& table, std::span<const int32_t> labels, const Tokenizer& tokenizer,
                        const TextEncoding& how, int64_t* truncated = nullptr);

}  // namespace lshformer
