#include "data/corpus.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/signals.h"
#include "data/file_kind.h"
#include "data/table_columns.h"
#include "io/gzip.h"

namespace lshformer {
namespace {

// Text tokenised at once: enough for all cores, small beside the ids.
constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr size_t kPieceRows = 20000;

// A prefix of at most `limit` bytes that ends at a space or, failing that, between two UTF-8 characters.
size_t CutPoint(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text.size();
  const size_t space = text.rfind(' ', limit);
  if (space != std::string_view::npos && space > 0) return space;
  size_t cut = limit;
  while (cut > limit - 4 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return cut;
}

constexpr const char* kTextKey = "text";

// The first key that may hold a row's text; "" without one.
std::string FirstText(const Json& object) {
  for (const auto& [key, value] : object.items())
    if (value.is_string() && !IsIndexColumn(key)) return key;
  return "";
}

// Rows → sequences.
class SequenceMaker {
 public:
  SequenceMaker(const Tokenizer& tokenizer, const CorpusOptions& options, CorpusStatistics& statistics)
      : tokenizer_(tokenizer), options_(options), statistics_(statistics), set_(options.in_memory) {}

  void Add(std::string row) {
    bytes_ += row.size();
    rows_.push_back(std::move(row));
    if (bytes_ >= kPieceBytes || rows_.size() >= kPieceRows) Encode();
  }

  // What comes later changes none of the sequences that were asked for.
  bool HasEnough() const { return options_.max_sequences > 0 && set_.size() >= options_.max_sequences; }

  SequenceSet Finish() {
    Encode();
    if (set_.size() == 0 && !options_.line_by_line && group_.size() < static_cast<size_t>(options_.max_seq_length)) {
      if (!group_.empty()) set_.Add(group_);
    } else {
      CloseGroup();
    }
    return std::move(set_);
  }

 private:
  void Encode() {
    EncodeOptions encode;
    if (options_.line_by_line) encode.max_length = options_.max_seq_length;
    const size_t around = tokenizer_.text_template().one.tokens();
    for (const Encoding& encoding : EncodeAll(tokenizer_, rows_, {}, encode)) {
      if (encoding.ids.size() <= around) continue;  // nothing between the special tokens: a row of control characters
      ++statistics_.rows;
      statistics_.tokens += static_cast<int64_t>(encoding.ids.size());
      if (options_.line_by_line) {
        if (encoding.truncated) ++statistics_.truncated_rows;
        set_.Add(encoding.ids);
      } else {
        group_.insert(group_.end(), encoding.ids.begin(), encoding.ids.end());
        if (++group_rows_ == kRowsPerGroup) CloseGroup();
      }
    }
    rows_.clear();
    bytes_ = 0;
  }

  void CloseGroup() {
    const size_t block = static_cast<size_t>(options_.max_seq_length);
    size_t begin = 0;
    for (; begin + block <= group_.size(); begin += block) set_.Add(std::span(group_).subspan(begin, block));
    statistics_.dropped_tokens += static_cast<int64_t>(group_.size() - begin);
    group_.clear();
    group_rows_ = 0;
  }

  const Tokenizer& tokenizer_;
  const CorpusOptions& options_;
  CorpusStatistics& statistics_;
  SequenceSet set_;
  std::vector<std::string> rows_;
  size_t bytes_ = 0;
  std::vector<int32_t> group_;
  int group_rows_ = 0;
};

}  // namespace

RowReader::RowReader(const std::string& path, bool line_by_line) : path_(path), line_by_line_(line_by_line) {
  const bool json = HoldsJson(path);
  if (!json) RefuseTable(path);
  if (json)
    rows_.emplace(path, kJsonLineLimits);
  else
    lines_.emplace(path);
}

bool RowReader::NextLine() {
  if (!lines_->Next(line_)) return false;
  if (first_) StripByteOrderMark(line_);
  first_ = false;
  return true;
}

// "text", or what stands for it, over all rows of the file: the first may lack what the others have. A pipe can be read
// once alone: "" there.
std::string RowReader::FindTextKey() const {
  if (!CanBeReadAgain(path_)) return "";
  JsonRows rows(path_, kJsonLineLimits);
  std::string first;
  for (Json row; rows.Next(row);) {
    if (row.contains(kTextKey)) return kTextKey;
    if (first.empty()) first = FirstText(row);
  }
  return first;
}

void RowReader::FindKeys(const Json& object, bool pairs) {
  if (pairs && object.contains("question") && object.contains("context")) {
    key_ = "question", pair_key_ = "context";
  } else if (object.contains(kTextKey)) {
    key_ = kTextKey;
  } else if (pairs) {
    Fail("{}: expected \"text\", or \"question\" and \"context\"", rows_->where());
  } else {
    key_ = FindTextKey();
    if (key_.empty()) key_ = FirstText(object);
  }
  if (key_.empty()) Fail("{}: no key holds text, expected \"text\"", rows_->where());
  spdlog::info("{}: text is under \"{}\"", Shown(path_, 120), Shown(key_));
}

void RowReader::NextJson(std::string& row, std::optional<std::string>* pair) {
  for (Json object; rows_->Next(object);) {
    const bool first = key_.empty();
    if (first) FindKeys(object, pair != nullptr);
    if ((first || without_text_ > 0) && key_ == kTextKey && !object.contains(key_)) {
      ++without_text_;
      continue;
    }
    if (const int64_t left_out = std::exchange(without_text_, 0); left_out > 0)
      spdlog::warn("{}: {} rows before line {} have no \"{}\" and are left out", Shown(path_, 120), left_out,
                   rows_->line_number(), kTextKey);
    if (key_ != kTextKey && pair_key_ != "context" && object.contains(kTextKey))
      Fail("{}: has \"{}\", but the text of the rows before is under \"{}\"", rows_->where(), kTextKey, Shown(key_));
    row = GetString(object, key_, rows_->where());
    if (pair != nullptr && (pair_key_ == "context" || HasValue(object, pair_key_)))
      *pair = GetString(object, pair_key_, rows_->where());
    if (!IsBlank(row)) return;
  }
  row.clear();
}

bool RowReader::Next(std::string& row, std::optional<std::string>* pair) {
  row.clear();
  if (pair != nullptr) pair->reset();
  row.swap(rest_);
  if (rows_ && row.empty()) NextJson(row, pair);
  while (lines_ && row.size() <= kMaximalRow && NextLine()) {
    if (IsBlank(line_)) {
      if (!row.empty()) return true;
      continue;
    }
    if (!row.empty()) row += ' ';
    row += CleanUtf8(line_, &replaced_);
    if (line_by_line_) break;
  }
  if (row.size() > kMaximalRow) {
    const size_t cut = CutPoint(row, kMaximalRow);
    if (!line_by_line_) rest_ = row.substr(cut);
    row.resize(cut);
  }
  return !row.empty();
}

SequenceSet ReadCorpus(const std::vector<std::string>& paths, const Tokenizer& tokenizer, const CorpusOptions& options,
                       CorpusStatistics* statistics) {
  CheckMaxSeqLength(options.max_seq_length, /*texts=*/1, &tokenizer);
  CorpusStatistics counts;
  SequenceMaker maker(tokenizer, options, counts);
  Progress progress("reading text", 0, "rows");
  int64_t rows = 0;
  std::string first_replaced;
  for (const std::string& path : paths) {
    if (maker.HasEnough()) break;
    RowReader reader(path, options.line_by_line);
    const int64_t before = rows;
    std::string row;
    while (!maker.HasEnough() && reader.Next(row)) {
      maker.Add(std::move(row));
      progress.Update(++rows);
      if (rows % 1024 == 0) ThrowIfStopped("reading text");
    }
    if (rows == before) Fail("{}: holds no text", path);
    counts.bytes += reader.bytes_read();
    counts.replaced += reader.replaced();
    if (reader.replaced() > 0 && first_replaced.empty()) first_replaced = path;
  }
  SequenceSet set = maker.Finish();
  set.KeepFirst(options.max_sequences);
  if (set.size() == 0) Fail("{}: holds no text", paths.empty() ? "corpus" : paths.front());
  if (counts.replaced > 0) {
    spdlog::warn("{}: {} invalid UTF-8 sequences replaced by U+FFFD (first in {})", "text", counts.replaced,
                 first_replaced);
  }
  if (statistics != nullptr) *statistics = counts;
  return set;
}

int64_t ValidationShare(int64_t examples, double percentage, const char* unit) {
  if (!(percentage > 0 && percentage < 100))
    FailOption("validation_split_percentage", "expected more than 0 and less than 100, got {}", percentage);
  const auto wanted = static_cast<int64_t>(std::floor(static_cast<double>(examples) * percentage / 100));
  if (std::max<int64_t>(1, wanted) >= examples)
    FailOption("validation_split_percentage", "the training data has {} {}{}, too few to split", examples, unit,
               examples == 1 ? "" : "s");
  return std::max<int64_t>(1, wanted);
}

std::pair<SequenceSet, SequenceSet> SplitValidation(SequenceSet all, double percentage) {
  const int64_t validation = ValidationShare(all.size(), percentage, "sequence");
  SequenceSet front = all.SplitFront(validation);
  return {std::move(all), std::move(front)};
}

}  // namespace lshformer
